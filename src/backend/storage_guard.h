// AOTAutograd compiles for the memory the example inputs share: a graph that writes an input is wrong for other inputs
// that overlap otherwise. For open sizes it gives views of a written input by their offset in a copy of that input,
// which is the offset in the input's storage only where the input begins there. The guard compares at every call, and
// runs the graph as it was captured when the inputs do not fit.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::backend {

// A callable: `compiled(*inputs)` when every input shares memory with the written ones as in `examples`, else
// `otherwise(*inputs)`. `attributes`: tensors that the graph holds itself. `written`: which of attributes and inputs,
// counted in this order, the graph may write. `whole`: which of the inputs have to begin where their storage does.
py::Owned<> storage_guard(PyObject* compiled, PyObject* otherwise, PyObject* attributes, PyObject* examples,
                          const std::vector<std::size_t>& written, const std::vector<std::size_t>& whole);

}  // namespace pellucid::backend
