// What capture must know of objects that the runtime makes, without knowing the runtime: a compiled function met
// during capture is inlined as the function it stands for. And of functions that torch._dynamo has wrapped.
#pragma once
#include <Python.h>

namespace pellucid::region {

struct Original {
  PyObject* function = nullptr;  // borrowed; null: it is no CompiledFunction
  bool fullgraph = false;
};

// Set by the runtime at import.
using OriginalOf = Original (*)(PyObject* object) noexcept;
extern OriginalOf original_of_compiled_hook;
inline Original original_of_compiled(PyObject* object) {
  return original_of_compiled_hook == nullptr ? Original{} : original_of_compiled_hook(object);
}

// What torch._dynamo took out of its own captures when it was imported (methods of torch's optimizers): the program has
// disabled nothing. Null: it has, or nothing is disabled. Borrowed.
PyObject* disabled_by_import(PyFunctionObject* function) noexcept;

}  // namespace pellucid::region
