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
{R}[-2:]
{R}[:2] + {V}
{T} * {rate}
{T} + {rate}
{T} @ {R!r}.t() @ {r}
torch.nn.functional.scaled_dot_product_attention({T}[None], {R!r}[None], {r}[None])[0]
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
{R}.mean(0)
{R}[-1]
{R}.sum(0) / len({R!})
{R}.amax(0)
({V} @ {R!r}.t()).softmax(0) @ {r}
{R!r}[len({r}) // 2]
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

# Tensors of any number of rows, as caches are: most calls get them longer than the one before.
ROWS = """
torch.cat([{R}, {T}])
torch.cat([{R}, {T}])
torch.cat(({R}, {V}.unsqueeze(0)))
torch.cat([{R}, {R}])[-9:]
torch.cat([{R}, {V}.expand(2, 3)], dim=0)
torch.vstack([{R}, {V}])
{R}[1:]
{R}[:-1]
{R}[-4:]
{R}[{int}:]
{R}[:{int}]
{R}[::2]
{R}.narrow(0, 1, len({R!}) - 1) |WRONG
{R} * {float}
{R} * {rate}
{R} + {V}
{R} + {R} |WRONG
{R} / len({R})
{R} + {int}
{R} ** {int} |WRONG
{R}.relu()
{R}.softmax(0)
{R}.cumsum(0)
{R}.flip(0)
{R}.roll(1, 0)
{R}.clone()
{R}.contiguous()
{R}.detach()
{R}.t().contiguous().t()
{R}.t().reshape(-1, 3)
{R!r}.reshape({r}.shape)
{R!r}.view({r}.size(0), -1)
{R!r}.reshape(-1).view(len({r}), 3)
{R!r}.view(-1)[: 3 * ({r}.shape[0] // 2)].view(-1, 3)
{R}.unsqueeze(1).squeeze(1)
{R}.repeat(2, 1)
{R}.repeat_interleave(2, 0)
{R}.masked_fill({R!}[-1:] > {int}, {float})
{R!r}.masked_fill(torch.arange({r}.shape[0])[:, None] > {int}, 0)
{R!r}.index_select(0, torch.arange({r}.shape[0] - 1))
{R!r}.gather(0, torch.zeros_like({r}, dtype=torch.int64))
{R!r}[torch.arange(len({r})) // 2]
{R!r}.new_zeros({r}.shape[0], 3)
{R!r}.new_full((len({r}) + 1, 3), {float})
torch.ones(len({R!}), 3)
torch.arange(3.0 * len({R!})).view(-1, 3)
torch.linspace(0, {float}, len({R!}))[:, None].expand(-1, 3)
torch.eye(len({R!}))[:, :1] + {V}
torch.nn.functional.pad({R}, (0, 0, 0, 1))
torch.nn.functional.pad({R}, (0, 0, {int} % 3, 0), value={float})
{R!r}.scatter(0, torch.full((1, 3), len({r}) - 1), {float})
torch.where({R!r} > {r}.mean(), {r}, {V})
torch.tril({R!r} @ {r}.t()) @ {r}
({R!r} @ {r}.t()).softmax(-1) @ {r}
torch.nn.functional.scaled_dot_product_attention({R!r}[None], {r}[None], {r}[None])[0]
torch.nn.functional.scaled_dot_product_attention({T!}[None], {R!r}[None], {r}[None], is_causal={bool})[0]
torch.nn.functional.linear({R}, torch.ones(3, 3))
torch.nn.functional.layer_norm({R}, (3,))
torch.einsum("ij,kj->ik", {R!r}, {r}) @ {r}
{R}.chunk(2)[0]
{R}.split(2)[-1]
torch.cat({R}.split(2)[::-1])
torch.cat(list({R}.unbind(0))).view(-1, 3) |WRONG
{R}.unfold(0, 2, 1)[..., 0] |WRONG
{R}.sort(0).values
{R} if {bool} else {R}
{R} if len({R!}) > {int} else {T}
MODULE({R})
KEPT['rows']
KEPT.get({str}, {R})
STEPS[-1] if STEPS else {R}
getattr({obj}, "rows", {R})
{T}
"""
