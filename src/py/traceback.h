// Traceback entries of exceptions raised while a region is captured.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::py {

// As PyTraceBack_Here for the frame of this frame object, at byte offset `lasti` of its code.
void add_traceback(PyObject* exception, PyObject* frame, PyCodeObject* code, int lasti);

// As PyObject_GetAttr for an AttributeError that came out of Python code: it says which attribute of what is missing
// unless it does already.
void name_attribute(PyObject* error, PyObject* object, PyObject* name);

}  // namespace pellucid::py
