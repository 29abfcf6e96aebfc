// AOTAutograd compiles for the memory the example inputs share: a graph that writes an input is wrong for other inputs
// that overlap otherwise. The guard compares at every call, and runs the graph as it was captured when the overlap is
// another one.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::backend {

// A callable: `compiled(*inputs)` when every input shares memory with the written ones as in `examples`, else
// `otherwise(*inputs)`. `attributes`: tensors that the graph holds itself. `written`: which of attributes and inputs,
// counted in this order, the graph may write.
py::Owned<> storage_guard(PyObject* compiled, PyObject* otherwise, PyObject* attributes, PyObject* examples,
                          const std::vector<std::size_t>& written);

}  // namespace pellucid::backend
