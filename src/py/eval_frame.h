// PEP 523: the function that evaluates frames, and what may be read of a frame before it starts. One file for each
// CPython version.
#pragma once
#include <Python.h>

struct _PyInterpreterFrame;

namespace pellucid::py {

using EvalFrame = PyObject* (*)(PyThreadState*, _PyInterpreterFrame*, int);

EvalFrame eval_frame() noexcept;  // of this interpreter
void set_eval_frame(EvalFrame function) noexcept;
extern const EvalFrame kDefaultEvalFrame;  // the interpreter itself

// The function a frame runs, or null for module bodies and the like.
PyFunctionObject* function_of(_PyInterpreterFrame* frame) noexcept;
PyCodeObject* code_of(_PyInterpreterFrame* frame) noexcept;  // the function may have another one by now
// The bound arguments: as many slots as the code has parameters. For frames that did not start yet.
PyObject* const* arguments_of(_PyInterpreterFrame* frame) noexcept;
bool is_starting(_PyInterpreterFrame* frame) noexcept;
// sys.settrace or sys.setprofile is on in this thread.
bool is_traced(PyThreadState* tstate) noexcept;
bool has_trace_function() noexcept;  // sys.settrace alone

}  // namespace pellucid::py
