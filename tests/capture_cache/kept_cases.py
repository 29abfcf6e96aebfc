"""Programs whose captures are kept by one process and looked for by another one: as text, for each of the two processes.

A case is a module. Its `make()` gives a function and its arguments. `second` is the text that the second process runs, where it
is another one; None: the same.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import collections, contextlib, dataclasses, enum, functools, math, typing
import torch
from torch import nn
import torch.nn.functional as F

X = torch.arange(12.0).reshape(3, 4)
"""


@dataclass(frozen=True)
class Case:
    name: str
    first: str
    second: str | None = None
    around: tuple[str, str] = ("", "")
    """Statements that run before the calls, in each process."""
    kept: bool = True

    @property
    def is_loaded(self) -> bool:
        return self.second is None and self.around[0] == self.around[1]


def same(name: str, text: str, kept: bool = True) -> Case:
    return Case(name, text, kept=kept)


def changed(name: str, text: str, old: str, new: str) -> Case:
    assert text.count(old) == 1, (name, text.count(old))
    return Case(name, text, text.replace(old, new))


def around(name: str, text: str, first: str, second: str) -> Case:
    return Case(name, text, around=(first, second))


FUNCTION = """
def f(x):
    return torch.relu(x @ x.T) + 1
def make():
    return f, (X.clone(),)
"""
HELPER = """
def f(x, thing):
    x = helper(x) * SCALE + TABLE["a"]
    x = x.reshape(SHAPE)
    x = thing.method(x) + thing.twice + thing.halved(x) + thing.of(x)
    if MOOD is Mood.GOOD:
        x = x + MOOD.value
    return INNER(x) * THING.factor
SCALE = 2.0
TABLE = {"a": 1.0, "b": 2.0}
SHAPE = (2, 6)
def helper(x, by=3.0, *, plus=1.0):
    return x * by + plus
class Base:
    offset = 1
    def method(self, x):
        return x + self.offset
    @property
    def twice(self):
        return self.offset * 2
    @staticmethod
    def halved(x):
        return x / 2
    @classmethod
    def of(cls, x):
        return x - cls.offset
class Derived(Base):
    def method(self, x):
        return super().method(x) * 2
class Mood(enum.Enum):
    GOOD = 1
    BAD = 2
MOOD = Mood.GOOD
def outer(n):
    def inner(x):
        return x + n
    return inner
INNER = outer(5)
class Thing:
    def __init__(self):
        self.factor = 3
THING = Thing()
def make():
    return f, (X.clone(), Derived())
"""
MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(4, 8)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(8, 4)
        self.third = nn.Linear(4, 4)
        self.scale = 2.0
        self.count = 0
    def forward(self, x):
        self.count += 1
        x = self.third(self.second(self.drop(F.relu(self.first(x)))))
        return {"out": x * self.scale, "in": [x, self.count]}
def adjust(net):
    return net
def make():
    torch.manual_seed(2)
    return adjust(Net().eval()), (X.clone(),)
"""
CONSTANTS = """
def f(x):
    never = lambda: ({"red", "green", "blue", None}, 1 << 70, -2.5j, ..., "gr\u00fcn", b"x", (1, (True, 1.0)))
    return torch.copysign(x + 1, x.new_full((), 0.0)) * torch.full((), 3)
def make():
    return f, (X.clone(),)
"""
ABSTRACT = """
import abc
def f(x, thing):
    return x + 1 if isinstance(thing, Shape) else x - 1
class Shape(abc.ABC):
    pass
class Square:
    pass
def make():
    return f, (X.clone(), Square())
"""
GENERIC = """
def twin(space):
    exec("def f(x):\\n    return x * FACTOR", space)
    return space["f"]
import sys, types
def module(name, factor):
    made = sys.modules[name] = types.ModuleType(name)
    made.FACTOR = factor
    f = twin(made.__dict__)
    f.__module__ = "kept_twins"
    return f
A, B = module(f"{__name__}_a", 2.0), module(f"{__name__}_b", 3.0)
def make():
    return A, (X.clone(),)
"""
MONKEY = """
def f(x):
    return F.softmax(x, 0) + torch.tanh(x) + x.sigmoid() + math.sqrt(4.0)
