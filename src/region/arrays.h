// numpy's arrays in a region: those from outside are what they are, those that it makes are stand-ins without data
// (python/pellucid/_numpy.py).
#pragma once
#include "py/ref.h"

namespace pellucid::region {

// What pellucid._numpy has under a name. Borrowed; numpy is there wherever an array is.
PyObject* of_numpy_module(const char* name);
bool is_stand_in(PyObject* object);         // for an array or a scalar
bool is_scalar_stand_in(PyObject* object);  // numpy.float32 and its like, which are no arrays to the program
bool is_numpy_scalar(PyObject* object);     // a real one: a number, which never changes
bool is_numpy_dtype(PyObject* object);
bool is_builtin_dtype(PyObject* dtype);  // one of numpy's own, which is one object and never changes
char numpy_kind(PyObject* scalar);       // 'f', 'i', 'b' …
// An object of the type that the program sees: of a stand-in what it stands for, anything else is itself.
py::Owned<> of_presented_type(PyObject* object);

}  // namespace pellucid::region
