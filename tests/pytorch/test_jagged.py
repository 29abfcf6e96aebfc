"""Jagged nested tensors are inputs, nodes and outputs of graphs: values, sizes, offsets, gradients and aliasing are eager's."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pellucid
from support import CountingOf, outcome

LENGTHS = (2, 3, 1)


def jagged(*lengths, width=4, requires_grad=False, layout=torch.jagged):
    generator = torch.Generator().manual_seed(len(lengths))
    parts = [torch.randn(length, width, generator=generator) for length in lengths or LENGTHS]
    return torch.nested.nested_tensor(parts, layout=layout, requires_grad=requires_grad)


def of_parts(*lengths, width=4, **facts):
    """A view of its values, without cached lengths."""
    lengths = torch.tensor(lengths or LENGTHS)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return torch.nested.nested_tensor_from_jagged(torch.randn(int(offsets[-1]), width), offsets, **facts)


def facts(value):
    """All of a result that a program can see but the identity of offsets."""
    if isinstance(value, (tuple, list)):
        return [type(value), *map(facts, value)]
    if not isinstance(value, torch.Tensor):
        return value
    seen = [type(value), value.dtype, value.requires_grad, value.is_leaf, value.layout]
    if not value.is_nested:
        return [*seen, value.size(), value.stride(), value.detach().tolist()]
    names, context = value.__tensor_flatten__()
    sizes = [size if isinstance(size, int) else "ragged" for size in value._size]
    return [*seen, names, context, sizes, *(facts(getattr(value, name)) for name in names)]


class Compiled:
    def __init__(self, program, backend="eager", fullgraph=True):
        self.program = program
        self.backend = CountingOf(backend)
        self.compiled = pellucid.compile(program, backend=self.backend, fullgraph=fullgraph)

    def __call__(self, *args):
        """Called twice, and once eagerly; gives what the second call gave."""
        first, got, want = self.compiled(*args), self.compiled(*args), self.program(*args)
        assert facts(first) == facts(want)
        assert facts(got) == facts(want)
        return got

    @property
    def graphs(self):
        return self.backend.count


def as_eager(program, *args, backend="eager"):
    run = Compiled(program, backend)
    got = run(*args)
    assert run.graphs == 1
    return got


def pointwise(x):
    return x.sin() * 2 + 1


class TestInputsAndOutputs:
    def test_pointwise(self):
        as_eager(pointwise, jagged())

    def test_values(self):
        as_eager(lambda x: pointwise(x).values(), jagged())

    def test_a_view_of_its_values(self):
        as_eager(lambda x: (pointwise(x), x.values() + 1), of_parts())

    def test_linear(self):
        layer = nn.Linear(4, 2)
        as_eager(lambda x: torch.relu(layer(x)), jagged())

    def test_sums(self):
        as_eager(lambda x: (x.sum(-1), x.sum(1), x.mean(-1).values(), x.sum(-1, keepdim=True)), jagged())

    def test_softmax_and_norm(self):
        norm = nn.LayerNorm(4)
        as_eager(lambda x: torch.softmax(norm(x), dim=-1), jagged())

    def test_to_padded(self):
        as_eager(lambda x: torch.nested.to_padded_tensor(x, 0.0) * 2, jagged())
        as_eager(lambda x: x.to_padded_tensor(-1.0), of_parts(max_seqlen=3, min_seqlen=1))

    def test_views(self):
        as_eager(lambda x: (x.transpose(1, 2), x.unsqueeze(-1), x.unflatten(-1, [2, 2]).flatten(-2)), jagged())

    def test_chosen_columns(self):
        as_eager(lambda x: (x[..., :2], x.narrow(-1, 1, 2), *x.chunk(2, -1)), jagged())

    def test_converted(self):
        as_eager(lambda x: (x.double(), x.to(torch.int64), x.clone(), x.detach(), torch.zeros_like(x)), jagged())

    def test_a_ragged_dimension_elsewhere(self):
        def program(x):
            return x * 2, x._ragged_idx, x.transpose(1, 2)

        as_eager(program, of_parts(4, 2).transpose(1, 2))

    def test_holes(self):
        values, offsets, lengths = torch.randn(8, 4), torch.tensor([0, 3, 5, 8]), torch.tensor([2, 1, 3])
        x = torch.nested.nested_tensor_from_jagged(values, offsets, lengths)
        got = as_eager(lambda x: (x * 2, x.lengths()), x)
        assert got[0].lengths() is x.lengths() and got[1] is x.lengths()

    def test_a_module(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down, self.norm = nn.Linear(4, 8), nn.Linear(8, 4), nn.LayerNorm(4)

            def forward(self, x):
                return x + self.down(F.gelu(self.up(self.norm(x))))

        as_eager(Block(), jagged())

    def test_what_it_gives_where_nothing_is_computed(self):
        x = jagged()
        as_eager(lambda x, y: (x, y + 1), x, torch.ones(2))
        assert pellucid.compile(lambda x, y: (x, y + 1), backend="eager")(x, torch.ones(2))[0] is x

    def test_the_graph_has_the_operators_on_it(self):
        run = Compiled(pointwise)
        run(jagged())
        (gm,) = run.backend.graphs
        assert [node.op for node in gm.graph.nodes if node.op == "placeholder"] == ["placeholder"]
        assert [getattr(node.target, "__name__", node.target) for node in gm.graph.nodes if "call" in node.op] == [
            "sin",
            "mul",
            "add",
        ]


class TestFacts:
    def test_of_inputs(self):
        def program(x):
            return x.dim(), x.size(0), x.size(-1), x.shape[2], len(x), x.dtype, x.layout, x.is_nested, x.requires_grad

        as_eager(lambda x: (x + 1, program(x)), jagged())

    def test_of_what_is_computed(self):
        def program(x):
            y = x.unsqueeze(-1).transpose(2, 3)
            return y, y.dim(), y.ndim, y.size(0), y.size(2), y.shape[3], y.is_nested, type(y), y.is_contiguous()

        as_eager(program, jagged())

    def test_branches(self):
        def program(x):
            if x.is_nested and x.dim() == 3 and x.size(0) > 2:
                return x * x.size(0)
            return x

        as_eager(program, jagged())

    def test_the_nested_int_is_that_of_the_offsets(self):
        x = jagged()
        shape, size = pellucid.compile(lambda x: ((x * 2).shape, x.size(1)), backend="eager")(x)
        assert shape == x.shape and shape[1] is x.shape[1] and size is x.shape[1]
        other = jagged(1, 2)
        shape, size = pellucid.compile(lambda x: ((x * 2).shape, x.size(1)), backend="eager")(other)
        assert shape == other.shape and shape != x.shape and size is other.shape[1]

    def test_no_nested_int_is_used_up(self):
        nested = torch.nested._internal.nested_tensor
        x = jagged()
        before = nested._tensor_id_counter
        as_eager(pointwise, x)
        assert nested._tensor_id_counter == before


class TestOffsets:
    def test_results_have_those_of_the_input(self):
        x = jagged()
        y, offsets, own = as_eager(lambda x: (x * 2, (x + 1).offsets(), x.offsets()), x)
        assert y.offsets() is offsets is own is x.offsets()
        assert (y + x).shape == x.shape

    def test_two_inputs_of_the_same(self):
        x = jagged()
        y = x * 3
        run = Compiled(lambda x, y: x + y)
        run(x, y)
        assert run.graphs == 1
        other = jagged(4, 1)
        run(other, other.cos())
        assert run.graphs <= 2

    def test_two_inputs_of_different_ones_raise_as_in_eager(self):
        def program(x, y):
            return x + y

        x, y = jagged(), jagged()
        compiled = pellucid.compile(program, backend="eager")
        assert facts(compiled(x, x * 3)) == facts(program(x, x * 3))
        assert outcome(compiled, x, y)[:2] == outcome(program, x, y)[:2] == ("raises", RuntimeError)
        assert facts(compiled(x, x * 3)) == facts(program(x, x * 3))

    def test_other_offsets_and_values(self):
        run = Compiled(lambda x: pointwise(x).sum(-1))
        for lengths in [(2, 3, 1), (4, 4, 1), (9, 2, 1, 3), (5, 1), (2, 3, 1)]:
            run(jagged(*lengths))
        assert run.graphs <= 3  # the number of parts changes later than the lengths

    def test_other_offsets_of_the_same_number_of_values(self):
        run = Compiled(lambda x: (x.sum(1), x * 2))
        for lengths in [(2, 3, 1), (1, 2, 3), (3, 2, 1)]:
            run(of_parts(*lengths))
        assert run.graphs == 1

    def test_other_numbers_of_parts(self):
        run = Compiled(lambda x: (x * x.size(0), x.sum(1)))
        for count in [3, 2, 4, 5]:
            run(of_parts(*range(1, count + 1)))
        assert run.graphs <= 3

    def test_another_width_or_dtype(self):
        run = Compiled(pointwise)
        run(jagged())
        run(jagged().double())
        run(jagged(width=6))
        assert run.graphs == 3

    def test_with_and_without_gradients(self):
        run = Compiled(pointwise)
        run(jagged())
        run(jagged(requires_grad=True))
        run(jagged())
        assert run.graphs == 2

    def test_a_plain_tensor_in_its_place(self):
        run = Compiled(pointwise)
        run(jagged())
        run(torch.randn(3, 4))
        run(jagged())
        assert run.graphs == 2

    def test_another_layout_is_not_taken_for_it(self):
        compiled = pellucid.compile(pointwise, backend="eager")
        compiled(jagged())
        x = jagged(layout=torch.strided)
        assert [part.tolist() for part in compiled(x).unbind()] == [part.tolist() for part in pointwise(x).unbind()]


class TestMadeInside:
    def test_of_values_and_offsets(self):
        def program(values, offsets):
            x = torch.nested.nested_tensor_from_jagged(values, offsets)
            return (x * 2).values(), x.size(0), x.offsets()

        run = Compiled(program)
        offsets = torch.tensor([0, 2, 5, 6])
        assert run(torch.randn(6, 4), offsets)[2] is offsets
        assert run.graphs == 1

    def test_it_is_given(self):
        def program(values, offsets):
            return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=1, max_seqlen=3) * 2

        offsets = torch.tensor([0, 2, 5, 6])
        y = as_eager(program, torch.randn(6, 4), offsets)
        assert y.offsets() is offsets

    def test_of_a_list(self):
        def program(a, b):
            x = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
            return x.sin().values(), x

        as_eager(program, torch.randn(2, 4), torch.randn(3, 4))

    def test_of_a_list_outside_of_autograd(self):
        def program(a, b):
            return torch.nested.nested_tensor([a, b], layout=torch.jagged).sin()

        as_eager(program, torch.randn(2, 4), torch.randn(3, 4))

    def test_of_a_rectangular_tensor(self):
        as_eager(lambda x: torch.nested.as_nested_tensor(x, layout=torch.jagged) + 1, torch.randn(3, 2, 4))

    def test_other_sizes(self):
        def program(values, offsets):
            x = torch.nested.nested_tensor_from_jagged(values, offsets)
            return (x * 2).values(), x.size(0)

        run = Compiled(program)
        run(torch.randn(6, 4), torch.tensor([0, 2, 5, 6]))
        run(torch.randn(5, 4), torch.tensor([0, 4, 5]))
        run(torch.randn(9, 4), torch.tensor([0, 4, 5, 6, 9]))
        assert run.graphs <= 2

    def test_gradients_reach_the_values(self):
        def program(values, offsets):
            x = torch.nested.nested_tensor_from_jagged(values, offsets)
            return (x * x).values().sum()

        values, offsets = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 2, 5, 6])
        pellucid.compile(program, backend="eager", fullgraph=True)(values, offsets).backward()
        assert torch.equal(values.grad, 2 * values.detach())

    def test_a_result_is_a_view_of_the_values(self):
        def program(values, offsets):
            return torch.nested.nested_tensor_from_jagged(values, offsets)

        values = torch.zeros(6, 4)
        y = pellucid.compile(program, backend="eager", fullgraph=True)(values, torch.tensor([0, 2, 5, 6]))
        values.add_(1)
        assert y.values().sum() == 24


def attention(x, y):
    """From the one to the other."""
    query, key = (z.unflatten(-1, [2, 2]).transpose(1, 2) for z in (x, y))
    return F.scaled_dot_product_attention(query, key, key).transpose(1, 2).flatten(-2)


class TestAttention:
    def test_to_itself(self):
        run = Compiled(lambda x: attention(x, x))
        for lengths in [(2, 3, 1), (4, 3, 1), (9, 2, 1)]:
            run(jagged(*lengths))
            run(of_parts(*lengths))
        assert run.graphs <= 4

    def test_to_another(self):
        x, y = jagged(2, 3, 1), jagged(1, 4, 2)
        got = as_eager(attention, x, y)
        assert got.offsets() is x.offsets()

    def test_other_scale(self):
        as_eager(
            lambda x: F.scaled_dot_product_attention(*3 * [x.unflatten(-1, [2, 2]).transpose(1, 2)], scale=2.0),
            jagged(),
        )

    def test_gradients(self):
        seen = []
        for f in (pellucid.compile(attention, backend="eager", fullgraph=True), attention):
            x, y = jagged(2, 3, 1, requires_grad=True), jagged(1, 4, 2, requires_grad=True)
            f(x, y).values().sum().backward()
            seen.append(facts([x.grad.values(), y.grad.values()]))
        assert seen[0] == seen[1]

    def test_what_no_way_takes(self):
        x = jagged()
        program = lambda x: F.scaled_dot_product_attention(x, x, x)  # noqa: E731
        assert outcome(pellucid.compile(program, backend="eager"), x) == outcome(program, x)


def test_the_first_of_a_process():
    """Torch loads modules for it, and says something in its log."""
    program = """
