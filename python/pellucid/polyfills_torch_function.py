"""`__torch_function__` of modes and of the classes of a call's arguments, asked as torch's C code asks. Traced like the user's own
code; pellucid.polyfills hands these on."""

from __future__ import annotations

import types as _types

import torch
from torch._C import TensorBase as _TensorBase
from torch._C import _pop_torch_function_stack, _push_on_torch_function_stack
from torch.utils._device import DeviceContext as _DeviceContext


def _hides_type_errors(method):
    """Whether a binary method of torch gives NotImplemented for operands of which it raises a TypeError."""
    try:
        return method(torch.empty(0, device="meta"), object()) is NotImplemented
    except Exception:
        return False


HIDE_TYPE_ERRORS = frozenset(
    method
    for name, method in vars(_TensorBase).items()
    if name.startswith("__") and isinstance(method, _types.MethodDescriptorType) and _hides_type_errors(method)
)


def ask_classes(function, types, *arguments):
    """What the first of these classes that knows the function gives; `arguments`: args, and kwargs if torch gives any."""
    for cls in types:
        result = cls.__torch_function__(function, types, *arguments)
        if result is not NotImplemented:
            return result
    return nobody_answers(function, types)


def ask_classes_or_not_implemented(function, types, *arguments):
    try:
        return ask_classes(function, types, *arguments)
    except TypeError:
        return NotImplemented


def ask_mode(function, types, *arguments):
    """What the innermost mode gives, which is not there meanwhile, or else what these classes give."""
    mode = _pop_torch_function_stack()
    try:
        result = mode.__torch_function__(function, types, *arguments)
    finally:
        _push_on_torch_function_stack(mode)
    if result is not NotImplemented:
        return result
    for cls in types:
        result = cls.__torch_function__(function, types, *arguments)
        if result is not NotImplemented:
            return result
    return nobody_answers(function, types, (mode,))


def ask_mode_or_not_implemented(function, types, *arguments):
    try:
        return ask_mode(function, types, *arguments)
    except TypeError:
        return NotImplemented


def enter_device(device):
    _push_on_torch_function_stack(_DeviceContext(device))
    return device


def leave_device(device, *exception):
    _pop_torch_function_stack()


def made_of_items(cls, items):
    return cls([*items])


def nobody_answers(function, types, modes=()):
    kind, name = type(function), function.__name__
    if kind is _types.MethodDescriptorType or kind is _types.WrapperDescriptorType:
        place = f"torch.Tensor.{name}"
    elif kind is _types.MethodWrapperType:
        place = f"torch.Tensor.{function.__self__.__name__}.{name}"
    elif kind is _types.BuiltinFunctionType and getattr(torch, name, None) is function:
        place = f"torch.{name}"
    else:
        place = name_for_nobody(function)
    asked = "".join([f"  - mode object {mode!r}\n" for mode in modes])
    classes = "".join([f"  - tensor subclass {cls!r}\n" for cls in types])
    raise TypeError(
        f"Multiple dispatch failed for '{place}'; all __torch_function__ handlers returned NotImplemented:\n\n"
        f"{asked}{classes}\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def name_for_nobody(function):
    return torch.overrides.resolve_name(function)