def make():
    return f, (X.clone(),)
"""

CASES = [
    same("function", FUNCTION),
    same("helper", HELPER),
    same("constants", CONSTANTS),
    same("module", MODULE),
    same("monkey", MONKEY),
    same("abstract", ABSTRACT),
    same("twins", GENERIC),
    same(
        "operators",
        """
def f(x, y):
    x = F.max_pool2d(x.reshape(1, 3, 4), 2)  # one of two functions, chosen when it is called
    (g,) = torch.autograd.grad((y * y).sum(), (y,))
    return torch.ops.aten.add(x, 1), torch.ops.aten.mul.Tensor(x, x), torch.ops.aten.detach.default(x), g
def make():
    return f, (X.clone(), torch.ones(2, requires_grad=True))
""",
    ),
    same(
        "operator_of_a_library",
        """
LIBRARY = torch.library.Library("kept_cases", "FRAGMENT")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
def f(x):
    return torch.ops.kept_cases.twice(x)
def make():
    return f, (X.clone(),)
""",
        kept=False,  # another process may have registered something else
    ),
    same(
        "gradients",
        """
def f(x, w):
    return F.linear(x, w).pow(2).sum()
def make():
    return f, (X.clone().requires_grad_(), torch.ones(2, 4, requires_grad=True))
""",
    ),
    same(
        "containers",
        """
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Box:
    value: torch.Tensor
    names: list
def f(x, *more, key="k", **rest):
    box = Box(x + 1, ["a", key])
    return [x * 2, (x.sum(), None), {key: x - 1, **rest}], box.names, {1, 2, 3}, x.shape
def make():
    return functools.partial(f)(X.clone()) and f, (X.clone(), 1, "two", True)
""",
    ),
    same(
        "effects",
        """
class Box:
    pass
def f(x, items, box, table):
    items.append(x + 1)
    box.last = x * 2
    table["n"] = len(items)
    x.add_(1)
    return items[0]
def make():
    return f, (X.clone(), [], Box(), {"m": 1})
""",
    ),
    same(
        "sets_and_names",
        """
NAMES = frozenset({"red", "green", "blue"})
def f(x, name):
    if name in {"red", "green", "yellow"} and name in NAMES:
        return x + len(NAMES)
    return x
def make():
    return f, (X.clone(), "green")
""",
        kept=False,  # the order in a set of texts is another one in each process
    ),
    same(
        "sizes_and_views",
        """
def f(x, table):
    for key, value in table.items():
        x = x + value
    return x.T.reshape(x.shape[::-1]), x.size(), x.mT, x[1:, None].expand(2, 5, 4)
def make():
    return f, (X.clone(), {"a": 1, "b": 2})
""",
    ),
    same(
        "language",
        """
def doubled(items):
    for item in items:
        yield item * 2
def f(x):
    total = x
    for i, y in enumerate(doubled([x, x + 1])):
        total = total + y * i
    try:
        raise KeyError("k")
    except KeyError as error:
        name = f"{error.args[0]}-{total.shape[0]}"
    return total, name, [n ** 2 for n in range(4)], sorted({"b": 1, "a": 2})
def make():
    return f, (X.clone(),)
""",
    ),
    same(
        "no_grad",
        """
def f(x):
    with torch.no_grad():
        y = x * 2
    return y + x
def make():
    return f, (X.clone().requires_grad_(),)
""",
    ),
    same(
        "random",
        """
def f(x):
    return F.dropout(x, 0.5, True) + torch.rand(4)
def make():
    torch.manual_seed(7)
    return f, (X.clone(),)
""",
    ),
    same(
        "in_place_and_raise",
        """
def f(x, i):
    x.mul_(2)
    return x.index_select(0, i)
def make():
    return f, (X.clone(), torch.tensor([0, 2]))
""",
    ),
    same(
        "closure",
        """
def outer(n, module):
    def f(x):
        return module(x) * n
    return f
def make():
    torch.manual_seed(0)
    return outer(3, nn.Linear(4, 2)), (X.clone(),)
""",
    ),
    same(
        "global_writes",
        """
COUNT = 0
def f(x):
    global COUNT
    COUNT += 1
    return x + COUNT
