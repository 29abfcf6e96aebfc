#include <Python.h>
#include <frameobject.h>

#include "py/interrupts.h"

// The headers below want C11's atomics, which C++20 does not read; with the compiler's own the layout is the same.
#undef HAVE_STD_ATOMIC
#undef _PyGC_FINALIZED
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

#include <unistd.h>

#include <utility>

namespace pellucid::py {
namespace {

// What an InterruptsWait does to its thread. Signals and pending calls are handled by the main thread alone: while it
// is not known as that, they wait. PyThreadState_SetAsyncExc takes the first thread state with the thread's number:
// while there is one that runs nothing, what is sent stays in it.
struct Waiting {
  PyThreadState* thread = nullptr;
  PyThreadState* inbox = nullptr;
  pid_t process = 0;              // os.fork() leaves the child no thread state but its own
  unsigned long main_thread = 0;  // 0: this is another thread
  bool running = false;           // the interrupts, now
  Owned<> raised;                 // the last Interruption
};
thread_local Waiting* waiting = nullptr;

_ceval_state& evaluator(PyThreadState* thread) noexcept { return thread->interp->ceval; }

bool signals_are_due(PyThreadState* thread) noexcept {
  return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0 ||
         _Py_atomic_load_relaxed(&evaluator(thread).pending.calls_to_do) != 0;
}

PyThreadState* inbox_of(const Waiting& state) noexcept { return state.process == getpid() ? state.inbox : nullptr; }

void hold_signals(Waiting& state) noexcept {
  if (PyThread_get_thread_ident() != _PyRuntime.main_thread) return;
  state.main_thread = std::exchange(_PyRuntime.main_thread, 0);
}

// They are due at the next instruction.
void release_signals(Waiting& state) noexcept {
  if (state.main_thread == 0) return;
  _PyRuntime.main_thread = std::exchange(state.main_thread, 0);
  if (signals_are_due(state.thread)) _Py_atomic_store_relaxed(&evaluator(state.thread).eval_breaker, 1);
}

// The signals of the main thread are handled while it lives.
class Handling {
 public:
  explicit Handling(Waiting& state) noexcept : state_(state), was_held_(state.main_thread != 0) {
    release_signals(state_);
  }
  ~Handling() {
    if (was_held_) hold_signals(state_);
  }
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

 private:
  Waiting& state_;
  bool was_held_;
};

[[noreturn]] void throw_interruption(Waiting& state) {
  Interruption error;
  state.raised = Owned<>::share(error.value());
  throw error;
}

// The interpreter does the same before it raises one, and looks anew at what is due when it takes the GIL.
void note_delivery(PyThreadState* thread) noexcept {
  evaluator(thread).pending.async_exc = 0;
  PyThreadState* const here = PyEval_SaveThread();
  PyEval_RestoreThread(here);
}

// Its argument when it is a cell, as that of a function with inner ones.
PyObject* argument(PyObject* slot) noexcept { return slot != nullptr && PyCell_Check(slot) ? PyCell_GET(slot) : slot; }

// A signal's handler gets the frame that it interrupts, by position: nobody else hands the caller's frame over.
bool has_frame_as_argument(PyFrameObject* frame, PyObject* interrupted) noexcept {
  const _PyInterpreterFrame* data = frame->f_frame;
  const PyCodeObject* code = data->f_code;
  const bool has_rest = (code->co_flags & CO_VARARGS) != 0;
  for (int i = 0; i < code->co_argcount; ++i) {
    if (argument(data->localsplus[i]) == interrupted) return true;
  }
  if (!has_rest) return false;
  PyObject* rest = argument(data->localsplus[code->co_argcount + code->co_kwonlyargcount]);
  if (rest == nullptr || !PyTuple_Check(rest)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rest); ++i) {
    if (PyTuple_GET_ITEM(rest, i) == interrupted) return true;
  }
  return false;
}

// Whether the frames that it went through say so. Its first one was called by the frame that runs now.
bool is_from_handler(PyObject* error) noexcept {
  if (PyErr_GivenExceptionMatches(error, PyExc_KeyboardInterrupt) != 0) return true;
  auto* caller = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  PyObject* traceback = reinterpret_cast<PyBaseExceptionObject*>(error)->traceback;
  while (traceback != nullptr && PyTraceBack_Check(traceback)) {
    auto* entry = reinterpret_cast<PyTracebackObject*>(traceback);
    if (caller != nullptr && has_frame_as_argument(entry->tb_frame, caller)) return true;
    caller = reinterpret_cast<PyObject*>(entry->tb_frame);
    traceback = reinterpret_cast<PyObject*>(entry->tb_next);
  }
  return false;
}

}  // namespace

InterruptsWait::InterruptsWait() noexcept {
  if (waiting != nullptr) return;
  static thread_local Waiting state;
  state.thread = PyThreadState_Get();
  state.inbox = PyThreadState_New(state.thread->interp);
  state.process = getpid();
  if (state.inbox != nullptr) state.inbox->async_exc = std::exchange(state.thread->async_exc, nullptr);
  hold_signals(state);
  waiting = &state;
  outermost_ = true;
}

void InterruptsWait::stop() noexcept {
  if (!std::exchange(outermost_, false)) return;
  Waiting& state = *std::exchange(waiting, nullptr);
  state.raised = {};
  release_signals(state);
  PyThreadState* const inbox = inbox_of(state);
  state.inbox = nullptr;
  if (inbox == nullptr) return;
  const auto sent = Owned<>::steal(std::exchange(inbox->async_exc, nullptr));
  PyThreadState_Clear(inbox);
  PyThreadState_Delete(inbox);
  if (sent) PyThreadState_SetAsyncExc(state.thread->thread_id, sent.get());
}

void InterruptsWait::end() {
  if (!outermost_) return;
  run_interrupts();
  stop();
}

void run_interrupts() {
  if (waiting == nullptr || waiting->running) return;
  Waiting& state = *waiting;
  if (state.main_thread != 0 && signals_are_due(state.thread)) {
    state.running = true;
    int status = 0;
    {
      const Handling now(state);
      status = Py_MakePendingCalls();
    }
    state.running = false;
    if (status < 0) throw_interruption(state);
  }
  PyThreadState* const inbox = inbox_of(state);
  if (inbox == nullptr || inbox->async_exc == nullptr) return;
  const auto sent = Owned<>::steal(std::exchange(inbox->async_exc, nullptr));
  note_delivery(state.thread);
  PyErr_SetNone(sent.get());
  throw_interruption(state);
}

InterruptsRun::InterruptsRun() {
  run_interrupts();
  if (waiting == nullptr || waiting->main_thread == 0) return;
  release_signals(*waiting);
  paused_ = true;
}

InterruptsRun::~InterruptsRun() {
  if (paused_) hold_signals(*waiting);
}

PyObject* interruption_in(PyObject* error) noexcept {
  constexpr int kLongestChain = 100;  // a program can make it a ring
  for (int i = 0; error != nullptr && i < kLongestChain; ++i) {
    if (is_from_handler(error)) return error;
    const auto* links = reinterpret_cast<PyBaseExceptionObject*>(error);
    error = links->cause != nullptr ? links->cause : links->context;
  }
  return nullptr;
}

void throw_as_interruption(PyObject* error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  if (waiting != nullptr) throw_interruption(*waiting);
  throw Interruption();
}

bool is_interruption(PyObject* error) noexcept { return waiting != nullptr && waiting->raised.get() == error; }

}  // namespace pellucid::py