import torch, pellucid
def f(values, offsets):
    return torch.nested.nested_tensor_from_jagged(values, offsets) * 2
got = pellucid.compile(f, backend="eager", fullgraph=True)(torch.ones(3, 2), torch.tensor([0, 1, 3]))
print(got.values().sum().item(), tuple(got.offsets().tolist()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150)
    assert done.stdout.strip() == "12.0 (0, 1, 3)", done.stderr


class TestGradients:
    def test_of_values(self):
        def program(x):
            return (x * x).values().sum()

        x = jagged(requires_grad=True)
        run = Compiled(program)
        run(x).backward()
        assert torch.equal(x.grad.values(), 2 * x.detach().values())
        assert run.graphs == 1

    def test_of_a_module(self):
        layer = nn.Linear(4, 2)
        compiled = pellucid.compile(lambda x: torch.tanh(layer(x)), backend="eager", fullgraph=True)
        seen = []
        for f in (compiled, lambda x: torch.tanh(layer(x))):
            x = jagged(requires_grad=True)
            layer.zero_grad()
            f(x).values().sum().backward()
            seen.append(facts([x.grad.values(), layer.weight.grad, layer.bias.grad]))
        assert seen[0] == seen[1]

    def test_through_what_was_computed_before(self):
        seen = []
        for f in (pellucid.compile(pointwise, backend="eager", fullgraph=True), pointwise):
            x = jagged(requires_grad=True)
            f(x * 3).values().sum().backward()
            seen.append(facts(x.grad.values()))
        assert seen[0] == seen[1]

    def test_no_grad(self):
        def program(x):
            with torch.no_grad():
                y = x * 2
            return y + 1

        as_eager(program, jagged(requires_grad=True))


class TestBreaks:
    """What needs the lengths themselves runs as it is."""

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: [part.mean(0) for part in (x * 2).unbind()],
            lambda x: (x * 2)[0] + 1,
            lambda x: (x * 2).mul_(3).values(),
            lambda x: (x * 2)._get_max_seqlen(),
        ],
    )
    def test_data(self, program):
        for make in (jagged, of_parts):
            run = Compiled(program, fullgraph=False)
            run(make())
            assert run.graphs >= 1

    def test_a_write_to_an_input(self):
        def program(x):
            x.mul_(2)
            return x + 1

        compiled = pellucid.compile(program, backend="eager")
        x, y = jagged(), jagged()
        assert facts(compiled(x)) == facts(program(y))
        assert facts(x) == facts(y)

    def test_a_write_to_the_values(self):
        def program(x):
            y = x + 1
            x.values().mul_(2)
            return x + 1, y

        compiled = pellucid.compile(program, backend="eager")
        for make in (jagged, of_parts):
            x = make()
            y = x.clone()
            assert facts(compiled(x)) == facts(program(y))
            assert torch.equal(x.values(), y.values())

    def test_attributes_that_a_program_sets(self):
        def program(x):
            x.note = 1
            return x + 1

        x = jagged()
        assert facts(pellucid.compile(program, backend="eager")(x)) == facts(x + 1)
        assert x.note == 1

    def test_tolist_raises_as_in_eager(self):
        def program(x):
            return (x + 1).tolist()

        x = jagged()
        assert outcome(pellucid.compile(program, backend="eager"), x) == outcome(program, x)


