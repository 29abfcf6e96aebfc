// The run loop. Frames are heap objects, so the loop never recurses: a call pushes a frame, a return settles the
// Continuation that waits for it. Opcode rules peek at their operands, compute, and commit last, so a GraphBreak leaves
// the frame at the start of its instruction.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "objects/generator.h"
#include "objects/tracer.h"
#include "py/eval_frame311.h"
#include "trace/trace.h"

namespace pellucid::trace {

using objects::Args;
using objects::Cat;
using objects::Continuation;
using objects::Frame;
using objects::Result;

enum class Next : std::uint8_t { Go, Raise, Finished };

class Executor final : public objects::Tracer {
 public:
  Executor(PyFunctionObject* function, PyCodeObject* code)
      : Tracer(function, code), depth_left_(py::depth_left() - kLastLevels) {}
  ~Executor() override;

  py::Owned<> run(PyFunctionObject* function, PyObject* const* locals);  // the entry's return value
  py::Owned<> run(const frames::State& state);
  // After a GraphBreak: the open frames, each at the start of its instruction, with the values of the capture. False
  // when they cannot be handed over.
  bool open_frames(frames::State& state);
  // A generator from outside that is suspended inside a block and dies in the region runs the program's code then.
  void refuse_lost(PyObject* result, const std::vector<PyObject*>& taken);
  void run_twin(py::Owned<> generator);       // the frame on top is the body of this one, from outside
  bool can_be_told() const;                   // whether that may succeed
  std::vector<std::int64_t> earlier_stops();  // Outcome::earlier

  // ---- Tracer
  Result call(PyObject* callable, Args args) override;
  Frame* top() override { return top_.get(); }
  Result and_then(Result result, Continuation next) override;

  // ---- calls (call.cpp)
  Result call_ex(PyObject* callable, PyObject* positional, PyObject* kwargs);  // f(*positional, **kwargs)
  Result call_function(PyObject* function, Args args);
  Result call_type(PyObject* type, Args args);
  Result make_instance(PyObject* type, Args args) override;
  Result call_native(PyObject* callable, Args args);
  Result complain(PyObject* callable, PyObject* self, Args args);
  Result slot_wrapper(PyObject* callable, Args args, bool* known);
  Result builtin_slot(PyObject* callable, std::string_view name, Args args, bool* known);
  Result inline_function(PyObject* function, Args args) override;
  Result initialise_instance(py::Owned<> instance, PyObject* type, Args args);

  // ---- generators (generators.cpp)
  Result resume(PyObject* generator, PyObject* value) override;
  Result throw_into(PyObject* generator, py::Owned<> instance) override;
  Result close(PyObject* generator) override;
  Result throw_through(PyObject* generator, py::Owned<> instance);  // delegation.cpp
  Result already_executing(const objects::TracedGenerator& generator);
  Result throw_into_inner(Frame& body, py::Owned<> instance);
  PyObject* twin_of_generator(PyObject* generator) override;
  PyObject* known_twin(PyObject* generator) const override;
  Next yield_value(Frame& frame);
  Next return_generator(Frame& frame);
  Next return_value(Frame& frame);

  // ---- exceptions (unwind.cpp)
  // Into a handler; false: the exception leaves the region. `thrown`: into the generator whose body is on top.
  bool unwind(bool thrown);
  // `exception` comes from what the generator on top delegated a throw() or close() to, and is thrown into it.
  void throw_from_inner();
  Result throw_back(py::Owned<> instance);  // the same with one that was thrown into that generator itself
  py::Owned<> generator_exit();             // for a generator that the running frame closes
  PyObject* topmost_handled() override;     // what a bare `raise` raises; borrowed or null
  void trace_back(Frame& frame);            // the exception passes through this frame
  PyObject* frame_object(Frame& frame);
  void close(Frame& frame);        // it is over
  py::Owned<>& handled_slot();     // exc_info->exc_value of the frame that runs
  PyObject* handled_before_all();  // what PUSH_EXC_INFO pushes while nothing is handled
  // Of an exception from outside that is raised again: the frames that it would leave are not to be in its traceback.
  void refuse_to_leave(const Frame& frame, PyObject* exception);
  // `raise type from cause`, the call of the type having given `value`; a null cause: without `from`.
  Result raise_with_cause(PyObject* type, py::Owned<> value, PyObject* cause);

