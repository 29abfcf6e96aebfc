// What raises between any two instructions without being asked for: handlers of signals (KeyboardInterrupt is one),
// Py_AddPendingCall, and PyThreadState_SetAsyncExc. Where an exception decides what happens next (capture makes it the
// program's, or a graph break) one of these would be taken for what it is not, and lost. So there they wait, and are
// raised at moments of our choice.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::py {

// A PythonError that belongs to nothing that was running: it goes through to the caller of the compiled function.
class Interruption : public PythonError {};

// Interrupts of this thread wait while one lives. They are not lost: what still waits at the end is due at the next
// instruction that the thread runs. Nested ones do nothing.
class InterruptsWait {
 public:
  InterruptsWait() noexcept;
  ~InterruptsWait() { stop(); }
  InterruptsWait(const InterruptsWait&) = delete;
  InterruptsWait& operator=(const InterruptsWait&) = delete;

  // Ends it, after what waits has run. Throws Interruption when that raised.
  void end();

 private:
  void stop() noexcept;

  bool outermost_ = false;
};

// Runs what waits in this thread, if anything: the handlers of signals get the innermost frame of the program. Throws
// Interruption when one raises.
void run_interrupts();

// For code that may take long and is nobody's instruction: a backend, an import. Signals are handled in it as ever;
// asynchronous exceptions still wait, for nothing would tell them from its own.
class InterruptsRun {
 public:
  InterruptsRun();  // throws Interruption
  ~InterruptsRun();
  InterruptsRun(const InterruptsRun&) = delete;
  InterruptsRun& operator=(const InterruptsRun&) = delete;

 private:
  bool paused_ = false;
};

// The exception of a signal's handler that `error` is or comes from, borrowed; null: it has nothing to do with one. Of
// a handler written in C only KeyboardInterrupt is known.
PyObject* interruption_in(PyObject* error) noexcept;

[[noreturn]] void throw_as_interruption(PyObject* error);

// With InterruptsRun, and what has to do with a handler's exception thrown as that Interruption.
template <class F>
Owned<> interruptible(F&& run) {
  const InterruptsRun now;
  auto result = Owned<>::steal(run());
  if (result) return result;
  PythonError error;
  PyObject* from_handler = interruption_in(error.value());
  if (from_handler == nullptr) throw error;
  throw_as_interruption(from_handler);
}

// Whether the exception was thrown as an Interruption on this thread, by the current InterruptsWait.
bool is_interruption(PyObject* error) noexcept;

}  // namespace pellucid::py
