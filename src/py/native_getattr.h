// Attributes as C code reads them, whatever __getattribute__ and __getattr__ the object's class defines in Python.
#pragma once
#include <Python.h>

namespace pellucid::py {

// New reference, or null with an exception. Descriptors written in Python do run.
PyObject* native_getattr(PyObject* object, PyObject* name) noexcept;

}  // namespace pellucid::py
