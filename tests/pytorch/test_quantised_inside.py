"""What a region quantises itself: its fakes have the dtype, strides and key of what eager gives, so what reads it is in
the same graph. Who compiles graphs is given those alone that end with such a tensor."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pellucid
from support import CountingOf, outcome

BACKENDS = ["eager", "aot_eager"]
DTYPES = [torch.qint8, torch.quint8, torch.qint32]


def values(*sizes, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def per_tensor(x, dtype=torch.quint8):
    return torch.quantize_per_tensor(x, 0.1, 10, dtype)


def by_tensors(x, dtype=torch.quint8):
    return torch.quantize_per_tensor(x, torch.tensor(0.1), torch.tensor(10), dtype)


def per_channel(x, dtype=torch.qint8):
    channels = x.shape[0] if x.dim() else 1
    scales = torch.arange(1, channels + 1) * 0.1
    return torch.quantize_per_channel(x, scales, torch.zeros(channels, dtype=torch.int64), 0, dtype)


def per_channel_of_floats(x, dtype=torch.quint8):
    channels = x.shape[0] if x.dim() else 1
    return torch.quantize_per_channel(x, torch.ones(channels) / 8, torch.ones(channels), 0, dtype)


def dynamic(x, dtype=torch.qint8):
    return torch.quantize_per_tensor_dynamic(x, dtype, False)


MAKERS = {f.__name__: f for f in (per_tensor, by_tensors, per_channel, per_channel_of_floats, dynamic)}


def plain(value):
    return [value.dtype, value.shape, value.stride(), value.requires_grad, str(value.detach().tolist())]


def numbers_of(q):
    """By which it is quantised."""
    if q.qscheme() == torch.per_tensor_affine:
        return [q.qscheme(), q.q_scale(), q.q_zero_point()]
    of_channels = q.q_per_channel_scales().tolist(), q.q_per_channel_zero_points().tolist()
    return [q.qscheme(), q.q_per_channel_axis(), of_channels]


def seen(value):
    if isinstance(value, (tuple, list)):
        return [seen(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_quantized:
        return plain(value)
    facts = [value.dtype, value.stride(), value.requires_grad, value.is_leaf, value.untyped_storage().nbytes()]
    return [*facts, *numbers_of(value), plain(value.int_repr()), plain(value.dequantize())]


LAYOUTS = {
    "contiguous": lambda seed=0: values(2, 3, 4, 5, seed=seed),
    "channels_last": lambda seed=0: values(2, 3, 4, 5, seed=seed).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda seed=0: values(2, 3, 4, 5, 2, seed=seed).to(memory_format=torch.channels_last_3d),
    "one channel": lambda seed=0: values(2, 1, 4, 4, seed=seed).to(memory_format=torch.channels_last),
    "transposed": lambda seed=0: values(3, 4, seed=seed).t(),
    "permuted": lambda seed=0: values(2, 3, 4, 5, seed=seed).permute(0, 2, 3, 1),
    "expanded": lambda seed=0: values(1, 4, seed=seed).expand(3, 4),
    "with gaps": lambda seed=0: values(4, 6, seed=seed)[:, ::2],
    "behind an offset": lambda seed=0: values(4, 6, seed=seed)[1:],
    "vector": lambda seed=0: values(7, seed=seed),
    "empty": lambda seed=0: values(0, 3, seed=seed),
    "number": lambda seed=0: values(seed=seed),
}

READS = {
    "given back": lambda q, x: (q, x + 1),
    "dequantize": lambda q, x: q.dequantize() * 2,
    "torch.dequantize": lambda q, x: torch.dequantize(q) + x,
    "int_repr": lambda q, x: q.int_repr() + 1,
    "all": lambda q, x: (q.dequantize(), q.int_repr(), q),
    "twice": lambda q, x: (torch.quantize_per_tensor(q.dequantize() * 2, 0.5, 3, torch.qint8), q),
    "facts": lambda q, x: (q.is_quantized, q.dtype, q.shape, q.stride(), q.is_contiguous(), q.layout, x * q.dim()),
}


def made_and_read(make, read, dtype=None):
    def f(x):
        return read(make(x) if dtype is None else make(x, dtype), x)

    return f


class TestOneGraph:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("maker", MAKERS)
    def test_every_layout_in_every_use(self, maker, layout):
        taken = 0
        for name, read in READS.items():
            f, counting = made_and_read(MAKERS[maker], read), CountingOf("eager")
            compiled = pellucid.compile(f, backend=counting, fullgraph=True)
            for seed in (0, 1):
                want = outcome(lambda f=f, seed=seed: seen(f(LAYOUTS[layout](seed))))
                got = outcome(lambda c=compiled, seed=seed: seen(c(LAYOUTS[layout](seed))))
                assert got == want, name
                taken += want[0] == "value"
            assert counting.count == 1, name
        eager_refuses = (maker, layout) == ("dynamic", "empty") or (
            maker.startswith("per_channel") and layout == "number"
        )
        assert taken == (0 if eager_refuses else 2 * len(READS))

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("maker", ["per_tensor", "by_tensors", "per_channel"])
    def test_every_dtype(self, maker, dtype):
        f, counting = made_and_read(MAKERS[maker], READS["all"], dtype), CountingOf("eager")
        compiled = pellucid.compile(f, backend=counting, fullgraph=True)
        assert seen(compiled(values(3, 4))) == seen(f(values(3, 4)))
        assert counting.count == 1

    def test_a_list_of_tensors(self):
        def f(x, y, scales):
            first, second = torch.quantize_per_tensor([x, y], scales, torch.tensor([3, 0]), torch.quint8)
            return first, second.dequantize() + y

        counting = CountingOf("eager")
        compiled = pellucid.compile(f, backend=counting, fullgraph=True)
        for scales in (torch.tensor([0.1, 0.2]), torch.tensor([0.5, 0.25])):
            inputs = values(3, 4), values(5), scales
            assert seen(compiled(*inputs)) == seen(f(*inputs))
        assert counting.count == 1

    def test_the_graph_holds_the_operators(self):
        kept = []

        def backend(graph, example_inputs):
            kept.append([str(node.target) for node in graph.graph.nodes if node.op.startswith("call")])
            return graph.forward

        backend.takes_numbers = True
        f = made_and_read(per_tensor, lambda q, x: (q.dequantize(), q.int_repr()))
        compiled = pellucid.compile(f, backend=backend)
        assert seen(compiled(values(4))) == seen(f(values(4)))
        assert len(kept) == 1
        assert len(kept[0]) == 3
        assert "quantize_per_tensor" in kept[0][0]
        assert kept[0][1:] == ["dequantize", "int_repr"]

    def test_torch_compile_does_not_tell_that_it_is_quantised(self):
        """Why torch's own meta kernel is no source of fakes."""
        f = made_and_read(per_tensor, READS["facts"])
        torch._dynamo.reset()
        want = f(values(3, 4))
        assert torch.compile(f, backend="eager")(values(3, 4))[:2] != want[:2]
        assert pellucid.compile(f, backend="eager")(values(3, 4))[:2] == want[:2] == (True, torch.quint8)


