// Tensors of function transforms (torch.func).
#pragma once
#include <Python.h>

namespace pellucid::region {

// A wrapper that a level has put around another tensor. Outside of that level it means nothing.
bool is_level_tensor(PyObject* tensor);

}  // namespace pellucid::region
