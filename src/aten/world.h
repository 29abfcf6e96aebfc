// What guards compare of tensors and of torch's state, as texts that mean the same in another process with the same
// torch: equal texts, equal answers of TensorSpec and GlobalState.
#pragma once
#include <Python.h>

#include <string>

namespace pellucid::aten {

// All that a TensorSpec without open sizes compares but the class. "": a tensor that has no plain layout.
std::string layout_text(PyObject* tensor);
// All that a GlobalState compares. "": modes, hooks or transforms of the program are about, which are objects of this
// process.
std::string state_text();

}  // namespace pellucid::aten