@pytest.mark.parametrize("backend", ["aot_eager"])
class TestCompilers:
    """Values, sizes and gradients are eager's, whether a compiler takes the graph or the call runs as it is."""

    def test_pointwise(self, backend):
        run = Compiled(pointwise, backend, fullgraph=False)
        for lengths in [(2, 3, 1), (4, 1), (2, 2, 2)]:
            run(jagged(*lengths))

    def test_made_inside(self, backend):
        def program(values, offsets):
            return (torch.nested.nested_tensor_from_jagged(values, offsets) * 2).values()

        Compiled(program, backend, fullgraph=False)(torch.randn(6, 4), torch.tensor([0, 2, 5, 6]))

    def test_offsets(self, backend):
        x = jagged()
        run = Compiled(lambda x, y: (x + y, x * 2, y.offsets()), backend)
        total, twice, offsets = run(x, x * 3)
        assert total.offsets() is twice.offsets() is offsets is x.offsets()
        assert (total + x).shape == x.shape
        assert run.graphs == 1

    def test_a_module(self, backend):
        layer, norm = nn.Linear(4, 4), nn.LayerNorm(4)
        run = Compiled(lambda x: torch.relu(layer(norm(x))), backend)
        with torch.no_grad():
            run(jagged())
        assert run.graphs == 1

    def test_attention(self, backend):
        Compiled(lambda x: attention(x, x), backend, fullgraph=False)(jagged())


