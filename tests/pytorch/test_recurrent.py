"""LSTM, GRU and RNN with the backends on top of AOTAutograd: torch's decompositions of them leave dropout out, among others."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import pellucid
from pellucid.backends import aot

NETWORKS = {
    "lstm": lambda: nn.LSTM(4, 5, num_layers=3, dropout=0.5),
    "lstm_both_ways": lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.5, bidirectional=True, batch_first=True),
    "lstm_projected": lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.5, proj_size=3),
    "lstm_without_bias": lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.5, bias=False),
    "lstm_one_layer": lambda: nn.LSTM(4, 5),
    "gru": lambda: nn.GRU(4, 5, num_layers=3, dropout=0.5, batch_first=True),
    "gru_both_ways": lambda: nn.GRU(4, 5, num_layers=2, dropout=0.5, bidirectional=True),
    "rnn_tanh": lambda: nn.RNN(4, 5, num_layers=2, dropout=0.5),
    "rnn_relu": lambda: nn.RNN(4, 5, num_layers=2, dropout=0.5, nonlinearity="relu", bidirectional=True),
}
X = torch.randn(2, 2, 4)


def told(caplog):
    return [record.message for record in caplog.records if record.name == "pellucid"]


class Counted:
    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append([str(node.target) for node in gm.graph.nodes if node.op == "call_function"])
        return aot.aot_eager(gm, example_inputs)


def results_and_gradients(net, run, x, with_grad):
    """Results, gradients and the next random number of a run."""
    torch.manual_seed(5)
    net.zero_grad()
    with torch.set_grad_enabled(with_grad):
        output, state = run(x)
        results = [output, *(state if isinstance(state, tuple) else [state])]
        if with_grad:
            sum((result * result).sum() for result in results).backward()
            results += [weight.grad for weight in net.parameters()]
            results += [x.grad.clone()] if x.grad is not None else []
            x.grad = None
    return [*results, torch.rand(1)]


@pytest.mark.parametrize(("with_grad", "input_with_grad"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("network", NETWORKS)
def test_as_eager(network, with_grad, input_with_grad, caplog):
    torch.manual_seed(0)
    net = NETWORKS[network]()
    check_as_eager(net, with_grad, input_with_grad, caplog)


@pytest.mark.parametrize("with_grad", [True, False])
@pytest.mark.parametrize("network", ["lstm", "gru"])
def test_as_eager_without_dropout(network, with_grad, caplog):
    check_as_eager(NETWORKS[network]().eval(), with_grad, False, caplog)


def check_as_eager(net, with_grad, input_with_grad, caplog):
    backend = Counted()
    importlib.import_module("torch._functorch.aot_autograd")  # whoever loads it is called once more
    compiled = pellucid.compile(net, backend=backend, fullgraph=True)
    x = X.clone().requires_grad_(input_with_grad)
    for _ in range(2):
        want, got = results_and_gradients(net, net, x, with_grad), results_and_gradients(net, compiled, x, with_grad)
        assert torch.equal(got[-1], want[-1])
        torch.testing.assert_close(got, want)
    assert len(backend.graphs) == 1
    assert not told(caplog)


def test_dropout_makes_a_difference():
    """Else the tests above would not see that it is left out."""
    net = NETWORKS["gru"]()
    dropped, whole = results_and_gradients(net, net, X, False)[0], results_and_gradients(net, net.eval(), X, False)[0]
    assert not torch.allclose(dropped, whole)


def test_what_a_backend_refuses_is_a_break(monkeypatch):
    from pellucid.backends import decompositions
    from pellucid.backends.errors import GraphRefused

    def refuse(*args):
        raise GraphRefused("dropout as on a GPU")

    monkeypatch.setattr(decompositions, "_recurrent_layers", refuse)
    net = NETWORKS["gru"]()
    compiled = pellucid.compile(net, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(
            results_and_gradients(net, compiled, X, True), results_and_gradients(net, net, X, True)
        )
    assert any("dropout as on a GPU" in record.message for record in pellucid.break_reasons())
    with pytest.raises(pellucid.errors.Unsupported, match="dropout as on a GPU"):
        pellucid.compile(net, backend="aot_eager", fullgraph=True)(X)


def test_torch_is_as_before():
    from torch._decomp import decompositions as torchs

    before = torchs._rnn_helper, torchs.select_one_layer_lstm_function
    pellucid.compile(NETWORKS["lstm"](), backend="aot_eager")(X)
    assert (torchs._rnn_helper, torchs.select_one_layer_lstm_function) == before


def test_as_eager_where_the_backend_is_the_first_to_load_aot():
    """It gets the graph once more, with all that AOTAutograd looks for: else dropout would be left out."""
    program = """
        import sys
        import torch, pellucid
        calls = []
        def backend(gm, example_inputs):
            from pellucid.backends.aot import aot_eager
            calls.append([node.name for node in gm.graph.nodes])
            gm.graph.erase_node(gm.graph.create_node("placeholder", "unused"))  # it may change the graph
            return aot_eager(gm, example_inputs)
        assert "torch._functorch.aot_autograd" not in sys.modules
        nets = [torch.nn.LSTM(4, 5, num_layers=3, dropout=0.5) for _ in range(2)]
        x = torch.randn(2, 2, 4)
        for net in nets:
            compiled = pellucid.compile(net, backend=backend, fullgraph=True)
            for _ in range(2):
                torch.manual_seed(5)
                want = net(x)[0]
                torch.manual_seed(5)
                torch.testing.assert_close(compiled(x)[0], want)
        assert len(calls) == 3 and calls[0] == calls[1] == calls[2], calls
        assert pellucid.counters()["graphs"] == 2
        print("fine")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=150)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]
