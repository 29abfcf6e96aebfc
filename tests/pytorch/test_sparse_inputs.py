"""Sparse tensors of every layout are inputs of graphs, and so are quantised ones: what operators on them give is eager's
in values, layout, strides and gradients, and no graph depends on how many elements a sparse tensor specifies. What is
not known of an operator ends the region before it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf, outcome

BACKENDS = ["eager", "aot_eager"]


def matrix(seed=0, size=6):
    numbers = torch.rand(size, size, generator=torch.Generator().manual_seed(seed))
    return torch.where(numbers > 0.5, numbers, 0.0)


LAYOUTS = {
    "coo": lambda seed=0: matrix(seed).to_sparse(),
    "uncoalesced": lambda seed=0: torch.sparse_coo_tensor([[0, 0, 5], [1, 1, 2]], [0.25, 0.5, 0.125], (6, 6)),
    "hybrid": lambda seed=0: matrix(seed).to_sparse(1),
    "csr": lambda seed=0: matrix(seed).to_sparse_csr(),
    "csc": lambda seed=0: matrix(seed).to_sparse_csc(),
    "bsr": lambda seed=0: matrix(seed).to_sparse_bsr((2, 3)),
    "bsc": lambda seed=0: matrix(seed).to_sparse_bsc((2, 3)),
    "coo of three dims": lambda seed=0: torch.stack([matrix(seed), matrix(seed + 1)]).to_sparse(),
    "batch of csr": lambda seed=0: torch.stack([matrix(seed), matrix(seed)]).to_sparse_csr(),
}

ELEMENTWISE = "abs asin asinh atan ceil erf expm1 floor log1p neg relu round sin sinh sqrt tan tanh trunc".split()


def under_autocast(a, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.sparse.mm(a, x)


def in_two_steps(a, x):
    normal = torch.sparse.softmax(a, 1)
    return torch.relu(normal @ (a @ x)) + (-a * 2).to_dense().sum()


USES = {
    "sparse.mm": torch.sparse.mm,
    "matmul": lambda a, x: a @ x,
    "of transposed": lambda a, x: a @ x.t().contiguous().t(),
    "addmm": lambda a, x: torch.addmm(x, a, x),
    "addmm of a row": lambda a, x: torch.addmm(x[0], a, x, beta=0.5, alpha=2),
    "sparse.addmm": lambda a, x: torch.sparse.addmm(x, a, x),
    "mv": lambda a, x: torch.mv(a, x[:, 0]),
    "matmul of a vector": lambda a, x: a @ x[:, 0],
    "from the left": lambda a, x: x.t() @ a,
    "linear": lambda a, x: nn.functional.linear(x.t(), a),
    "bmm": lambda a, x: torch.bmm(a, torch.stack([x, x * 2])),
    "t": lambda a, x: a.t(),
    "of t": lambda a, x: a.transpose(0, 1) @ x,
    "to_dense": lambda a, x: a.to_dense() + 1,
    "sum": lambda a, x: a.sum() + 1,
    "sparse.sum": lambda a, x: torch.sparse.sum(a) + 1,
    "times a number": lambda a, x: 2 * a,
    "times itself": lambda a, x: a * a,
    "times a matrix": lambda a, x: a * torch.full((6, 6), 2.0),
    "over a number": lambda a, x: a / 2,
    "added": lambda a, x: torch.ones(6, 6) + a,
    "added to": lambda a, x: a + torch.ones(6, 6),
    "coalesce": lambda a, x: a.coalesce(),
    "clone": lambda a, x: a.clone(),
    "detach": lambda a, x: a.detach() @ x,
    "double": lambda a, x: a.double(),
    "csr": lambda a, x: a.to_sparse_csr(),
    "softmax": lambda a, x: torch.sparse.softmax(a, 1),
    "log_softmax": lambda a, x: torch.sparse.log_softmax(a, 1).to_dense(),
    "sampled_addmm": lambda a, x: torch.sparse.sampled_addmm(a, x, x.t()),
    "in two steps": in_two_steps,
    "given back": lambda a, x: (a, x + 1),
    "is_coalesced": lambda a, x: x * 2 if a.is_coalesced() else x * 3,
    "dims": lambda a, x: x * (a.sparse_dim() + 2 * a.dense_dim() + a.dim() + len(a)),
    "layout": lambda a, x: x * (2 if a.layout is torch.sparse_coo else 3) + a.is_sparse,
    "sizes": lambda a, x: x * a.shape[0] + a.size(1) + a.numel(),
    "nnz": lambda a, x: x + a._nnz(),
    "values": lambda a, x: a.values() * 2,
    "indices": lambda a, x: a.indices() * 2,
    "crow_indices": lambda a, x: a.crow_indices().sum() + x,
    "stride": lambda a, x: x * a.stride()[0],
    "is_contiguous": lambda a, x: x * (1 + a.is_contiguous()),
    "in place": lambda a, x: a.mul_(2.0),
    "one row": lambda a, x: a[0].to_dense(),
    "made inside": lambda a, x: torch.sparse_coo_tensor([[0], [1]], [2.0], (6, 6)) @ x,
    "under autocast": under_autocast,
    **{name: lambda a, x, name=name: getattr(a, name)() for name in ELEMENTWISE},
}
# Captured as one graph wherever eager takes them.
CAPTURED = {
    name for name in USES if name not in ("nnz", "values", "indices", "crow_indices", "stride", "is_contiguous")
}
CAPTURED -= {"in place", "one row", "made inside", "under autocast"}
MORE_DIMS = ("times itself", "times a matrix", "added", "double", "softmax", "log_softmax", "csr")


def seen(value):
    if isinstance(value, tuple):
        return [seen(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    is_strided = value.layout is torch.strided
    facts = [value.layout, value.dtype, value.shape, value.requires_grad]
    facts.append(value.stride() if is_strided else value._nnz())
    facts.append(value.is_coalesced() if value.layout is torch.sparse_coo else None)
    return [*facts, str((value if is_strided else value.to_dense()).detach().tolist())]


def with_gradients(f, a, x):
    """What a call gives, and the gradients behind it."""

    def call():
        result = f(a, x)
        first = result[0] if isinstance(result, tuple) else result
        if first.requires_grad and first.grad_fn is not None:
            (first if first.layout is torch.strided else first.to_dense()).sum().backward()
        return seen(result), seen(x.grad), seen(a.grad) if a.is_leaf else None, result is a

    return outcome(call)


def inputs(layout, gradients, seed=0):
    a = LAYOUTS[layout](seed).requires_grad_(gradients == "both")
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    return a, x.requires_grad_(gradients is not None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gradients", [None, "dense", "both"])
@pytest.mark.parametrize("layout", LAYOUTS)
class TestEveryLayoutInEveryUse:
    def test_is_as_eager(self, layout, gradients, backend):
        for name, f in USES.items():
            compiled = pellucid.compile(f, backend=backend)
            for seed in (0, 0, 3):  # another number of non-zeros
                want = with_gradients(f, *inputs(layout, gradients, seed))
                got = with_gradients(compiled, *inputs(layout, gradients, seed))
                assert got == want, (name, got, want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_graph_wherever_eager_takes_the_call(layout):
    taken = 0
    for name in sorted(CAPTURED):
        want = with_gradients(USES[name], *inputs(layout, None))
        if want[0] == "raises" or (layout not in ("coo", "uncoalesced", "csr") and name in MORE_DIMS):
            continue
        counting = CountingOf("eager")
        compiled = pellucid.compile(USES[name], backend=counting, fullgraph=True)
        assert with_gradients(compiled, *inputs(layout, None)) == want, name
        assert with_gradients(compiled, *inputs(layout, None, 3)) is not None
        assert counting.count <= 1, name  # one whose number of non-zeros is another takes the same graph
        taken += 1
    assert taken > 20


@pytest.mark.parametrize("name", ["sparse.mm", "addmm", "to_dense", "sum", "in two steps", "coalesce", "of t"])
def test_aot_eager_takes_coo(name):
    compiled = pellucid.compile(USES[name], backend="aot_eager", fullgraph=True)
    for seed in (0, 3):
        want = with_gradients(USES[name], *inputs("coo", "dense", seed))
        assert want[0] == "value"
        assert with_gradients(compiled, *inputs("coo", "dense", seed)) == want


def test_what_raises_at_the_values_is_raised_as_in_eager():
    def product(a, b, x):
        return a @ (b @ x)

    compiled = pellucid.compile(product, backend="eager")
    a, b, x = LAYOUTS["csr"](), LAYOUTS["bsc"](), torch.ones(6, 2)
    want = outcome(product, a, b, x)
    assert want[0] == "raises"
    assert outcome(compiled, a, b, x) == want


class TestGuards:
    def made(self, f):
        counting = CountingOf("eager")
        return pellucid.compile(f, backend=counting), counting

    def test_layout_dtype_sizes_and_whether_it_is_coalesced(self):
        def f(a, x):
            return (a @ x) * (2 if a.layout is torch.sparse_coo and a.is_coalesced() else 3)

        compiled, counting = self.made(f)
        x = torch.ones(6, 2)
        kinds = [LAYOUTS["coo"](), LAYOUTS["uncoalesced"](), LAYOUTS["csr"](), LAYOUTS["csc"]()]
        for a in kinds + kinds:
            assert torch.equal(compiled(a, x), f(a, x))
        assert counting.count == len(kinds)
        double = LAYOUTS["coo"]().double()
        assert torch.equal(compiled(double, x.double()), f(double, x.double()))
        wide = matrix(0, 8).to_sparse()
        assert torch.equal(compiled(wide, torch.ones(8, 2)), f(wide, torch.ones(8, 2)))

    def test_the_sizes_of_blocks_and_of_dense_dims(self):
        def f(a):
            return a.to_dense() * (1 + a.dense_dim())

        compiled, counting = self.made(f)
        blocks = [matrix().to_sparse_bsr((2, 3)), matrix().to_sparse_bsr((3, 2))]
        for a in [LAYOUTS["coo"](), LAYOUTS["hybrid"](), *blocks, LAYOUTS["hybrid"]()]:
            assert torch.equal(compiled(a), f(a))
        assert counting.count == 4

    def test_requires_grad(self):
        def f(a, x):
            return (a @ x) * (2 if a.requires_grad else 3)

        compiled, counting = self.made(f)
        for gradients in (None, "both", None):
            assert with_gradients(compiled, *inputs("coo", gradients)) == with_gradients(f, *inputs("coo", gradients))
        assert counting.count == 2


class TestMemoryThatIsShared:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_values_that_the_region_writes(self, backend):
        def f(a, values, x):
            before = a @ x
            values.mul_(2)
            return before, a @ x

        results = []
        for call in (f, pellucid.compile(f, backend=backend)):
            values = torch.tensor([1.0, 2.0])
            a = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2), is_coalesced=True)
            results.append([*map(seen, call(a, values, torch.ones(2, 2))), seen(values)])
        assert results[0] == results[1]
        assert results[0][0] != results[0][1]

    def test_values_that_are_an_input_themselves(self):
        def f(values, a, x):
            return values * 2, a @ x

        a = LAYOUTS["csr"]()
        compiled = pellucid.compile(f, backend="eager")
        assert seen(compiled(a.values(), a, torch.ones(6, 1))) == seen(f(a.values(), a, torch.ones(6, 1)))


class Gcn(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)
        self.register_buffer("adjacency", adjacency)

    def forward(self, x):
        hidden = torch.relu(torch.sparse.mm(self.adjacency, self.first(x)))
        return torch.log_softmax(self.adjacency @ self.second(hidden), dim=1)


def trained(adjacency, compiled_with=None, steps=3):
    torch.manual_seed(0)
    model = Gcn(adjacency)
    call = model if compiled_with is None else pellucid.compile(model, backend=compiled_with, fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(call(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.tolist() for parameter in model.parameters()]


@pytest.mark.parametrize(("layout", "backend"), [("coo", "eager"), ("csr", "eager"), ("coo", "aot_eager")])
def test_a_gcn_is_trained_with_one_graph(layout, backend):
    counting = CountingOf("eager")
    want = trained(LAYOUTS[layout]())
    assert trained(LAYOUTS[layout](), counting if backend == "eager" else backend) == want
    assert counting.count == (backend == "eager")


def test_torch_compile_does_not_take_the_whole_of_it():
    model, ours = Gcn(LAYOUTS["coo"]()), CountingOf("eager")
    x = torch.randn(6, 4)
    torch._dynamo.reset()
    assert outcome(torch.compile(model, backend="eager", fullgraph=True), x)[0] == "raises"
    assert torch.equal(pellucid.compile(model, backend=ours)(x), model(x))
    assert ours.count == 1


class TestQuantised:
    def per_tensor(self, scale=0.1):
        return torch.quantize_per_tensor(matrix() - 0.5, scale, 3, torch.qint8)

    def per_channel(self):
        return torch.quantize_per_channel(matrix(), torch.full((6,), 0.1), torch.zeros(6), 0, torch.quint8)

    def channels_last(self):
        images = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
        return torch.quantize_per_tensor(images, 0.1, 0, torch.quint8)

    @pytest.mark.parametrize("kind", ["per_tensor", "per_channel", "channels_last"])
    @pytest.mark.parametrize("read", [lambda q: q.dequantize() * 2, lambda q: q.int_repr() + 1])
    def test_one_graph_and_as_eager(self, kind, read):
        counting = CountingOf("eager")
        compiled = pellucid.compile(read, backend=counting, fullgraph=True)
        q = getattr(self, kind)()
        assert seen(compiled(q)) == seen(read(q))
        assert counting.count == 1

    def test_the_graph_serves_another_scale(self):
        counting = CountingOf("eager")
        compiled = pellucid.compile(lambda q: q.dequantize() * 2, backend=counting)
        for scale in (0.1, 0.5):
            q = self.per_tensor(scale)
            assert torch.equal(compiled(q), q.dequantize() * 2)
        assert counting.count == 1

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_other_uses_are_as_eager(self, backend):
        uses = [
            lambda q: q.dequantize() * q.q_scale(),
            lambda q: torch.relu(q).dequantize() + q.q_zero_point(),
            lambda q: q.clone().dequantize() + 1,
            lambda q: q.reshape(-1).dequantize() + 1,
            lambda q: (q.is_quantized, q.dtype, q.qscheme(), q.shape),
        ]
        for f in uses:
            for q in (self.per_tensor(), self.per_channel(), self.per_tensor(0.5)):
                got, want = outcome(pellucid.compile(f, backend=backend), q), outcome(f, q)
                assert got[0] == want[0]
                assert seen(got[1]) == seen(want[1])
