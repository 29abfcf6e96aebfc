// Traceback entries of exceptions raised while a region is captured. Their frames know code, globals and place, but
// have no locals and no caller, so they must not leave the region.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::py {

// As PyTraceBack_Here for a frame at byte offset `lasti`.
void add_traceback(PyObject* exception, PyCodeObject* code, PyObject* globals, int lasti);

// As PyObject_GetAttr for an AttributeError that came out of Python code: it says which attribute of what is missing
// unless it does already.
void name_attribute(PyObject* error, PyObject* object, PyObject* name);

}  // namespace pellucid::py
