"""Operators of libraries, rows A39 and A40."""

from __future__ import annotations

import pytest
import torch

import pellucid
from support import Counting, CountingOf, same

X = torch.arange(3.0)


@pytest.fixture(scope="module", autouse=True)
def library():
    made = torch.library.Library("pellucid_ops", "DEF")
    tagged = (torch.Tag.pt2_compliant_tag,)
    made.define("tagged(Tensor x) -> Tensor", tags=tagged)
    made.define("untagged(Tensor x) -> Tensor")
    made.define("mixed(Tensor x) -> Tensor", tags=tagged)
    made.define("mixed.by(Tensor x, int k) -> Tensor")
    made.define("mixed.like(Tensor x, *, Tensor other) -> Tensor", tags=tagged)
    for name, by in (("tagged", 2), ("untagged", 3), ("mixed", 5)):
        made.impl(name, lambda x, by=by: x * by, "CompositeExplicitAutograd")
    made.impl("mixed.by", lambda x, k: x * k, "CompositeExplicitAutograd")
    made.impl("mixed.like", lambda x, other: x * other, "CompositeExplicitAutograd")
    for name in ("tagged", "untagged", "mixed"):
        made.impl(name, torch.empty_like, "Meta")
    made.impl("mixed.by", lambda x, k: torch.empty_like(x), "Meta")
    made.impl("mixed.like", lambda x, other: torch.empty_like(x), "Meta")
    made.define("only_cpu(Tensor x) -> Tensor")
    made.impl("only_cpu", lambda x: x.detach() * 2, "CPU")
    made.impl("only_cpu", torch.empty_like, "Meta")
    yield made
    made._destroy()


def ops():
    return torch.ops.pellucid_ops


def captured(f, *args, **options):
    backend = Counting()
    assert same(pellucid.compile(f, backend=backend, fullgraph=True, **options)(*args), f(*args))
    return backend.graphs[0]


def sets_of(gm):
    return gm.meta.get("compliant_custom_ops"), gm.meta.get("non_compliant_ops")


def test_A39_operators_are_in_one_of_two_sets():
    def f(x):
        return ops().tagged(x) + ops().untagged.default(x) + torch.ops.aten.sin(x) + ops().tagged.default(x)

    assert sets_of(captured(f, X)) == ({"pellucid_ops.tagged.default"}, {"pellucid_ops.untagged.default"})
    assert sets_of(captured(lambda x: torch.ops.aten.sin.default(x) + x, X)) == (None, None)


def test_A39_an_untagged_operator_breaks_the_graph_where_only_tagged_ones_are_wanted():
    def f(x):
        return ops().untagged(x + 1) * 2

    with pellucid.config.patch(only_allow_pt2_compliant_ops=True):
        with pytest.raises(pellucid.errors.Unsupported) as caught:
            pellucid.compile(f, backend="eager", fullgraph=True)(X)
        assert "pellucid_ops.untagged.default is not tagged" in str(caught.value)
        assert "torch.Tag.pt2_compliant_tag" in str(caught.value) and "only_allow_pt2_compliant_ops" in str(
            caught.value
        )
        backend = Counting()
        assert same(pellucid.compile(f, backend=backend)(X), (X + 1) * 6)
        assert "NotCompliant" in [record.name for record in pellucid.break_reasons()]
        assert sets_of(captured(lambda x: ops().tagged(x) + 1, X)) == ({"pellucid_ops.tagged.default"}, set())
    gm = captured(f, X)
    assert sets_of(gm) == (set(), {"pellucid_ops.untagged.default"})


def test_A39_the_option_of_one_compiled_function():
    f = pellucid.compile(
        lambda x: ops().untagged(x), backend="eager", fullgraph=True, config={"only_allow_pt2_compliant_ops": True}
    )
    with pytest.raises(pellucid.errors.Unsupported, match="not tagged"):
        f(X)


def test_A40_the_overload_of_a_packet_is_that_of_its_arguments():
    def f(x, y):
        return ops().mixed(x) + ops().mixed(x, other=y)

    assert sets_of(captured(f, X, X)) == ({"pellucid_ops.mixed.default", "pellucid_ops.mixed.like"}, set())
    assert sets_of(captured(lambda x: ops().mixed(x, 3), X)) == (set(), {"pellucid_ops.mixed.by"})
    with pellucid.config.patch(only_allow_pt2_compliant_ops=True):
        captured(f, X, X)
        with pytest.raises(pellucid.errors.Unsupported, match=r"pellucid_ops.mixed.by is not tagged"):
            pellucid.compile(lambda x: ops().mixed(x, 3), backend="eager", fullgraph=True)(X)


def test_A40_an_open_int_chooses_its_overload():
    gm = captured(lambda x, n: ops().mixed(x, n), X, 7, dynamic=True)
    assert sets_of(gm) == (set(), {"pellucid_ops.mixed.by"})


def test_A40_no_overload_that_fits_is_a_break_with_the_text_of_the_resolver():
    def f(x):
        return ops().mixed(x, "3")

    compiled = pellucid.compile(f, backend="eager")
    with pytest.raises(RuntimeError, match="failed to match any schema"):  # eager's own
        compiled(X)
    (record,) = pellucid.break_reasons(compiled)
    assert record.name == "UnresolvedOverload"
    assert "Expected a value of type 'int' for argument 'k'" in record.message


def test_A40_an_operator_without_a_derivative_is_as_eager():
    def f(x):
        return ops().only_cpu(x)

    backend = Counting()
    x = torch.ones(2, requires_grad=True)
    got, want = pellucid.compile(f, backend=backend, fullgraph=True)(x), f(x)
    assert same(got, want) and got.requires_grad == want.requires_grad and type(got.grad_fn) is type(want.grad_fn)
    assert [node.target for node in backend.graphs[0].graph.nodes if node.op == "call_function"] == [ops().only_cpu]


