"""Rows D06 to D09 of docs/feature_rows.md: what a backend made of a graph is compared with the graph before it is used."""

from __future__ import annotations

import logging

import pytest
import torch

import pellucid
from pellucid.backends.copies import copies, same_random_numbers, unchanged
from pellucid.backends.verify import IncorrectResults, difference
from pellucid.errors import BackendCompilerFailed
from support import same

X = torch.arange(1.0, 4.0)


@pytest.fixture(autouse=True)
def verifying():
    with pellucid.config.patch(verify_correctness=True):
        yield


def as_it_is(gm, example_inputs):
    return torch.fx.Interpreter(gm).run


def compiled(f, backend=as_it_is):
    return pellucid.compile(f, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", as_it_is])
def test_D06_a_correct_backend(backend):
    f = lambda x, y: (x.sin() @ y, x * 2)  # noqa: E731
    g = compiled(f, backend)
    for x in (X, X + 1, torch.ones(5)):
        assert all(torch.allclose(a, b) for a, b in zip(g(x, x), f(x, x), strict=True))


def test_D06_both_run_once_and_only_before_the_first_call():
    runs = []

    def backend(gm, example_inputs):
        def run(*inputs):
            runs.append([tensor is X for tensor in inputs])
            return gm.forward(*inputs)

        return run

    g = compiled(torch.sin, backend)
    g(X), g(X)
    assert runs == [[False], [True], [True]]


def wrong(gm, example_inputs):
    return lambda *inputs: [value + 1 for value in gm.forward(*inputs)]


def test_D07_incorrect_results(caplog):
    with caplog.at_level(logging.ERROR, "pellucid"), pytest.raises(BackendCompilerFailed) as caught:
        (
            compiled(torch.sin, "relu_accuracy_error_TESTING_ONLY")(X),
            compiled(lambda x: torch.relu(x), "relu_accuracy_error_TESTING_ONLY")(X),
        )
    inner = caught.value.inner_exception
    assert type(inner) is IncorrectResults and isinstance(inner, RuntimeError)
    assert "incorrect results of backend 'relu_accuracy_error_TESTING_ONLY'" in str(caught.value)
    assert "result 0" in str(inner) and "__compiled_fn_" in str(inner)
    (record,) = [record for record in caplog.records if record.name == "pellucid"]
    assert record.levelno == logging.ERROR and record.exc_info[1] is inner


def changing(change):
    """A backend whose graph does something else with its results or inputs."""

    def backend(gm, example_inputs):
        def run(*inputs):
            results = list(gm.forward(*inputs))
            return change(results, inputs) or results

        return run

    return backend


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda results, inputs: [results[0][:2]], r"result 0 has the shape \(2,\) instead of \(3,\)"),
        (lambda results, inputs: [results[0].double()], "result 0 has the dtype torch.float64"),
        (lambda results, inputs: [*results, 1], "has 2 elements instead of 1"),
        (lambda results, inputs: [results[0].detach()], "requires_grad False instead of True"),
        (lambda results, inputs: (inputs[1].add_(1), None)[1], "inputs behind the run: input.1."),
    ],
    ids=["shape", "dtype", "number", "gradients", "written"],
)
def test_D07_all_that_may_differ(change, words):
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(BackendCompilerFailed, match=words):
        compiled(lambda x, y: x * 2 + y.mean(), changing(change))(w, X.clone()[:3])


def test_D08_none_means_the_graph_as_it_is():
    f = lambda x: x.sin() + 1  # noqa: E731
    g = compiled(f, lambda gm, example_inputs: None)
    assert same(g(X), f(X)) and same(g(X + 1), f(X + 1))
    with pellucid.config.patch(verify_correctness=False), pytest.raises(BackendCompilerFailed, match="did not return"):
        compiled(lambda x: x.cos(), lambda gm, example_inputs: None)(X)
    assert same(compiled(lambda x: x + 1, lambda gm, example_inputs: gm.forward)(X), X + 1)