def seen_of(program, inputs, layers=()):
    """What a step gives, and the gradients of its jagged inputs and layers. Those of inputs have the offsets of their inputs."""
    for layer in layers:
        layer.zero_grad()
    results = program(*inputs)
    results = results if isinstance(results, (tuple, list)) else (results,)
    flat = [result.values() if result.is_nested else result for result in results]
    sum((one * one).sum() for one in flat if one.requires_grad).backward()
    seen = [one.detach() for one in flat]
    for x in inputs:
        if x.is_leaf and x.grad is not None:
            assert x.grad.offsets() is x.offsets() and x.grad.shape == x.shape
            seen.append(x.grad.values())
    return seen + [parameter.grad for layer in layers for parameter in layer.parameters()]


LINEAR, NORM = nn.Linear(4, 4), nn.LayerNorm(4)
STEPS = {
    "product": lambda x: x * x,
    "linear": lambda x: LINEAR(x),
    "norm": lambda x: torch.relu(LINEAR(NORM(x))) + x,
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "padded": lambda x: torch.nested.to_padded_tensor(LINEAR(x), 0.0).sum(1),
    "values": lambda x: (x * 2).values().sum(0) / x.size(0),
    "made again": lambda x: torch.nested.nested_tensor_from_jagged(x.values().sin(), x.offsets()) * x,
    "heads": lambda x: (x.unflatten(-1, [2, 2]).transpose(1, 2) * 2).transpose(1, 2).flatten(-2),
    "chunk": lambda x: x.chunk(2, -1)[1] * 2,
    "some of it": lambda x: (x * x.detach(), x.values().sum()),
}