class TestCalls:
    def test_scales_and_zero_points_that_are_tensors(self):
        def f(x, scale, zero_point):
            q = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
            return q, q.dequantize() + 1

        counting = CountingOf("eager")
        compiled = pellucid.compile(f, backend=counting, fullgraph=True)
        for scale, zero_point in ((0.1, 3), (0.5, 0), (0.25, 200)):
            inputs = values(3, 4), torch.tensor(scale), torch.tensor(zero_point)
            assert seen(compiled(*inputs)) == seen(f(*inputs))
        assert counting.count == 1

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_a_scale_that_changes(self, backend):
        def f(x, scale):
            return torch.quantize_per_tensor(x, scale, 3, torch.quint8)

        counting = CountingOf(backend)
        compiled = pellucid.compile(f, backend=counting)
        for scale in (0.1, 0.5, 0.25, 0.75, 0.125):
            assert seen(compiled(values(3, 4), scale)) == seen(f(values(3, 4), scale))
        assert counting.count == 2 if backend == "eager" else counting.count >= 2

    @pytest.mark.parametrize("maker", ["per_tensor", "by_tensors", "dynamic"])
    @pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
    def test_sizes_that_change(self, maker, layout):
        formats = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
        counting = CountingOf("eager")
        f = made_and_read(MAKERS[maker], READS["all"])
        compiled = pellucid.compile(f, backend=counting)
        for sizes in ((2, 3, 4, 5), (3, 3, 4, 5), (7, 3, 6, 8), (4, 3, 9, 2), (5, 3, 7, 7)):
            x = values(*sizes).to(memory_format=formats[layout])
            assert seen(compiled(x)) == seen(f(x))
        assert counting.count <= 3  # the sizes that have changed are open

    def test_a_quantised_argument_whose_sizes_change(self):
        counting = CountingOf("eager")
        f = lambda q: (q.dequantize() * 2, q.int_repr())  # noqa: E731
        compiled = pellucid.compile(f, backend=counting)
        for size in (2, 3, 4, 5, 1, 2):
            q = per_tensor(values(size, 3))
            assert seen(compiled(q)) == seen(f(q))
        assert counting.count <= 3

    def test_channels_that_change(self):
        counting = CountingOf("eager")

        def f(x, scales, zero_points):
            q = torch.quantize_per_channel(x, scales, zero_points, 0, torch.qint8)
            return q, q.dequantize() + 1

        compiled = pellucid.compile(f, backend=counting)
        for size in (2, 3, 4, 5):
            inputs = values(size, 3), torch.rand(size) + 0.5, torch.zeros(size, dtype=torch.int64)
            assert seen(compiled(*inputs)) == seen(f(*inputs))
        wrong = values(3, 3), torch.rand(2), torch.zeros(2, dtype=torch.int64)
        assert outcome(f, *wrong)[0] == "raises"
        assert outcome(compiled, *wrong) == outcome(f, *wrong)
        assert counting.count <= 3


