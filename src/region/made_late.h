// An object that C code of torch makes, of which a capture needs no more than to hand it on: where it leaves the
// region, emitted code makes it by the same call.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::region {

py::Owned<> made_late(PyObject* callable, PyObject* arguments);  // arguments: a tuple of constants
bool is_made_late(PyObject* object) noexcept;
PyObject* maker_of(PyObject* made_late);      // borrowed, like the next
PyObject* arguments_of(PyObject* made_late);  // the tuple

}  // namespace pellucid::region