class TestTraining:
    """With a backend that compiles: one graph, which other lengths and other numbers of parts need once more."""

    def same(self, program, make, layers=(), backend="aot_eager"):
        counting = CountingOf(backend)
        compiled = pellucid.compile(program, backend=counting, fullgraph=True)
        for lengths in [(2, 3, 1), (2, 3, 1), (4, 4, 1), (9, 2, 1, 3), (5, 1)]:
            want, got = seen_of(program, make(*lengths), layers), seen_of(compiled, make(*lengths), layers)
            torch.testing.assert_close(got, want)
        return counting.count

    @pytest.mark.parametrize("step", STEPS)
    def test_a_step(self, step):
        graphs = self.same(STEPS[step], lambda *lengths: [jagged(*lengths, requires_grad=True)], (LINEAR, NORM))
        assert graphs <= 2

    def test_what_was_computed_before(self):
        assert self.same(STEPS["norm"], lambda *lengths: [jagged(*lengths) * LINEAR.weight[0]], (LINEAR,)) <= 2

    def test_one_offsets_tensor_of_two_inputs(self):
        def make(*lengths):
            x = jagged(*lengths, requires_grad=True)
            y = torch.nested.nested_tensor_from_jagged(torch.ones(x.values().shape), x.offsets()).detach()
            return [x, y.requires_grad_()]

        assert self.same(lambda x, y: x * y + LINEAR(y), make, (LINEAR,)) <= 2

    def test_inputs_of_several_lengths(self):
        def make(*lengths):
            return [jagged(*lengths, requires_grad=True), jagged(*reversed(lengths), requires_grad=True)]

        assert self.same(lambda x, y: (LINEAR(x), y * 3), make, (LINEAR,)) <= 2

    def test_offsets_that_are_an_input_too(self):
        def program(x, offsets):
            return torch.nested.nested_tensor_from_jagged(x.values() * 3, offsets) + x

        compiled = pellucid.compile(program, backend=(counting := CountingOf("aot_eager")), fullgraph=True)
        for lengths in [(2, 3, 1), (4, 1), (1, 2, 2, 3)]:
            seen = []
            for f in (program, compiled):
                x = jagged(*lengths, requires_grad=True)
                y = f(x, x.offsets())
                assert y.offsets() is x.offsets()
                y.values().square().sum().backward()
                seen.append((y.values(), x.grad.values()))
            assert torch.equal(seen[0][0], seen[1][0]) and torch.equal(seen[0][1], seen[1][1])
        assert counting.count <= 2

    def test_values_and_offsets_from_outside(self):
        def program(values, offsets):
            return LINEAR(torch.nested.nested_tensor_from_jagged(values, offsets)).values().square().sum()

        compiled = pellucid.compile(program, backend=(counting := CountingOf("aot_eager")), fullgraph=True)
        for lengths in [(2, 3, 1), (4, 1), (1, 2, 2, 3), (3, 3)]:
            seen = []
            for f in (program, compiled):
                torch.manual_seed(0)
                LINEAR.zero_grad()
                offsets = torch.tensor([0, *lengths]).cumsum(0)
                values = torch.randn(sum(lengths), 4, requires_grad=True)
                f(values, offsets).backward()
                seen.append([values.grad, LINEAR.weight.grad, LINEAR.bias.grad])
            torch.testing.assert_close(seen[1], seen[0])
        assert counting.count <= 2

    @pytest.mark.parametrize("lengths", [(2, 3, 1), (4, 1)])
    def test_inputs_that_no_longer_have_the_same_offsets(self, lengths):
        def program(x, y):
            return x * y

        compiled = pellucid.compile(program, backend="aot_eager")
        x = jagged(requires_grad=True)
        assert facts(compiled(x, x).detach()) == facts((x * x).detach())
        x, y = jagged(*lengths, requires_grad=True), jagged(*lengths)
        assert outcome(compiled, x, y)[:2] == outcome(program, x, y)[:2] == ("raises", RuntimeError)

    @pytest.mark.parametrize("program", [lambda x: x.sum(1), lambda x: x[..., :2] * 2, lambda x: x.narrow(-1, 1, 2)])
    def test_a_gradient_that_torch_does_not_know(self, program):
        """AOTAutograd asks for it at once: the call runs as it is, and a backward raises what it raises."""
        compiled = pellucid.compile(program, backend="aot_eager")
        x = jagged(requires_grad=True)
        got, want = compiled(x), program(x)
        assert facts(got) == facts(want)
        ends = [
            outcome(lambda y: y.values().sum().backward() if y.is_nested else y.sum().backward(), y)
            for y in (got, want)
        ]
        assert ends[0][:2] == ends[1][:2] and ends[0][0] == "raises"
        with pytest.raises(pellucid.errors.Unsupported, match="PEL0903"):
            pellucid.compile(program, backend="aot_eager", fullgraph=True)(x)

    def test_attention(self):
        """It reads the lengths, on the CPU: graphs before and behind it."""

        def program(x):
            return LINEAR(attention(NORM(x), x)) + x

        compiled = pellucid.compile(program, backend=(counting := CountingOf("aot_eager")))
        for lengths in [(2, 3, 1), (4, 1)]:
            inputs = [[jagged(*lengths, requires_grad=True)] for _ in range(2)]
            want, got = seen_of(program, inputs[0], (LINEAR, NORM)), seen_of(compiled, inputs[1], (LINEAR, NORM))
            torch.testing.assert_close(got, want)
        assert counting.count > 0

    def test_inductor(self):
        pytest.importorskip("torch._inductor")
        assert (
            self.same(STEPS["product"], lambda *lengths: [jagged(*lengths, requires_grad=True)], backend="inductor")
            <= 2
        )