class TestGradients:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("maker", MAKERS)
    def test_none_comes_through(self, maker, backend):
        def f(x):
            q = MAKERS[maker](x * 2)
            return q, q.dequantize() + x, x * 3

        results = []
        for call in (f, pellucid.compile(f, backend=backend)):
            x = values(3, 4).requires_grad_()
            given = call(x)
            (given[1].sum() + given[2].sum()).backward()
            results.append((seen(given), seen(x.grad)))
        assert results[0] == results[1]
        assert results[0][0][0][2] is False

    def test_a_quantised_tensor_with_requires_grad(self):
        f = lambda x: per_tensor(x).requires_grad_()  # noqa: E731
        want = outcome(f, values(3, 4))
        assert want[0] == "raises"
        assert outcome(pellucid.compile(f, backend="eager"), values(3, 4)) == want

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_where_no_gradients_are_recorded(self, backend):
        def f(x):
            with torch.no_grad():
                q = per_tensor(x)
            return q, q.int_repr() + 1

        x = values(3, 4).requires_grad_()
        assert seen(pellucid.compile(f, backend=backend)(x)) == seen(f(x))
        with torch.inference_mode():
            assert seen(pellucid.compile(f, backend=backend)(values(3, 4))) == seen(f(values(3, 4)))


class TestCompilers:
    """AOTAutograd takes what torch.quantize_per_tensor gives as a tensor of floats. No operator of its graphs may read
    that."""

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    @pytest.mark.parametrize("maker", ["per_tensor", "by_tensors"])
    def test_one_graph_that_gives_it(self, maker, backend):
        f = made_and_read(MAKERS[maker], lambda q, x: (q, x * 2, q.is_quantized, q.dtype, q.shape))
        compiled = pellucid.compile(f, backend=backend, fullgraph=True)

        def with_gradients(call, seed, requires_grad):
            x = values(3, 4, seed=seed).requires_grad_(requires_grad)
            given = call(x)
            if requires_grad:
                given[1].sum().backward()
            return seen(given), seen(x.grad)

        for requires_grad in (False, True):
            for seed in (0, 1):
                want = with_gradients(f, seed, requires_grad)
                assert with_gradients(compiled, seed, requires_grad) == want

    @pytest.mark.parametrize("maker", MAKERS)
    def test_all_else_ends_the_graph(self, maker):
        counting = CountingOf("aot_eager")
        f = made_and_read(MAKERS[maker], lambda q, x: (q.dequantize() + x, q.int_repr() + 1, q))
        compiled = pellucid.compile(f, backend=counting)
        for seed in (0, 1):
            assert seen(compiled(values(3, 4, seed=seed))) == seen(f(values(3, 4, seed=seed)))
        assert counting.count >= 1
        with pytest.raises(pellucid.errors.Unsupported, match="quantised"):
            pellucid.compile(f, backend="aot_eager", fullgraph=True)(values(3, 4))


