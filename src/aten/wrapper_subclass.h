// Traceable wrapper subclasses below Python: tensors of which the object alone knows what they hold.
#pragma once
#include <Python.h>

namespace pellucid::aten {

// Whether torch knows its sizes and strides without asking its class, and it is no view.
bool has_own_layout(PyObject* tensor);
// The same of one that the region made, of which some are open.
bool has_open_layout(PyObject* tensor);
bool has_open_sizes(PyObject* tensor) noexcept;  // or strides
bool is_view(PyObject* tensor);
// Whether it is nested and says its sizes in Python, one of them a nested int (torch.jagged).
bool is_jagged(PyObject* tensor) noexcept;
// Gives the fake the autograd state of the real tensor. False: its sizes, strides, type or device are others. Of
// jagged tensors the parts say sizes and strides; open ones are compared at hand.
bool make_alike(PyObject* fake, PyObject* real);

}  // namespace pellucid::aten
