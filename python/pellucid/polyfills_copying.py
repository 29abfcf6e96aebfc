"""What objects say of themselves to copy and pickle (object.__reduce_ex__ and its like in C). Traced like the user's own
code; pellucid.polyfills hands these on."""

from __future__ import annotations

from copy import _deepcopy_dispatch as _DISPATCH  # type: ignore[attr-defined]
from copyreg import __newobj__ as _NEW_OBJECT  # type: ignore[attr-defined]
from copyreg import __newobj_ex__ as _NEW_OBJECT_EX  # type: ignore[attr-defined]

from torch import Size as _Size
from torch import Tensor as _Tensor
from torch import no_grad as _no_grad

_MISSING = object()


def object_getstate(self, names):
    """`names`: of its slots."""
    state = self.__dict__ if hasattr(self, "__dict__") and self.__dict__ else None
    slots = {}
    for name in names:
        value = getattr(self, name, _MISSING)
        if value is not _MISSING:
            slots[name] = value
    return (state, slots) if slots else state


def reduce_of_class(self):
    return self.__reduce__()


def object_reduce_ex(self):
    """object.__reduce_ex__(self, protocol >= 2) where the class has no __reduce__ of its own."""
    cls = type(self)
    named = {}
    if hasattr(cls, "__getnewargs_ex__"):
        args, named = new_arguments(cls.__getnewargs_ex__(self))
    elif hasattr(cls, "__getnewargs__"):
        args = cls.__getnewargs__(self)
        if not isinstance(args, tuple):
            raise TypeError(f"__getnewargs__ should return a tuple, not '{type(args).__name__}'")
    else:
        args = ()
    state = self.__getstate__()
    list_items = iter(self) if isinstance(self, list) else None
    dict_items = iter(self.items()) if isinstance(self, dict) else None
    if named:
        return _NEW_OBJECT_EX, (cls, args, named), state, list_items, dict_items
    return _NEW_OBJECT, (cls, *args), state, list_items, dict_items


def new_arguments(both):
    if not isinstance(both, tuple):
        raise TypeError(f"__getnewargs_ex__ should return a tuple, not '{type(both).__name__}'")
    if len(both) != 2:
        raise ValueError(f"__getnewargs_ex__ should return a tuple of length 2, not {len(both)}")
    args, named = both
    if not isinstance(args, tuple):
        raise TypeError(
            f"first item of the tuple returned by __getnewargs_ex__ must be a tuple, not '{type(args).__name__}'"
        )
    if not isinstance(named, dict):
        raise TypeError(
            f"second item of the tuple returned by __getnewargs_ex__ must be a dict, not '{type(named).__name__}'"
        )
    return args, named


def ordered_dict_reduce(self):
    state = self.__getstate__()
    return type(self), (), state, None, iter(self.items())


def default_dict_reduce(self):
    args = () if self.default_factory is None else (self.default_factory,)
    return type(self), args, None, None, iter(self.items())


def default_dict_copy(self):
    return type(self)(self.default_factory, self)


def deque_reduce(self):
    state = self.__getstate__()
    args = () if self.maxlen is None else ((), self.maxlen)
    return type(self), args, state, iter(self)


def deque_copy(self):
    return type(self)(self) if self.maxlen is None else type(self)(self, self.maxlen)


def set_reduce(self):
    items = list(self)
    return type(self), (items,), self.__getstate__()


def size_reduce(self):
    return _Size, (tuple(self),)


def memory_of(tensor):
    """By what tensors that share memory are known."""
    raise NotImplementedError("a rule of the core stands for this function")


def copy_memory(tensor):
    """The copy with all memory, as torch makes it. None: a clone is the same, as the tensor fills its memory."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_copy(what):
    raise NotImplementedError("a rule of the core stands for this function")


def tensor_deepcopy(self, memo):
    """Torch copies all memory that a tensor has a part in, once for all tensors that are copied together."""
    if id(self) in memo:
        return memo[id(self)]
    copied = memo.setdefault("torch", {})
    memory = memory_of(self)
    if memory in copied:
        refuse_copy("tensors that share memory")
    new = lone_tensor_deepcopy(self)
    copied[memory] = new
    memo[id(self)] = new
    return new


def lone_tensor_deepcopy(self):
    if self.is_quantized or self.is_complex() or self.is_neg() or self.grad is not None or self.__dict__:
        refuse_copy("a tensor with more than its elements")
    if _Tensor in _DISPATCH:
        refuse_copy("tensors in a way of the program's own")
    new = copy_memory(self)
    if new is not None:
        return new
    with _no_grad():
        new = self.clone()
    if new.stride() != self.stride():
        refuse_copy("a tensor whose elements are not side by side in memory")
    return new
