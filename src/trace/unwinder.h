// The exceptions of the program: what is handled, which handler takes what is raised, what its traceback says.
#pragma once
#include "bytecode/instruction.h"
#include "region/frame.h"
#include "region/result.h"

namespace pellucid::trace {

class Executor;

class Unwinder {
 public:
  explicit Unwinder(Executor& ex) : ex_(ex) {}

  // Into a handler; false: the exception leaves the region. `thrown`: into the generator whose body is on top.
  bool unwind(bool thrown);
  // The exception comes from what the generator on top delegated a throw() or close() to, and is thrown into it.
  void throw_from_inner();
  region::Result throw_back(py::Owned<> instance);  // the same with one that was thrown into that generator itself
  py::Owned<> generator_exit();                     // for a generator that the running frame closes
  // `raise type from cause`, the call of the type having given `value`; a null cause: without `from`.
  region::Result raise_with_cause(PyObject* type, py::Owned<> value, PyObject* cause);
  void leave_unchained() { unchained_ = true; }  // what is about to be raised gets no context here

  PyObject* topmost_handled() const;     // what a bare `raise` raises; borrowed or null
  py::Owned<>& handled_slot();           // exc_info->exc_value of the frame that runs
  PyObject* handled_before_all() const;  // what PUSH_EXC_INFO pushes while nothing is handled
  // Of an exception from outside that is raised again: the frames that it would leave are not to be in its traceback.
  void refuse_to_leave(const region::Frame& frame, PyObject* exception) const;

  PyObject* frame_object(region::Frame& frame);
  void close(region::Frame& frame);  // it is over
  // The step that raised the exception whose handler the outermost frames are in, when `frame` handles it; else -1.
  std::int64_t raised_in(const region::Frame& frame) const { return handles_ == &frame ? raised_at_ : -1; }

 private:
  bool find_handler(bool thrown);
  void trace_back(region::Frame& frame);  // the exception passes through this frame
  void note_handler(const region::Frame& frame);

  Executor& ex_;
  bool unchained_ = false;
  // The exception on its way, and its __traceback__ from before it: the C code only has that.
  py::Owned<> on_its_way_, its_traceback_;
  const region::Frame* handles_ = nullptr;
  std::int64_t raised_at_ = -1;
};

// What takes an exception that the instruction under way raises, or null.
inline const bytecode::ExceptionRange* handler_of(const region::Frame& frame) {
  return frame.decoded->handler_of(frame.decoded->index_at(frame.at));
}

}  // namespace pellucid::trace