def in_checkpoint(x):
    def part(x):
        q = per_tensor(x * 2)
        return q.dequantize() + x, q

    value, q = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    return value * 2, q


def given_by_checkpoint(x):
    return torch.utils.checkpoint.checkpoint(lambda x: (per_tensor(x), x.sin()), x, use_reentrant=False)


def in_branches(x):
    def branch(factor):
        return lambda x: per_tensor(x * factor).dequantize()

    return torch.cond(x.sum() > 0, branch(2), branch(3), (x,))


def below_vmap(x):
    return torch.vmap(lambda row: per_tensor(row).dequantize())(x)


def below_grad(x):
    return torch.func.grad(lambda x: (x * per_tensor(x).dequantize()).sum())(x)


def behind_a_break(x):
    q = per_tensor(x)
    torch._dynamo.graph_break()
    return q.dequantize() + 1, q


def in_a_container(x):
    held = {"q": [per_tensor(x)], "x": x + 1}
    held["again"] = held["q"][0]
    return held["again"], held["q"][0].int_repr(), held["x"]


def written_behind(x):
    q = per_tensor(x)
    x.add_(1)
    return q, q.dequantize() + x, x


def written_result(x):
    values = per_tensor(x).dequantize()
    values.mul_(2)[0] = 1
    return values


def under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return per_tensor(x).dequantize() @ x.t(), per_tensor(x)


PROGRAMS = [
    in_checkpoint,
    given_by_checkpoint,
    in_branches,
    below_vmap,
    below_grad,
    behind_a_break,
    in_a_container,
    written_behind,
    written_result,
    under_autocast,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("f", PROGRAMS)
def test_programs(f, requires_grad, backend):
    def with_gradients(call, seed):
        leaf = values(3, 4, seed=seed).requires_grad_(requires_grad)
        given = call(leaf * 1)
        first = next(value for value in (given if isinstance(given, tuple) else (given,)) if not value.is_quantized)
        if first.requires_grad:
            first.sum().backward()
        return seen(given), seen(leaf.grad)

    compiled = pellucid.compile(f, backend=backend)
    for seed in (0, 1, 2):
        want = outcome(with_gradients, f, seed)
        assert outcome(with_gradients, compiled, seed) == want


@pytest.mark.parametrize("f", [in_checkpoint, in_branches, in_a_container, written_behind, written_result])
def test_one_graph_of_programs(f):
    counting = CountingOf("eager")
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for seed in (0, 1):
        assert seen(compiled(values(3, 4, seed=seed))) == seen(f(values(3, 4, seed=seed)))
    assert counting.count == 1


OTHER_USES = {
    "q_scale": lambda q, x: x * q.q_scale() + q.q_zero_point(),
    "qscheme": lambda q, x: (q.qscheme(), x + 1),
    "clone": lambda q, x: q.clone().dequantize() + x,
    "view": lambda q, x: q.view(-1),
    "reshape": lambda q, x: q.reshape(-1).dequantize(),
    "index": lambda q, x: q[0].int_repr(),
    "relu": lambda q, x: torch.relu(q),
    "max": lambda q, x: q.max(),
    "cat": lambda q, x: torch.cat([q, q]),
    "add": lambda q, x: q + 1,
    "float": lambda q, x: q.float(),
    "double": lambda q, x: q.to(torch.float64),
    "equal": lambda q, x: torch.equal(q, q),
    "in place": lambda q, x: q.copy_(x),
    "empty_like": lambda q, x: torch.empty_like(q).is_quantized,
    "detach": lambda q, x: q.detach(),
    "text": lambda q, x: repr(q),
    "tolist": lambda q, x: q.tolist(),
    "item": lambda q, x: q[0, 0].item(),
    "data": lambda q, x: q.data.dequantize() + x,
    "to": lambda q, x: q.to("cpu").dequantize() + x,
    "kinds": lambda q, x: (
        q.type(),
        q.is_floating_point(),
        q.is_signed(),
        q.element_size(),
        q.nbytes,
        q.is_leaf,
        x + 1,
    ),
    "a list of them": lambda q, x: torch.dequantize([q, q]),
    "library": lambda q, x: torch.ops.quantized.add(q, q, 0.1, 3).int_repr() + 1,
    "quantised again": lambda q, x: torch.quantize_per_tensor(q, 0.1, 3, torch.quint8),
    "written into floats": lambda q, x: x.copy_(q) + 1,
    "zeros_like": lambda q, x: torch.zeros_like(q),
    "parameter": lambda q, x: nn.Parameter(q, requires_grad=False).dequantize(),
    "storage": lambda q, x: q.untyped_storage().nbytes() + x,
    "fake_quantize": lambda q, x: torch.fake_quantize_per_tensor_affine(q.dequantize(), 0.1, 0, 0, 255),
}
OTHER_MAKERS = {
    "half": lambda x: torch.quantize_per_tensor_dynamic(x, torch.half, False),
    "of doubles": lambda x: torch.quantize_per_tensor(x.double(), 0.1, 10, torch.quint8),
    "of ints": lambda x: torch.quantize_per_tensor(x.int(), 0.1, 10, torch.quint8),
    "to floats": lambda x: torch.quantize_per_tensor(x, 0.1, 10, torch.float),
    "of half a byte": lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint4x2).dequantize(),
    "zero point out of range": lambda x: torch.quantize_per_tensor(x, 0.1, 300, torch.quint8).int_repr(),
    "dynamic of 32 bits": lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint32, False),
    "axis out of range": lambda x: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 5, torch.quint8),
    "empty": lambda x: (torch.empty(3, dtype=torch.quint8).is_quantized, x + 1),
    "zeros": lambda x: (torch.zeros(3, dtype=torch.quint8), x + 1),
    "empty_like": lambda x: torch.empty_like(x, dtype=torch.quint8),
    "to": lambda x: x.to(torch.quint8),
    "affine": lambda x: torch._empty_affine_quantized([2], scale=1.0, zero_point=0, dtype=torch.quint8).shape,
    "of ints by numbers": lambda x: torch._make_per_tensor_quantized_tensor(x.to(torch.uint8), 0.1, 3),
    "dequantize of floats": lambda x: x.dequantize() + 1,
    "out": lambda x: torch.quantize_per_tensor(x, 0.1, 10, torch.quint8).dequantize().add_(1),
}


