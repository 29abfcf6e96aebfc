"""What pellucid.compile gives for a module: held against torch.compile's own wrapper, name by name."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref

import pytest
import torch

import pellucid
from support import same

X = torch.arange(3.0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))
        self.tag = "net"

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale + self.offset

    def itself(self):
        return self


def both(make=Net):
    """(torch.compile's wrapper, pellucid's) of two equal modules."""
    made = []
    for compile in (torch.compile, pellucid.compile):
        torch.manual_seed(0)
        made.append(compile(make(), backend="eager"))
    return made


def described(wrapper, value):
    """A value in words that do not depend on whose wrapper it came from."""
    if value is wrapper:
        return "the wrapper"
    if value is wrapper._orig_mod:
        return "the module"
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, value.tolist())
    if isinstance(value, torch.utils.hooks.RemovableHandle):
        owners = {"wrapper": wrapper.__dict__, "module": wrapper._orig_mod.__dict__}
        return ("hook of", [name for name, own in owners.items() if value.hooks_dict_ref() in _hook_dicts(own)])
    if isinstance(value, dict):
        return {name: described(wrapper, item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(wrapper, item) for item in value]
    if hasattr(value, "__next__"):
        return [described(wrapper, item) for item in value]
    return type(value).__name__ if callable(value) else repr(value)


def _hook_dicts(own):
    class Same(list):
        def __contains__(self, wanted):
            return any(item is wanted for item in self)

    return Same(value for name, value in own.items() if name.endswith("hooks"))


def call_and_what_it_leaves(wrapper, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = described(wrapper, call(wrapper))
        except Exception as error:
            got = (type(error), str(error))
    state = {
        name: (value.dtype, value.device.type, value.requires_grad) for name, value in wrapper.state_dict().items()
    }
    return got, state, wrapper.training, wrapper._orig_mod.training


# Arguments for the methods of nn.Module that need some, and those that are called with several.
ARGUMENTS = {
    "add_module": [("extra", torch.nn.ReLU())],
    "apply": [(lambda module: None,)],
    "get_buffer": [("_orig_mod.offset",), ("offset",)],
    "get_parameter": [("_orig_mod.linear.weight",), ("linear.weight",)],
    "get_submodule": [("_orig_mod.linear",), ("linear",), ("",)],
    "load_state_dict": [({},), ({"_orig_mod.offset": torch.zeros(3)}, False), ({"offset": torch.zeros(3)}, False)],
    "register_buffer": [("more", torch.ones(2))],
    "register_module": [("extra", torch.nn.ReLU())],
    "register_parameter": [("more", None)],
    "requires_grad_": [(), (False,)],
    "set_extra_state": [(None,)],
    "set_submodule": [("_orig_mod.linear", torch.nn.Identity())],
    "to": [(torch.float64,), ("cpu",), (X.double(),), ("nonsense",)],
    "to_empty": [],  # gives what the memory holds
    "train": [(), (False,)],
    "type": [(torch.float16,)],
}
HOOKS = [name for name in dir(torch.nn.Module) if name.startswith("register_") and "hook" in name]
NO_CALLS = {"T_destination", "call_super_init", "dump_patches", "forward"}
METHODS = [name for name in dir(torch.nn.Module) if not name.startswith("_") and name not in NO_CALLS]


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_nn_module_are_as_torch_compile_has_them(name):
    calls = [(lambda *_: None,)] if name in HOOKS else ARGUMENTS.get(name, [()])
    for args in calls:
        theirs, ours = both()
        want = call_and_what_it_leaves(theirs, lambda wrapper: getattr(wrapper, name)(*args))
        assert call_and_what_it_leaves(ours, lambda wrapper: getattr(wrapper, name)(*args)) == want, args


@pytest.mark.parametrize(
    "name", ["bfloat16", "cpu", "double", "eval", "float", "half", "requires_grad_", "share_memory", "train"]
)
def test_what_gives_self_gives_the_compiled_module(name, counting):
    compiled = pellucid.compile(Net(), backend=counting)
    assert getattr(compiled, name)() is compiled
    assert compiled.to(torch.float32) is compiled and compiled.apply(lambda module: None) is compiled
    assert same(compiled(X), compiled._orig_mod(X)) and counting.count == 1


def _set(name, value):
    return lambda wrapper: setattr(wrapper, name, value)


def _delete(name):
    return lambda wrapper: delattr(wrapper, name)


@pytest.mark.parametrize(
    "use",
    [
        lambda wrapper: wrapper.itself(),
        lambda wrapper: wrapper.tag,
        lambda wrapper: wrapper.nothing,
        lambda wrapper: wrapper.linear.weight,
        lambda wrapper: [_set("tag", "other")(wrapper), wrapper._orig_mod.tag, "tag" in vars(wrapper)],
        lambda wrapper: [_set("fresh", 3)(wrapper), wrapper._orig_mod.fresh, "fresh" in vars(wrapper)],
        lambda wrapper: [_set("fresh", torch.nn.ReLU())(wrapper), list(dict(wrapper.named_modules()))],
        lambda wrapper: [_set("offset", torch.zeros(3))(wrapper), wrapper.state_dict()],
        lambda wrapper: [_set("forward", lambda x: x + 5)(wrapper), wrapper(X)],
        lambda wrapper: [_set("training", False)(wrapper), wrapper._orig_mod.training],
        lambda wrapper: [_delete("tag")(wrapper), hasattr(wrapper._orig_mod, "tag")],
        lambda wrapper: [_delete("offset")(wrapper), hasattr(wrapper._orig_mod, "offset")],
        lambda wrapper: _delete("nothing")(wrapper),
        lambda wrapper: isinstance(wrapper, torch.nn.Module),
        lambda wrapper: isinstance(wrapper, Net),
        lambda wrapper: [
            type(wrapper).__name__,
            wrapper.__class__ is type(wrapper),
            wrapper._get_name(),
            repr(wrapper),
        ],
        lambda wrapper: {"tag", "linear", "offset", "forward", "_orig_mod", "itself"} <= set(dir(wrapper)),
        lambda wrapper: wrapper.forward(X),
        lambda wrapper: [name for name, _ in wrapper.named_parameters()],
        lambda wrapper: copy.copy(wrapper)._orig_mod is wrapper._orig_mod,
        lambda wrapper: [copy.deepcopy(wrapper)._orig_mod is wrapper._orig_mod, copy.deepcopy(wrapper)(X)],
        lambda wrapper: torch.nn.utils.parameters_to_vector(wrapper.parameters()),
        lambda wrapper: [torch.nn.utils.clip_grad_norm_(wrapper.parameters(), 1.0)],
        lambda wrapper: [
            torch.nn.utils.parametrizations.weight_norm(wrapper.linear),
            list(wrapper.state_dict()),
            wrapper(X),
        ],
        lambda wrapper: torch.func.functional_call(wrapper, {"_orig_mod.offset": torch.zeros(3)}, (X,)),
        lambda wrapper: torch.nn.Sequential(wrapper, torch.nn.ReLU()).state_dict(),
        lambda wrapper: [torch.nn.Sequential(wrapper).double(), wrapper(X.double())],
        lambda wrapper: [wrapper.to("meta"), wrapper.linear.weight.device],
        lambda wrapper: (wrapper._orig_mod if hasattr(wrapper, "_orig_mod") else wrapper) is wrapper._orig_mod,
        lambda wrapper: [_set("_orig_mod", torch.nn.Identity())(wrapper), list(wrapper.state_dict())],
    ],
)
def test_uses_are_as_torch_compile_has_them(use):
    theirs, ours = both()
    want, got = call_and_what_it_leaves(theirs, use), call_and_what_it_leaves(ours, use)
    assert got == want


def test_hooks_of_the_wrapper_run_around_the_compiled_call(counting):
    def run(compile):
        torch.manual_seed(0)
        compiled, seen = compile(Net(), backend=counting), []

        def whose(module):
            return type(module).__name__

        compiled.register_forward_pre_hook(lambda module, args: seen.append(("before", whose(module))))
        compiled.register_forward_hook(lambda module, args, result: seen.append(("after", whose(module))) or result + 1)
        compiled.register_forward_hook(
            lambda module, args, kwargs, result: seen.append(sorted(kwargs)), with_kwargs=True
        )
        compiled.register_full_backward_hook(lambda module, into, out: seen.append(("backward", whose(module))))
        compiled._orig_mod.register_forward_hook(lambda module, args, result: result * 2)
        result = compiled(X.clone().requires_grad_(), scale=2.0)
        result.sum().backward()
        return result, seen

    theirs = run(torch.compile)
    count = counting.count
    assert same(run(pellucid.compile), theirs) and counting.count - count == 1
    assert theirs[1][0] == ("before", "OptimizedModule")


def test_hooks_of_all_modules_run_as_without_compile():
    seen = []
    net = Net()
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, result: seen.append(type(module).__name__)
    )
    try:
        net(X)
        want, seen[:] = list(seen), []
        compiled = pellucid.compile(net, backend="eager")
        compiled(X)
        assert seen == want
        compiled.register_forward_hook(lambda *_: None)
        with pytest.warns(UserWarning, match="hooks of all modules"):
            compiled(X)
    finally:
        handle.remove()


def test_hook_that_is_removed():
    compiled = pellucid.compile(Net(), backend="eager")
    want = compiled(X)
    handle = compiled.register_forward_hook(lambda module, args, result: result + 1)
    assert same(compiled(X), want + 1)
    handle.remove()
    assert same(compiled(X), want)


def test_module_in_a_module():
    torch.manual_seed(0)
    parent = torch.nn.Sequential(torch.nn.Linear(3, 3), Net())
    want = parent(X)
    parent[1] = pellucid.compile(parent[1], backend="eager")
    assert same(parent(X), want) and "1._orig_mod.linear.weight" in parent.state_dict()
    parent.load_state_dict(parent.state_dict())
    assert parent.double() is parent and parent[1](X.double()).dtype == torch.float64
    assert sum(1 for _ in parent.parameters()) == 4


def test_pickles_and_copies():
    net = Net()
    compiled = pellucid.compile(net, backend="eager")
    compiled(X)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        other = pickle.loads(pickle.dumps(compiled, protocol))
        assert other._orig_mod is not net and isinstance(other._orig_mod, Net)
        assert same(other(X), net(X)) and len(pellucid.cache_entries(other)) == 1
    other = copy.copy(compiled)
    assert other.linear is net.linear and other._orig_mod is net
    other._orig_mod = Net()
    assert compiled._orig_mod is net


def test_deepcopy_captures_its_own_module(counting):
    compiled = pellucid.compile(Net(), backend=counting)
    compiled(X)
    other = copy.deepcopy(compiled)
    assert pellucid.cache_entries(other) == [] and other._orig_mod is not compiled._orig_mod
    with torch.no_grad():
        other.linear.weight.zero_()
        other.linear.bias.fill_(3)
    assert same(other(X), other._orig_mod(X)) and same(compiled(X), compiled._orig_mod(X))
    assert len(pellucid.cache_entries(other)) == 1 and other._orig_mod.linear.bias[0] == 3
    assert counting.count >= 1


def test_deepcopy_of_a_module_that_holds_its_own_wrapper():
    net = Net()
    net.__dict__["compiled"] = pellucid.compile(net, backend="eager")
    for made in (copy.deepcopy(net).compiled, copy.deepcopy(net.compiled), pickle.loads(pickle.dumps(net)).compiled):
        assert made._orig_mod.compiled is made and same(made(X), net(X))


class CopiesItself(Net):
    def __deepcopy__(self, memo):
        made = CopiesItself()
        made.tag = "copied by itself"
        return made

    def __reduce_ex__(self, protocol):
        return (CopiesItself, ())


def test_module_with_its_own_way_to_copy():
    compiled = pellucid.compile(CopiesItself(), backend="eager")
    made = copy.deepcopy(compiled)
    assert isinstance(made, type(compiled)) and made.tag == "copied by itself" and same(made(X), made._orig_mod(X))
    assert type(pickle.loads(pickle.dumps(compiled))) is type(compiled)


def test_hooks_are_copied():
    compiled = pellucid.compile(Net(), backend="eager")
    compiled.register_forward_hook(_plus_one)
    for made in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert same(made(X), compiled(X)) and same(made(X), compiled._orig_mod(X) + 1)


def _plus_one(module, args, result):
    return result + 1


def test_another_original(counting):
    compiled = pellucid.compile(Net(), backend=counting)
    compiled(X)
    compiled._orig_mod = torch.nn.Linear(3, 2)
    assert same(compiled(X), compiled._orig_mod(X)) and counting.count == 2
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]


def test_state_is_loaded_either_way():
    first, second = Net(), Net()
    compiled = pellucid.compile(second, backend="eager")
    compiled._orig_mod.load_state_dict(first.state_dict())
    assert same(compiled(X), first(X))
    third = pellucid.compile(Net(), backend="eager")
    third.load_state_dict(compiled.state_dict())
    assert same(third(X), first(X))


def test_containers():
    layers = [torch.nn.Linear(3, 3) for _ in range(3)]
    compiled = pellucid.compile(torch.nn.ModuleList(layers), backend="eager")
    assert len(compiled) == 3 and compiled[1] is layers[1] and list(compiled) == layers and layers[2] in compiled
    assert list(reversed(compiled)) == layers[::-1]
    del compiled[0]
    compiled[0] = layers[0]
    compiled.append(layers[1])
    assert list(compiled) == [layers[0], layers[2], layers[1]]
    named = pellucid.compile(torch.nn.ModuleDict({"a": layers[0]}), backend="eager")
    assert (
        "a" in named and named["a"] is layers[0] and list(named) == ["a"] and list(named.items()) == [("a", layers[0])]
    )
    with pytest.raises(TypeError, match=r"'Linear' has no len"):
        len(pellucid.compile(layers[0], backend="eager"))


def test_module_container_protocol():
    layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])
    sequential = torch.nn.Sequential(*layers)
    compiled = pellucid.compile(sequential, backend="eager")
    assert len(compiled) == 3 and compiled[1] is layers[1] and list(compiled) == list(layers)
    assert bool(compiled) and isinstance(iter(compiled), type(iter(sequential)))


def test_module_call_replaced_in_its_class():
    class Own(torch.nn.Module):
        def forward(self, x):
            return x + 1

    compiled = pellucid.compile(Own(), backend="eager")
    assert same(compiled(X), X + 1)
    Own.forward = lambda self, x: x + 2
    assert same(compiled(X), X + 2)
    Own.__call__ = lambda self, x: x + 3
    assert same(compiled(X), X + 3)


def test_modules_do_not_share_the_limit(counting):
    with pellucid.config.patch(recompile_limit=1):
        for width in (2, 3, 4):
            net = torch.nn.Linear(width, 2)
            compiled = pellucid.compile(net, backend=counting)
            x = torch.ones(width)
            assert same(compiled(x), net(x)) and same(compiled(x), net(x))
    assert counting.count == 3


def test_module_is_freed_with_its_wrapper():
    net = Net()
    compiled = pellucid.compile(net, backend="eager")
    compiled(X)
    watch = weakref.ref(net)
    gc.disable()
    try:
        del net, compiled
        assert watch() is None
    finally:
        gc.enable()


@pytest.fixture
def swapping():
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(before)


def with_aot_autograd(gm, inputs):
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda gm, inputs: gm)(gm, inputs)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", with_aot_autograd, lambda gm, inputs: gm.forward])
def test_no_weak_references_to_parameters_are_kept(backend, train, swapping):
    """Module.to swaps tensors then, which it refuses for those that anybody refers to weakly."""
    net = Net()
    compiled = pellucid.compile(net, backend=backend)
    watched = [*net.parameters(), *net.buffers()]
    result = compiled(X)
    if train:
        result.sum().backward()
        net.zero_grad()
    del result
    assert [weakref.getweakrefcount(tensor) for tensor in watched] == [0] * len(watched)
    assert compiled.double() is compiled and net.linear.weight is watched[0]
    assert watched[0].dtype == torch.float64 and same(compiled(X.double()), net(X.double()))


def test_forward_called_in_a_region(counting):
    compiled = pellucid.compile(Net(), backend="eager")

    @pellucid.compile(backend=counting, fullgraph=True)
    def f(x):
        return compiled.forward(x) + compiled(x)

    assert torch.equal(f(X), 2 * compiled(X)) and counting.count == 1


def test_what_compiles_a_taken_module_again_is_told_so():
    """Lightning's Fabric asks for `_compile_kwargs`, which Lightning's torch.compile leaves at its results."""
    compiled = pellucid.compile(Net(), backend="eager")
    options = compiled._compile_kwargs
    assert options is not None
    with pytest.raises(RuntimeError, match=r"pellucid.compile\(fabric.setup\(module\)\)"):
        torch.compile(compiled._orig_mod, **options)
    compiled._compile_kwargs = {"backend": "eager"}
    assert compiled._compile_kwargs == {"backend": "eager"}
