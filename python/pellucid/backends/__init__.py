"""Backends: callables `(gm, example_inputs) -> callable`, by name, by graph number or as they are.

Our own stand in `builtin.py`, and docs/backends.md tells what they do; further names come from the `torch_dynamo_backends` entry points and from
torch._dynamo's registry, which is imported only when a name is not found otherwise, or to list them all.
"""

from pellucid.backends.call import Backend, call_backend, resolve_backend
from pellucid.backends.eager import (
    make_eager_backend_with_torch_function_mode,
    make_eager_backend_with_torch_function_modes,
)
from pellucid.backends.registry import (
    list_backends,
    lookup_backend,
    register_backend,
    register_debug_backend,
    register_experimental_backend,
    unregister_backend,
)
from pellucid.errors import BackendCompilerFailed, InvalidBackend

__all__ = [
    "Backend",
    "BackendCompilerFailed",
    "InvalidBackend",
    "call_backend",
    "list_backends",
    "lookup_backend",
    "make_eager_backend_with_torch_function_mode",
    "make_eager_backend_with_torch_function_modes",
    "register_backend",
    "register_debug_backend",
    "register_experimental_backend",
    "resolve_backend",
    "unregister_backend",
]
