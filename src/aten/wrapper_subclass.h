// Traceable wrapper subclasses below Python: tensors of which the object alone knows what they hold.
#pragma once
#include <Python.h>

namespace pellucid::aten {

// Whether torch knows its sizes and strides without asking its class, and it is no view.
bool has_own_layout(PyObject* tensor);
bool is_view(PyObject* tensor);
// Gives the fake the autograd state of the real tensor. False: its sizes, strides, type or device are others.
bool make_alike(PyObject* fake, PyObject* real);

}  // namespace pellucid::aten
