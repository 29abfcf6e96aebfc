// What a backend returned, called with inputs that it is right for.
//
// AOTAutograd compiles for the memory the example inputs share: a graph that writes an input is wrong for other inputs
// that overlap otherwise, and where sizes are open inputs that begin at the same places may do so. For open sizes it
// gives views of a written input by their offset in a copy of that input, which is the offset in the input's storage
// only where the input begins there. And it writes each element of an input once, which is wrong where two of them lie
// at one place. The guard compares at every call, and runs the graph as it was captured when the inputs do not fit.
//
// Backends know no floats that change: such an input is a tensor of no dimension for them.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::backend {

// Of inputs, counted from 0.
struct InputFacts {
  std::vector<std::size_t> written;  // those that the graph may write; counted from the first of its own attributes
  std::vector<std::size_t> whole;    // those that have to begin where their storage does
  std::vector<std::size_t> simple;   // those of which no two elements may lie at one place
  std::vector<std::size_t> floats;
  bool sizes_change = false;
};

// A callable: `compiled(*inputs)` when every input shares memory with the written ones as in `examples`, else
// `otherwise(*inputs)`. `attributes`: tensors that the graph holds itself.
py::Owned<> prepared_call(PyObject* compiled, PyObject* otherwise, PyObject* attributes, PyObject* examples,
                          InputFacts facts);

}  // namespace pellucid::backend