def make():
    global COUNT
    COUNT = 0
    return f, (X.clone(),)
""",
        kept=False,
    ),
    # ---- what has changed in the second process
    changed("other_line", FUNCTION, "+ 1", "+ 2"),
    changed("other_zero", CONSTANTS, "0.0)", "-0.0)"),
    changed("other_kind_of_constant", CONSTANTS, "(), 3)", "(), 3.0)"),
    changed("true_for_one", CONSTANTS, "(1, (True", "(1, (1"),
    changed("other_set", CONSTANTS, '"blue", None', '"blue", 0'),
    changed("other_large_number", CONSTANTS, "1 << 70", "1 << 71"),
    changed("other_name_of_argument", CONSTANTS, "never = lambda:", "never = lambda other:"),
    changed("other_global", HELPER, "SCALE = 2.0", "SCALE = 4.0"),
    changed("other_global_kind", HELPER, "SCALE = 2.0", "SCALE = 2"),
    changed("other_item", HELPER, '"a": 1.0', '"a": 7.0'),
    changed("other_tuple", HELPER, "SHAPE = (2, 6)", "SHAPE = (6, 2)"),
    changed("other_helper", HELPER, "x * by + plus", "x * by - plus"),
    changed("other_default", HELPER, "by=3.0", "by=4.0"),
    changed("other_keyword_default", HELPER, "plus=1.0", "plus=2.0"),
    changed("other_class_attribute", HELPER, "    offset = 1", "    offset = 9"),
    changed("other_method", HELPER, "super().method(x) * 2", "super().method(x) * 3"),
    changed("other_base_method", HELPER, "return x + self.offset", "return x - self.offset"),
    changed("other_property", HELPER, "self.offset * 2", "self.offset * 5"),
    changed("other_staticmethod", HELPER, "return x / 2", "return x / 4"),
    changed("other_classmethod", HELPER, "x - cls.offset", "x + cls.offset"),
    changed(
        "other_base", HELPER, "class Derived(Base):", "class Between(Base):\n    twice = 100\nclass Derived(Between):"
    ),
    changed("method_is_new", HELPER, "class Derived(Base):", "class Derived(Base):\n    offset = 50"),
    changed("getattribute_is_new", HELPER, "class Derived(Base):", "class Derived(Base):\n    __getattr__ = 1"),
    changed("other_enum_value", HELPER, "GOOD = 1", "GOOD = 10"),
    changed("other_enum_member", HELPER, "MOOD = Mood.GOOD", "MOOD = Mood.BAD"),
    changed("other_cell", HELPER, "INNER = outer(5)", "INNER = outer(6)"),
    changed("other_inner_code", HELPER, "return x + n", "return x - n"),
    changed("other_attribute", HELPER, "self.factor = 3", "self.factor = 4"),
    changed("other_class_of_instance", HELPER, "THING = Thing()", "class Thing(Thing):\n    pass\nTHING = Thing()"),
    changed(
        "other_function_in_a_global", HELPER, "THING = Thing()\n", "THING = Thing()\ndef helper(x):\n    return x\n"
    ),
    changed(
        "wrapped_function",
        HELPER,
        "THING = Thing()\n",
        "THING = Thing()\n_helper = helper\n@functools.wraps(_helper)\ndef helper(*args, **kw):\n    return _helper(*args, **kw) + 1\n",
    ),
    changed("training", MODULE, "Net().eval()", "Net()"),
    changed("other_child", MODULE, "self.second = nn.Linear(8, 4)", "self.second = nn.Sequential(nn.Linear(8, 4))"),
    changed("other_number_in_module", MODULE, "self.scale = 2.0", "self.scale = 3.0"),
    changed("hook", MODULE, "return net\n", "net.first.register_forward_hook(lambda m, a, r: r + 1)\n    return net\n"),
    changed(
        "hook_before",
        MODULE,
        "return net\n",
        "net.register_forward_pre_hook(lambda m, a: (a[0] + 1,))\n    return net\n",
    ),
    changed(
        "global_hook",
        MODULE,
        "return net\n",
        "HOOKS.append(nn.modules.module.register_module_forward_hook(lambda m, a, r: None))\n    return net\nHOOKS = []\n",
    ),
    changed(
        "shared_module",
        MODULE,
        "return net\n",
        "net.other = net.third = net.second if False else net.third\n    net.third.weight = nn.Parameter(net.third.weight.detach().clone())\n    net.third.bias = net.second.bias\n    return net\n",
    ),
    changed("frozen_parameter", MODULE, "return net\n", "net.first.weight.requires_grad_(False)\n    return net\n"),
    changed(
        "buffer_for_parameter",
        MODULE,
        "return net\n",
        "b = net.first.bias.detach()\n    del net.first.bias\n    net.first.register_buffer('bias', b)\n    return net\n",
    ),
    changed("no_bias", MODULE, "self.third = nn.Linear(4, 4)", "self.third = nn.Linear(4, 4, bias=False)"),
    changed(
        "forward_on_the_instance",
        MODULE,
        "return net\n",
        "net.first.forward = lambda x: F.linear(x, net.first.weight)\n    return net\n",
    ),
    changed("other_forward", MODULE, "F.relu(", "F.gelu("),
    changed("sizes", FUNCTION, "(X.clone(),)", "(X[:2].clone(),)"),
    changed("strides", FUNCTION, "(X.clone(),)", "(X.T.contiguous().T,)"),
    changed("dtype", FUNCTION, "(X.clone(),)", "(X.double(),)"),
    changed("requires_grad", FUNCTION, "(X.clone(),)", "(X.clone().requires_grad_(),)"),
    changed("not_a_leaf", FUNCTION, "(X.clone(),)", "(X.clone().requires_grad_() * 1,)"),
    changed("parameter", FUNCTION, "(X.clone(),)", "(nn.Parameter(X.clone()),)"),
    changed(
        "subclass",
        FUNCTION,
        "def make():",
        "class Mine(torch.Tensor):\n    pass\ndef make():\n    return f, (X.clone().as_subclass(Mine),)\n",
    ),
    changed("registered", ABSTRACT, "def make", "Shape.register(Square)\ndef make"),
    changed("subclassed", ABSTRACT, "class Square:", "class Square(Shape):"),
    changed(
        "hook_of_abstract",
        ABSTRACT,
        "class Shape(abc.ABC):\n    pass",
        "class Shape(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, other):\n        return True",
    ),
    changed("equal_code_other_globals", GENERIC, "return A,", "return B,"),
    around("sizes_of_torch", MONKEY, "", "torch.tanh = torch.numel"),
    around("softmax_is_another", MONKEY, "", "def softmax(x, dim):\n    return x * 0\nF.softmax = softmax"),
    around(
        "softmax_is_wrapped",
        MONKEY,
        "",
        "_s = F.softmax\n@functools.wraps(_s)\ndef softmax(x, dim):\n    return _s(x, dim) * 2\nF.softmax = softmax",
    ),
    around("tanh_is_another", MONKEY, "", "torch.tanh = torch.sin"),
    around("method_is_another", MONKEY, "", "torch.Tensor.sigmoid = lambda self: self * 0"),
    around("math_is_another", MONKEY, "", "math.sqrt = math.exp"),
    around("grad_mode", FUNCTION, "", "torch.set_grad_enabled(False)"),
    around("inference_mode", FUNCTION, "", "MODE = torch.inference_mode()\nMODE.__enter__()"),
    around("autocast", FUNCTION, "", "MODE = torch.autocast('cpu', dtype=torch.bfloat16)\nMODE.__enter__()"),
    around("default_dtype", FUNCTION, "", "torch.set_default_dtype(torch.float64)"),
    around("default_device", FUNCTION, "", "torch.set_default_device('cpu')"),
    around("deterministic", FUNCTION, "", "torch.use_deterministic_algorithms(True)"),
    around("option", FUNCTION, "", "import pellucid\npellucid.config.automatic_dynamic_shapes = False"),
    around("version_of_torch", FUNCTION, "", "torch.__version__ = '0.0.1'"),
    around(
        "builtin_is_another", HELPER, "", "len_ = len\nimport builtins\nbuiltins.super = type('super', (super,), {})"
    ),
]