def test_A40_an_operator_without_a_fake_is_a_break():
    @torch.library.custom_op("pellucid_ops2::no_fake", mutates_args=())
    def no_fake(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = pellucid.compile(lambda x: no_fake(x * 2) * 2, backend="eager")
    assert same(compiled(X), (X * 2 + 1) * 2)
    assert "register_fake" in pellucid.break_reasons(compiled)[0].message


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd"])
def test_A39_an_operator_that_only_writes_needs_no_fake(backend, key):
    with torch.library._scoped_library(f"pellucid_writes_{key}_{backend}".lower(), "DEF") as library:
        library.define("fill(Tensor(a!) x, Tensor y, Tensor(b!)[] more) -> ()")

        @torch.library.impl(library, "fill", key)
        def fill(x, y, more):
            x.add_(y)
            for other in more:
                other.mul_(2)

        operator = getattr(torch.ops, library.ns).fill

        def f(x, outside):
            made, other = torch.zeros_like(x), x * 3
            view = made[:1]
            operator(made, x, [other, outside])
            return made + 1, view, other, outside * 1

        counting = CountingOf(backend)
        compiled = pellucid.compile(f, backend=counting, fullgraph=True)
        for size in (3, 4, 6):
            ours, theirs = torch.ones(2), torch.ones(2)
            x = torch.arange(float(size))
            assert same(compiled(x, ours), f(x, theirs))
            assert same(ours, theirs) and (backend != "eager" or ours._version == theirs._version)
        assert counting.count == 2


@torch.library.custom_op("pellucid_ops2::accumulate", mutates_args=("into",))
def accumulate(into: torch.Tensor, x: torch.Tensor, times: int = 1) -> None:
    into.add_(x.sum(0) * times)


@torch.library.custom_op("pellucid_ops2::drain", mutates_args=("x",))
def drain(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    taken = x[1:].clone()
    x.zero_()
    return taken, taken.sum(0)


@drain.register_fake
def _(x):
    return x.new_empty(x.shape[0] - 1, *x.shape[1:]), x.new_empty(x.shape[1:])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A39_sizes_of_what_an_operator_writes_stay_open(backend):
    def f(x, outside):
        made = torch.zeros(x.shape[1])
        accumulate(made, x)
        accumulate(outside[:2], x[:, :2], times=2)
        taken, sums = drain(x)
        return made * 2, taken + outside, sums, taken.shape

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for size in (3, 4, 6, 9):
        ours, theirs = ([torch.arange(size * 3.0).reshape(size, 3), torch.ones(3)] for _ in range(2))
        assert same(compiled(*ours), f(*theirs)) and same(ours, theirs)
        assert backend != "eager" or [x._version for x in ours] == [x._version for x in theirs]
    assert counting.count == 2


@torch.library.custom_op("pellucid_ops2::crop", mutates_args=())
def crop(x: torch.Tensor, n: int, like: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x[: x.shape[0] // 2].clone(), [torch.zeros(x.shape[0] + n, *one.shape) for one in like]


@crop.register_fake
def _(x, n, like):
    return x.new_empty(x.shape[0] // 2, *x.shape[1:]), [torch.empty(x.shape[0] + n, *one.shape) for one in like]


@torch.library.custom_op("pellucid_ops2::steep", mutates_args=())
def steep(x: torch.Tensor) -> torch.Tensor:
    return x.square() if x.shape[0] < 6 else x.square().sum(0)


@steep.register_fake
def _(x):
    return torch.empty_like(x) if x.shape[0] < 6 else x.new_empty(x.shape[1:])


steep.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0] * 7,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A39_what_a_fake_computes_of_open_sizes_stays_open(backend):
    def f(x, n):
        first, (second, third) = crop(x, n, [x, x[0]])
        return first * 2, second.shape, third + 1, second.sum() + first.shape[0]

    counting = CountingOf(backend)
    compiled = pellucid.compile(f, backend=counting, fullgraph=True)
    for size, n in ((4, 2), (5, 3), (8, 1), (11, 7)):
        x = torch.arange(size * 3.0).reshape(size, 3)
        assert same(compiled(x, n), f(x, n))
    assert counting.count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_A39_what_a_fake_decides_by_sizes_is_guarded(backend):
    counting = CountingOf(backend)
    compiled = pellucid.compile(lambda x: steep(x * 2) + 1, backend=counting, fullgraph=True)
    for size in (3, 4, 5, 7, 8, 4, 9):
        ours, theirs = (torch.arange(size * 2.0).reshape(size, 2).requires_grad_() for _ in range(2))
        got, want = compiled(ours), steep(theirs * 2) + 1
        got.sum().backward()
        want.sum().backward()
        assert same(got.detach(), want.detach()) and same(ours.grad, theirs.grad)
    assert counting.count == 3


def test_an_operator_that_is_asked_for_the_first_time_in_a_region():
    """torch.ops makes it then, with its namespace and its overload: nothing is captured again for that."""
    library = torch.library.Library("pellucid_first_use", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")

    def f(x):
        return torch.ops.pellucid_first_use.twice.default(x) + 1

    backend = Counting()
    compiled = pellucid.compile(f, backend=backend, fullgraph=True)
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(compiled(x), x * 2 + 1)
        assert backend.count == 1
    assert not pellucid.recompile_reasons(compiled)


def test_an_operator_that_does_not_exist():
    def f(x):
        return torch.ops.pellucid_nowhere.nothing(x)

    for function in (f, pellucid.compile(f, backend="eager")):
        with pytest.raises(AttributeError, match="nothing"):
            function(torch.randn(3))
