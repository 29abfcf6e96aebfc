// Traceback entries of exceptions raised while a region is captured.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::py {

// The line of the instruction at `offset`; the function's own where the compiler gives none (a negative offset, or what
// it puts in front: COPY_FREE_VARS of a closure).
int line_of(PyCodeObject* code, int offset) noexcept;

// As PyTraceBack_Here for the frame of this frame object, at byte offset `lasti` of its code.
void add_traceback(PyObject* exception, PyObject* frame, PyCodeObject* code, int lasti);

// As PyObject_GetAttr for an AttributeError that came out of Python code: it says which attribute of what is missing
// unless it does already.
void name_attribute(PyObject* error, PyObject* object, PyObject* name);

}  // namespace pellucid::py