  // ---- protocols (protocols.cpp): Python's operators on any object
  Result binary(PyObject* left, PyObject* right, int op) override;  // op as in BINARY_OP
  Result reflected(PyObject* left, PyObject* right, int op,
                   int stage);  // the next candidate of a binary operator or comparison
  Result sequence_error(PyObject* left, PyObject* right, int op);
  Result compare(PyObject* left, PyObject* right, int op) override;  // Py_LT …
  Result unary(PyObject* value, int opcode) override;
  Result truth(PyObject* value) override;  // a bool
  Result contains(PyObject* container, PyObject* item) override;
  Result subscript(PyObject* container, PyObject* key) override;
  Result store_subscript(PyObject* container, PyObject* key, PyObject* value) override;  // null value deletes
  Result iterate(PyObject* iterable) override;                                           // iter(x)
  Result next(PyObject* iterator) override;                                              // raises StopIteration
  Result next_outside(PyObject* iterator);  // of an iterator that existed before
  Result length(PyObject* value) override;
  Result to_text(PyObject* value, const char* how) override;  // __str__, __repr__
  Result format(PyObject* value, PyObject* spec) override;
  // A tuple of all elements when that needs no Python code; null when `value` must be iterated by a polyfill.
  py::Owned<> native_elements(PyObject* value) override;
  Result is_instance(PyObject* object, PyObject* type, bool subclass) override;

  void note_module(PyObject* module);
  bool checks_in_python(PyObject* type, const char* hook_name);
  bool class_is_computed(PyObject* object, PyObject* type);
  void guard_abc(PyObject* type);
  const bytecode::DecodedCode& decoded(PyCodeObject* code);
  void push_frame(std::unique_ptr<Frame> frame);
  std::unique_ptr<Frame> pop_frame();
  std::int64_t last_step = -1;  // the capture ends before the step of this number …
  std::int64_t most_work = kMostWork;
  bool at_will = false;  // … or before the first one behind it where the open frames can be handed over

 private:
  void need_an_end();
  void note_handler(const Frame& frame);
  void know_ours(const Frame& frame, std::span<const frames::Wait> waiting);
  void note_unseen();
  std::unique_ptr<Frame> new_frame(PyFunctionObject* function, PyCodeObject* code);
  Next loop();
  void tear(std::int64_t pops, int depth);
  void finalize_abandoned();
  Next deliver(Result result);
  bool climb(bool thrown);
  objects::Gathering gathering_;  // until all else is gone
  const int depth_left_;
  std::unique_ptr<Frame> top_;
  py::Owned<> returned_;
  py::Owned<> thrown_;  // raised in the frame on top before its next instruction
  bool would_run_when_lost(PyObject* value, int depth = 0) override;
  template <class Values>
  bool would_run_with(PyCodeObject* code, int at, const Values& values, int depth);
  std::unordered_set<PyObject*> kept_;  // at the end of the region, by the frame that returns or the result
  bool unchained_ = false;              // what is about to be raised gets no context here
  // The exception on its way, and its __traceback__ from before it: the C code only has that.
  py::Owned<> on_its_way_, its_traceback_;
  bool runs_ = false;  // the frames have all that they start with
  bool torn_ = false;  // an instruction was left half-way: a frame that it led to is gone
  std::int64_t pops_ = 0;
  int calls_ = 0;  // calls of `call` from within `call`
  // Where the exception was raised whose handler the outermost frames are in: the frame and its step.
  const Frame* handles_ = nullptr;
  std::int64_t raised_at_ = -1;
  std::unordered_map<std::string, int> module_calls_;
};

bool is_ours(PyObject* object);     // a generator that stands for a builtin iterator
bool delegates(const Frame& body);  // suspended in a `yield from`

// What takes an exception that the instruction under way raises, or null.
inline const bytecode::ExceptionRange* handler_of(const Frame& frame) {
  return frame.decoded->handler_of(frame.decoded->index_at(frame.at));
}

// One rule per opcode; a row of the table without a rule refuses.
using Rule = Next (*)(Executor&, Frame&, int arg);
Rule rule_of(bytecode::Opcode op) noexcept;

// Pushes the value of a result that a rule has computed.
inline Next push(Frame& frame, Result result) {
  switch (result.did) {
    case Result::Did::Value:
      frame.stack.push_back(std::move(result.value));
      return Next::Go;
    case Result::Did::Raised:
      return Next::Raise;
    default:
      return Next::Go;
  }
}
inline PyObject* peek(const Frame& frame, std::size_t depth) {
  return frame.stack[frame.stack.size() - 1 - depth].get();
}
inline py::Owned<> pop(Frame& frame) {
  auto value = std::move(frame.stack.back());
  frame.stack.pop_back();
  return value;
}
inline void drop(Frame& frame, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) frame.stack.pop_back();
}
// Commits: the operands go once the operation has succeeded or is under way; a raise leaves them to the unwinder.
inline void drop_below(Frame& frame, const Result& result, std::size_t count) {
  if (result.did != Result::Did::Raised) drop(frame, count);
}

}  // namespace pellucid::trace
