#include "py/eval_frame311.h"

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

namespace pellucid::py {

EvalFrame eval_frame() noexcept { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()); }

void set_eval_frame(EvalFrame function) noexcept {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function);
}

const EvalFrame kDefaultEvalFrame = _PyEval_EvalFrameDefault;

PyFunctionObject* function_of(_PyInterpreterFrame* frame) noexcept { return frame->f_func; }

PyCodeObject* code_of(_PyInterpreterFrame* frame) noexcept { return frame->f_code; }

PyObject* const* arguments_of(_PyInterpreterFrame* frame) noexcept { return frame->localsplus; }

bool is_starting(_PyInterpreterFrame* frame) noexcept { return frame->prev_instr == _PyCode_CODE(frame->f_code) - 1; }

bool is_traced(PyThreadState* tstate) noexcept { return tstate->cframe->use_tracing != 0; }
bool has_trace_function() noexcept { return _PyThreadState_UncheckedGet()->c_tracefunc != nullptr; }

bool tell_trace_function(PyThreadState* tstate, _PyInterpreterFrame* frame, int next) noexcept {
  if (!steps_through_regions || tstate->c_tracefunc == nullptr || tstate->tracing != 0) return true;
  frame->prev_instr = _PyCode_CODE(frame->f_code) + next / 2;
  frame->previous = tstate->cframe->current_frame;
  tstate->cframe->current_frame = frame;
  PyFrameObject* object = PyEval_GetFrame();
  bool goes_on = object != nullptr;
  if (goes_on) {
    const TracePause pause;
    goes_on = tstate->c_tracefunc(tstate->c_traceobj, object, PyTrace_CALL, Py_None) == 0;
  }
  tstate->cframe->current_frame = frame->previous;
  return goes_on;
}

int depth_left() noexcept { return _PyThreadState_UncheckedGet()->recursion_remaining; }

namespace {
constexpr int kRoom = 1000;
}

RoomToRecurse::RoomToRecurse() noexcept : tstate_(_PyThreadState_UncheckedGet()) {
  tstate_->recursion_remaining += kRoom;
}
RoomToRecurse::~RoomToRecurse() { tstate_->recursion_remaining -= kRoom; }

InterpreterMark::InterpreterMark() noexcept
    : tstate_(PyThreadState_Get()),
      cframe_(tstate_->cframe),
      frame_(tstate_->cframe->current_frame),
      recursion_remaining_(tstate_->recursion_remaining) {}

// The values of the dropped frames are leaked: nobody knows which of them are still whole.
void InterpreterMark::drop_frames() const noexcept {
  tstate_->cframe = cframe_;
  cframe_->current_frame = frame_;
  tstate_->recursion_remaining = recursion_remaining_;
}

}  // namespace pellucid::py
