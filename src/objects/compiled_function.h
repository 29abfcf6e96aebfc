// What the tracer must know of objects that the runtime makes, without knowing the runtime: a compiled function met
// during capture is inlined as the function it stands for.
#pragma once
#include <Python.h>

namespace pellucid::objects {

// Set by the runtime at import. Gives the original callable (borrowed) of a CompiledFunction, or null.
using OriginalOf = PyObject* (*)(PyObject* object) noexcept;
extern OriginalOf original_of_compiled_hook;
inline PyObject* original_of_compiled(PyObject* object) {
  return original_of_compiled_hook == nullptr ? nullptr : original_of_compiled_hook(object);
}

}  // namespace pellucid::objects
