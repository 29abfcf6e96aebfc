// Attributes as C code reads them, whatever __getattribute__ and __getattr__ the object's class defines in Python.
#pragma once
#include <Python.h>

namespace pellucid::py {

// New reference, or null with an exception. Descriptors written in Python do run.
PyObject* native_getattr(PyObject* object, PyObject* name) noexcept;

// Whether a class with this __getattribute__ reads attributes as `object` does: dict, list, int and others have a slot
// of their own that does the same.
bool is_generic_getattribute(PyObject* slot) noexcept;

}  // namespace pellucid::py