class TestWhatIsNotKnown:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("maker", ["per_tensor", "per_channel"])
    @pytest.mark.parametrize("name", OTHER_USES)
    def test_uses_are_as_eager(self, name, maker, backend):
        f = made_and_read(MAKERS[maker], OTHER_USES[name])
        compiled = pellucid.compile(f, backend=backend)
        for seed in (0, 1):
            want = outcome(lambda seed=seed: seen(f(values(3, 4, seed=seed))))
            assert outcome(lambda seed=seed: seen(compiled(values(3, 4, seed=seed)))) == want

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("name", OTHER_MAKERS)
    def test_makers_are_as_eager(self, name, backend):
        f = OTHER_MAKERS[name]
        compiled = pellucid.compile(f, backend=backend)
        for _ in range(2):
            want = outcome(lambda: seen(f(values(3, 4))))
            assert outcome(lambda: seen(compiled(values(3, 4)))) == want


class Static(nn.Module):
    def __init__(self):
        super().__init__()
        self.quantise = torch.ao.quantization.QuantStub()
        self.first, self.relu, self.second = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)
        self.dequantise = torch.ao.quantization.DeQuantStub()

    def forward(self, x):
        return self.dequantise(self.second(self.relu(self.first(self.quantise(x))))) + 1


def static_model():
    torch.manual_seed(0)
    model = Static().eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig(torch.backends.quantized.engine)
    prepared = torch.ao.quantization.prepare(model)
    prepared(torch.randn(16, 4))
    return torch.ao.quantization.convert(prepared)


def dynamic_model():
    torch.manual_seed(0)
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), {nn.Linear})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [static_model, dynamic_model])
def test_models_of_torch_ao(make, backend):
    model, counting = make(), CountingOf(backend)
    compiled = pellucid.compile(model, backend=counting)
    with torch.no_grad():
        for seed in (0, 1, 2):
            x = values(5, 4, seed=seed)
            assert seen(compiled(x)) == seen(model(x))
        assert seen(compiled(values(6, 4))) == seen(model(values(6, 4)))
    assert counting.count >= 1
