"""Expressions of tensors: templates as expressions.py tells."""

T = """
{T} + {T}
{T} * {T}
{T} - {V}
{T} * {float}
{T} + {int}
{int} - {T}
{T} / 2
-{T}
{T}.abs()
torch.relu({T})
torch.sin({T})
{T}.tanh()
{T} @ torch.ones(3, 3)
{T}.clone()
{T}.t().contiguous().t()
{T}.reshape(3, 2).t()
{T}.reshape(-1).reshape(2, 3)
{T}.reshape({T!}.shape)
{T}.flatten()[:6].view(2, 3)
{T}.transpose(0, 1).transpose(0, 1)
{T}.expand(2, 3)
{V}.expand(2, 3)
{V}.unsqueeze(0) + {T}
{T}.detach()
{T}.detach().requires_grad_()
torch.ones(2, 3, requires_grad=True)
{T}.clamp(-1, {float})
torch.where({T} > {T}, {T}, {T})
torch.stack([{V}, {V}])
torch.cat([{T}, {T}])[:2]
torch.cat({lT} + [{T}])[-2:]
sum({lT}, {T})
torch.zeros(2, 3)
torch.ones_like({T})
torch.full((2, 3), {float})
torch.arange(6.0).view(2, 3)
torch.tensor([[{int}, 1.0, 2], [3, 4, 5]])
{I}.float()
{I}.to(torch.float32)
{T}.to(torch.float64).float()
{T}.type_as({T})
{T}.softmax(dim=-1)
{T}.cumsum({int} % 2)
{T}.masked_fill({T} > 0, {float})
{T}.add_({T})
{T}.mul_({int})
{T}.clone().add_({int})
{T}.copy_({T})
{T}.flip(0)
{T}[:, [2, 0, 1]]
{T}[[1, 0]]
{T}[{T!}[:, 0].argsort()]
{T}[...]
{T}.index_fill(0, torch.tensor([{int} % 2]), {int})
{T} if {bool} else {T}
{lT}[{int}] |WRONG
{lT}[0] if {lT} else {T}
{dsT}.get({str}, {T})
{dsT}["a"] |WRONG
{obj}.apply({T})
{obj}.buf
{fT}({T})
{fT}({T})
MODULE({T})
MODULE.scale * {T}
torch.nn.functional.relu({T})
torch.nn.functional.linear({T}, torch.ones(3, 3))
torch.nn.functional.dropout({T}, 0.5, training=False)
functools.reduce(torch.add, {lT}, {T})
{T}.chunk(1)[0]
torch.rand(2, 3) |BREAK
{T}.index_select(0, {I}[0][:2] % 3) |FAILS
torch.gather({T}, 0, {I} % 3) |FAILS
{T}[{I}[:, 0]] |FAILS
torch.linalg.inv({T} @ {T}.t()) @ {T} |FAILS
{T}.scatter_(0, {I} % 3, {int}) |FAILS
{T}.index_add_(0, {I}[:, 2], {T}) |FAILS
{T}.bernoulli_({T} / 2) |FAILS
torch.nn.functional.embedding({I}[:, 0], {T}) |FAILS
{T} @ {T} |WRONG
{T}.view(5, 2) |WRONG
{T}[{int}].expand(2, 3) |WRONG
G_TENSOR
"""

V = """
{T}[0]
{T}[-1]
{T}[{int} % 2]
{T}.sum(0)
{T}.mean(dim=0)
{T}.max(0).values
{V} + {V}
{V} * {int}
{V}.neg()
{T}.select(0, 1)
{T}.unbind()[1]
torch.ones(3)
torch.tensor([1.0, {float}, {int}])
{V}.flip(0)
{V}.add_({V})
{T}[1].mul_({int})
{T}.diagonal()[:1].expand(3)
{V} if {bool} else {V}
torch.linspace(0, {int}, 3)
{T}[:, :].amax(0)
{V}.sort().values
{T}[{T!} > 100][:3].sum() + {V} |BREAK
"""

INTEGERS = """
{T}.long()
{T}.argsort(-1)
{I} + {I}
{I} * {int}
{I} // 2
{I} // {I} |FAILS
{I} % {I} |FAILS
torch.div({I}, {int}, rounding_mode="trunc") |FAILS
{I}.take({I}.abs() % 7) |FAILS
{I} % 3
torch.arange(6).view(2, 3)
({T} > {T}).long()
torch.full((2, 3), {int})
{I}.add_({int})
{I}.clone()
torch.where({bool}, {I}, {I}) |WRONG
torch.ones_like({I})
"""
