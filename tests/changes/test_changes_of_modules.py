"""Between calls torch.nn modules that a region read may change: the result equals eager's every time (support/changes.py)."""

import collections
import importlib
from pathlib import Path

import pytest
import torch

from support.changes import Cases, X

case = CASES = Cases()


@case
def module_hooks_of_a_parameter():
    w = torch.nn.Parameter(torch.ones(3))
    net = torch.nn.ParameterList([w])

    def f(x):
        return x * net[0] + len(net)

    yield f, X
    net[0] = torch.nn.Parameter(torch.zeros(3))
    yield f, X
    net.append(w)
    yield f, X


# ---- modules


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(3, 3)])
        self.seq = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        self.drop = torch.nn.Dropout(0.0)
        self.register_buffer("shift", torch.ones(3))
        self.names = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.ones(3))})

    def forward(self, x):
        x = self.a(x) + self.shift
        for block in self.blocks:
            x = block(x)
        if self.training:
            x = x * 3
        return self.seq(self.drop(x)) * self.names["w"]


def module_case(name, *changes):
    def make():
        torch.manual_seed(0)
        net = Net()
        undo = []

        def f(x):
            return net(x)

        try:
            yield f, X
            for change in changes:
                done = change(net)
                if hasattr(done, "remove") and not isinstance(done, torch.Tensor):
                    undo.append(done)
                yield f, X
        finally:
            for handle in undo:
                handle.remove()
        if undo:
            yield f, X

    case(make, "module_" + name)


def fill(tensor, value=0.5):
    return torch.full_like(tensor, value)


module_case("training", lambda n: n.eval(), lambda n: n.train())
module_case("submodule_training", lambda n: n.__setattr__("training", False))
module_case(
    "parameter_replaced",
    lambda n: setattr(n.a, "weight", torch.nn.Parameter(fill(n.a.weight))),
    lambda n: setattr(n.a, "weight", torch.nn.Parameter(torch.ones(1, 3))),
)
module_case(
    "parameter_data",
    lambda n: setattr(n.a.weight, "data", fill(n.a.weight)),
    lambda n: setattr(n.a.weight, "data", torch.ones(1, 3)),
)
module_case("parameter_in_place", lambda n: n.a.weight.data.fill_(0.25))
module_case("parameter_removed", lambda n: setattr(n.a, "bias", None))
module_case("parameter_frozen", lambda n: n.requires_grad_(False), lambda n: n.requires_grad_(True))
module_case(
    "buffer_replaced", lambda n: setattr(n, "shift", torch.zeros(3)), lambda n: setattr(n, "shift", torch.zeros(1))
)
module_case(
    "submodule_replaced",
    lambda n: setattr(n, "a", torch.nn.Identity()),
    lambda n: setattr(n, "a", torch.nn.Linear(3, 3, bias=False)),
)
module_case(
    "list_append",
    lambda n: n.blocks.append(torch.nn.Linear(3, 3)),
    lambda n: n.blocks.insert(0, torch.nn.Identity()),
    lambda n: n.blocks.__delitem__(0),
)
module_case(
    "sequential_item",
    lambda n: n.seq.__setitem__(1, torch.nn.Tanh()),
    lambda n: n.seq.append(torch.nn.Tanh()),
    lambda n: n.seq.__delitem__(0),
)
module_case("forward_pre_hook", lambda n: n.a.register_forward_pre_hook(lambda m, a: (a[0] * 2,)))
module_case(
    "forward_hook",
    lambda n: n.a.register_forward_hook(lambda m, a, out: out * 2),
    lambda n: n.register_forward_hook(lambda m, a, out: out + 1),
)
module_case(
    "global_forward_hook", lambda n: torch.nn.modules.module.register_module_forward_hook(lambda m, a, out: out * 2)
)
module_case(
    "global_forward_pre_hook",
    lambda n: torch.nn.modules.module.register_module_forward_pre_hook(lambda m, a: (a[0] * 2,)),
)
module_case("forward_of_the_instance", lambda n: setattr(n.a, "forward", lambda x: x * 2))
module_case("parameter_dict", lambda n: n.names.update({"w": torch.nn.Parameter(torch.zeros(3))}))
module_case("parameter_tied", lambda n: setattr(n.a, "weight", n.blocks[0].weight))
module_case("dropout_p", lambda n: setattr(n.drop, "p", 1.0), lambda n: n.eval())


@case
def module_double():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 3)

    def f(x):
        return net(x)

    yield f, X
    net.double()
    yield f, X.double()
    yield f, X
    net.float()
    yield f, X


@case
def module_method_of_its_class():
    class Doubled(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    torch.manual_seed(0)
    net = Doubled(3, 3)

    def f(x):
        return net(x)

    yield f, X
    Doubled.forward = lambda self, x: x
    yield f, X


@case
def module_of_another_instance():
    torch.manual_seed(0)

    def f(net, x):
        return net(x)

    a, b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    yield f, a, X
    yield f, b, X
    yield f, torch.nn.Linear(3, 2), X
    yield f, torch.nn.ReLU(), X


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)


def test_B01_at_least_sixty_kinds():
    files = sorted(Path(__file__).parent.glob("test_changes_of_*.py"))
    names = [name for file in files for name in importlib.import_module(file.stem).CASES.names]
    twice = [name for name, n in collections.Counter(names).items() if n > 1]
    assert not twice and len(names) >= 60, twice