def test_D08_errors_while_checking_leave_all_as_it_was(caplog):
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = torch.get_rng_state()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    with caplog.at_level(logging.ERROR, "pellucid"), pytest.raises(BackendCompilerFailed, match="ReluRuntimeError"):
        compiled(lambda x: torch.relu(net(x)), "relu_runtime_error_TESTING_ONLY")(x)
    assert [record.name for record in caplog.records if record.levelno == logging.ERROR] == ["pellucid"]
    assert all(same(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert same(torch.get_rng_state(), state)


def test_D08_a_graph_that_raises_itself():
    def f(x, index):
        try:
            return x[index] + 1
        except IndexError:
            return x - 1

    g = pellucid.compile(f, backend=as_it_is)
    for index in (torch.tensor([9]), torch.tensor([1])):
        assert same(g(X, index), f(X, index))


def test_D09_buffers_inputs_and_random_state():
    net = torch.nn.BatchNorm1d(3)

    def f(x, total):
        total.add_(1)
        return net(x) + torch.rand(3)

    other = torch.nn.BatchNorm1d(3)
    x, total, wanted = torch.randn(4, 3), torch.zeros(1), torch.zeros(1)
    torch.manual_seed(5)
    got = (compiled(f)(x, total), torch.rand(2))
    torch.manual_seed(5)
    wanted.add_(1)
    want = (other(x) + torch.rand(3), torch.rand(2))
    assert torch.allclose(got[0], want[0]) and same(got[1], want[1]) and same(total, wanted)
    assert net.num_batches_tracked.item() == 1 and same(net.running_mean, other.running_mean)


def test_D09_random_numbers_are_no_difference():
    """Z26: torch._dynamo runs both graphs from different states of the generator, and reports a correct backend."""
    f = lambda x: torch.nn.functional.dropout(x, 0.5)  # noqa: E731
    x = torch.ones(100)
    torch.manual_seed(0)
    want = f(x)
    torch.manual_seed(0)
    assert same(compiled(f)(x), want)
    with torch._dynamo.config.patch(verify_correctness=True), pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(f, backend=lambda gm, example_inputs: torch.fx.Interpreter(gm).run)(x)
    torch._dynamo.reset()


def test_D09_the_backend_gets_a_copy():
    given = []

    def backend(gm, example_inputs):
        given.append(gm)
        for node in list(gm.graph.nodes):
            if node.target is torch.sin:
                node.target = torch.cos
        gm.recompile()
        return None

    f = lambda x: torch.sin(x)  # noqa: E731
    g = compiled(f, backend)
    assert same(g(X), X.sin()) and given[0].graph.find_nodes(op="call_function", target=torch.cos)
    (placeholder,) = given[0].graph.find_nodes(op="placeholder")
    assert placeholder._dynamo_source.name == "L['x']" and given[0].compile_subgraph_reason.reason == "return_value"


def test_D09_tensors_of_the_graph_stay_the_programs():
    """A graph that writes a tensor which it holds itself: the copy that the backend got has the same one."""
    counter = torch.zeros(1)
    torch._dynamo.mark_static_address(counter)

    def f(x):
        counter.add_(1)
        return x + counter

    g = compiled(f)
    assert [g(X)[0].item() for _ in range(3)] == [2.0, 3.0, 4.0] and counter.item() == 3


@pytest.mark.parametrize("leaf", [False, True])
def test_copies_share_memory_as_their_originals_do(leaf):
    base = torch.arange(6.0)
    if not leaf:
        base = base.requires_grad_() * 1
    views = [base[:4], base[2:], base[::2], torch.ones(2).t()]
    made = copies(views)
    for copy, view in zip(made, views, strict=True):
        assert same(copy.detach(), view.detach()) and copy.stride() == view.stride()
        assert (copy.requires_grad, copy.is_leaf) == (view.requires_grad, view.is_leaf)
        assert copy.data_ptr() != view.data_ptr() and copy.storage_offset() == view.storage_offset()
    made[0].add_(1)
    assert made[1][0].item() == 3 and base[2].item() == 2 and copies([base, base])[0] is not base
    first, second = copies([base, base])
    assert first is second


def test_copies_of_conjugates_and_leaves_that_require_gradients():
    z = torch.tensor([1 + 2j, 3j])
    copy, plain, negative = copies([z.conj(), z, z.imag])
    assert copy.is_conj() and same(copy.resolve_conj(), z.conj().resolve_conj()) and same(negative, z.imag)
    plain.add_(1)
    assert copy[0].item() == 2 - 2j
    parameter = torch.nn.Parameter(torch.ones(2))
    (copy,) = copies([parameter])
    assert copy.is_leaf and copy.requires_grad


def test_unchanged_and_same_random_numbers():
    x = torch.zeros(3)
    version = x._version
    with unchanged([x]):
        x.add_(1)
    assert same(x, torch.zeros(3)) and x._version == version
    with same_random_numbers():
        first = torch.rand(2)
    assert same(torch.rand(2), first)


def test_differences_in_words():
    assert difference([X, [1, X]], [X.clone(), (1, X)]) is None
    assert "result 1[0] is 2 instead of 1" in difference([X, [1]], [X, [2]])
    assert difference(X, X + 1e-7) is None and "not close" in difference(X, X + 1)
    nan = torch.tensor([float("nan")])
    assert difference(nan, nan.clone()) is None
    assert "only the compiled one raises (ValueError: planted)" == difference([X], ValueError("planted"))
    assert "only the original one raises" in difference(ValueError("planted"), [X])
