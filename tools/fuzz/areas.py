"""Programs about what torch does with functions: derivatives and transforms, functions with their own gradient, checkpoints, hooks,
tensor subclasses, operators with branches, optimizers, arrays. Templates as expressions.py and statements.py tell."""

HEAD = """
import numpy
from torch.utils.checkpoint import checkpoint


class Twice(torch.autograd.Function):
    rate = 2

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * Twice.rate + n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * Twice.rate + x * ctx.n, None


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clamp(-1, 1), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < 1)


class Tagged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.calls.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {{}})


class Scaled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.add, torch.Tensor.add, torch.Tensor.__add__):
            return super().__torch_function__(torch.sub, types, args, kwargs or {{}})
        return super().__torch_function__(function, types, args, kwargs or {{}})


class Counting(torch.overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {{}}))


# torch.cond outside of a graph is compiled by torch._dynamo, which takes seconds. Times one, for autograd's node behind
# torch.cond has a name of its own.
def choose(condition, first, second, *operands):
    compiling = torch.compiler.is_compiling()
    result = torch.cond(condition, first, second, operands) if compiling else (first if condition else second)(*operands)
    return result * 1


def noted_gradient(grad):
    LOG.append(float(grad.sum()))
    return grad * 2


WEIGHT = torch.nn.Parameter(torch.ones(2, 3))
SGD = torch.optim.SGD([WEIGHT], lr=0.5, momentum=0.5)
"""

RESET = """
    Twice.rate = 2
    Tagged.calls.clear()
    with torch.no_grad():
        WEIGHT.fill_(1.0)
    WEIGHT.grad = None
    SGD.state.clear()
"""

CHANGE = """
    Twice.rate += 1
    SGD.param_groups[0]["lr"] *= 0.5
"""

EXPRESSIONS = {
    "T": """
torch.vmap(lambda <v:V>: {V})({^T})
torch.vmap(lambda <v:V>, <w:V>: {V} + {w}, in_dims=(0, None))({T}, {^V})
torch.vmap({fV})({T})
torch.vmap(lambda <v:V>: {V}, in_dims=1, out_dims=1)({^T}.t())
torch.func.grad(lambda <t:T>: {T}.sum())({^T})
torch.func.grad(lambda <t:T>, <i:int>: ({T} * {i}).sum())({T}, {^int})
torch.func.grad_and_value(lambda <t:T>: {T}.mean())({^T})[0]
torch.func.grad(lambda <t:T>: torch.func.grad(lambda <u:T>: {T}.pow(2).sum())({t}).sum())({^T})
torch.vmap(torch.func.grad(lambda <v:V>: {V}.sum()))({^T})
torch.func.jvp(lambda <t:T>: {T}, ({^T},), ({^T},))[1]
torch.func.vjp(lambda <t:T>: {T}, {^T})[1]({T})[0]
torch.func.jacrev(lambda <v:V>: {V})({^V})[:2]
torch.func.functional_call(MODULE, {{"linear.bias": {V}}}, ({T},))
Twice.apply({T}, {int})
Twice.apply({T}, {int}) * 2 + {T}
Clipped.apply({T})[0]
torch.where(Clipped.apply({T})[1], {T}, {T})
checkpoint(lambda <t:T>: {T}, {^T}, use_reentrant=False)
checkpoint({fT}, {T}, use_reentrant=False)
checkpoint(MODULE, {T}, use_reentrant=False)
({T}.as_subclass(Tagged) + {T}).as_subclass(torch.Tensor)
({T}.as_subclass(Scaled) + {T}).sin().as_subclass(torch.Tensor)
torch.cat([{T}.as_subclass(Tagged), {T}])[:2].as_subclass(torch.Tensor)
{T}.as_subclass(Tagged)
choose({bool}, lambda <t:T>: <t> * {^float}, lambda <u:T>: <u>.sin() + {^float}, {^T})
choose({T}.sum() > {int}, lambda <t:T>: <t> * {^float}, lambda <u:T>: <u>.sin() + {^float}, {^T})
torch.autograd.grad(({T} * WEIGHT).sum(), WEIGHT)[0]
torch.autograd.grad((({T} + 1) * WEIGHT ** 2).sum(), WEIGHT, create_graph=True)[0]
WEIGHT * {T}
WEIGHT.grad if WEIGHT.grad is not None else {T}
torch.from_numpy(numpy.sqrt(numpy.abs({T}.detach().numpy())))
torch.from_numpy({T}.detach().numpy() * {int}).float()
torch.as_tensor({T}.detach().numpy().cumsum(0))
{T} * random.random()
torch.full((2, 3), float(random.randint(0, {int} % 5 + 1)))
""",
    "V": """
torch.func.grad(lambda <v:V>: {V}.sum())({^V})
torch.vmap(lambda <v:V>: {V}.sum())({^T}.t())
Twice.apply({V}, {int})
checkpoint(lambda <v:V>: {V}, {^V}, use_reentrant=False)
({V}.as_subclass(Scaled) + 1).as_subclass(torch.Tensor)
torch.func.hessian(lambda <v:V>: ({V} ** 2).sum())({^V})[0]
""",
    "fV": """
(lambda <v:V>: {V})
torch.relu
functools.partial(torch.add, {V})
""",
}
LEAVES = {"fV": ["torch.relu"]}

SIMPLE = """
(({T} * WEIGHT).sum() * 2).backward()

SGD.zero_grad()

SGD.step()

<x:T> = {T} * WEIGHT
{x}.register_hook(noted_gradient)

<x:T> = {T} * WEIGHT
{x}.register_hook(lambda <~g:T>: {g} * {int})
{x}.sum().backward()

WEIGHT.data = {T}.detach().clone()

WEIGHT.grad = {T}.detach().clone()

Twice.rate = {int}

<x:T> = {T}.detach().requires_grad_()
({x} * {T}).sum().backward()
LOG.append({x}.grad)

torch.nn.utils.clip_grad_norm_([WEIGHT], {float} + 2) if WEIGHT.grad is not None else None

LOG.append(list(Tagged.calls))

LOG.append(random.random())

random.shuffle({lint!})

LOG.append(float(numpy.asarray({lint} + [1]).mean()))
"""

COMPOUND = """
with Counting() as <~m:any>:
    BLOCK
    LOG.append(list({m}.names))

with torch._C.DisableTorchFunctionSubclass():
    BLOCK

def <h:fT>(<~t:T>):
    NONLOCAL
    DEF
    return torch.func.grad(lambda <~u:T>: {T}.sum())({t})

def <h:fV>(<~v:V>):
    NONLOCAL
    DEF
    return {V}

def <h:fT>(<~t:T>):
    NONLOCAL
    DEF
    return checkpoint(lambda <~u:T>: {T}, {t}, use_reentrant=False)

with torch.autograd.graph.saved_tensors_hooks(lambda <~t:T>: {t} * 1, lambda <~t:T>: {t}):
    BLOCK

try:
    <~x:T> = torch.func.grad(lambda <~t:T>: {T})({T})
except RuntimeError:
    BLOCK

for <~i:int> in range({int} % 3):
    SGD.zero_grad()
    ({T} * WEIGHT).sum().backward()
    SGD.step()
    LOOP
"""
