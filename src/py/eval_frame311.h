// PEP 523: the function that evaluates frames, and what may be read of a frame before it starts. One file for each
// CPython version.
#pragma once
#include <Python.h>

struct _PyInterpreterFrame;

namespace pellucid::py {

using InterpreterFrame = _PyInterpreterFrame;
using EvalFrame = PyObject* (*)(PyThreadState*, InterpreterFrame*, int);

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

// Of the whole process, under the GIL. pellucid.debug turns it on: then calls that are traced run what was compiled for
// them, whose files say what it is, and compile nothing. Without it they run eagerly.
inline bool steps_through_regions = false;

// A trace function hears of frames that start. Of one that goes on in its middle, at the offset `next`, this tells it
// in the same way when the process steps through regions. False: it has raised, and the error is pending.
bool tell_trace_function(PyThreadState* tstate, _PyInterpreterFrame* frame, int next) noexcept;

// Nothing that happens while it lives is traced.
class TracePause {
 public:
  TracePause() noexcept : tstate_(PyThreadState_Get()) { PyThreadState_EnterTracing(tstate_); }
  ~TracePause() { PyThreadState_LeaveTracing(tstate_); }
  TracePause(const TracePause&) = delete;
  TracePause& operator=(const TracePause&) = delete;

 private:
  PyThreadState* tstate_;
};

// How many calls may still be open at once here before the interpreter raises RecursionError.
int depth_left() noexcept;

// Our own Python code, and that of backends, may go deeper than the program that is compiled.
class RoomToRecurse {
 public:
  RoomToRecurse() noexcept;
  ~RoomToRecurse();
  RoomToRecurse(const RoomToRecurse&) = delete;
  RoomToRecurse& operator=(const RoomToRecurse&) = delete;

 private:
  PyThreadState* tstate_;
};

// Where the interpreter stands. Some of torch's C functions let a C++ exception through (is_shared of a tensor without
// data): it passes over the frames of the Python code that called them, and whoever catches it drops those frames.
class InterpreterMark {
 public:
  InterpreterMark() noexcept;
  void drop_frames() const noexcept;

 private:
  PyThreadState* tstate_;
  _PyCFrame* cframe_;
  _PyInterpreterFrame* frame_;
  int recursion_remaining_;
};

}  // namespace pellucid::py
