// What of torch decides whether a call asks the `__torch_function__` of its arguments' classes, and what is handed to
// graphs in place of an object of such a class.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::aten {

PyTypeObject* tensor_type() noexcept;  // torch.Tensor
bool is_plain_tensor_type(PyTypeObject* type) noexcept;

// Whether this thread asks classes: no DisableTorchFunctionSubclass block is open.
bool asks_torch_functions() noexcept;

// The same tensor as an object of class torch.Tensor: a view of all of it, through which gradients go.
py::Owned<> plain_alias(PyObject* tensor);

}  // namespace pellucid::aten
