// The run loop. Frames are heap objects, so the loop never recurses: a call pushes a frame, a return settles the
// Continuation that waits for it. Opcode rules peek at their operands, compute, and commit last, so a GraphBreak leaves
// the frame at the start of its instruction.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "protocols/interpreter.h"
#include "trace/trace.h"
#include "trace/unwinder.h"

namespace pellucid::trace {

using protocols::Args;
using protocols::Cat;
using protocols::Continuation;
using protocols::Frame;
using protocols::Result;

enum class Next : std::uint8_t { Go, Raise, Finished };

class Executor final : public protocols::Interpreter {
 public:
  Executor(PyFunctionObject* function, PyCodeObject* code, const Extent& extent);
  ~Executor() override;

  py::Owned<> run(PyFunctionObject* function, PyObject* const* locals);  // the entry's return value
  py::Owned<> run(const frames::State& state);
  // The region ends and gives `result`; `taken`: the values that were alive where it began.
  std::unique_ptr<region::Capture> finish(py::Owned<> result, const std::vector<PyObject*>& taken);

  // ---- Interpreter
  Result and_then(Result result, Continuation next) override;
  Result inline_function(PyObject* function, Args args) override;
  void note_module(PyObject* module) override;
  Result resume(PyObject* generator, PyObject* value) override;
  Result throw_into(PyObject* generator, py::Owned<> instance) override;
  Result close(PyObject* generator) override;
  PyObject* twin_of_generator(PyObject* generator) override;
  PyObject* topmost_handled() override { return unwinder.topmost_handled(); }

  // ---- frames
  void push_frame(std::unique_ptr<Frame> frame);
  std::unique_ptr<Frame> pop_frame();
  // Each open frame stands at the start of an instruction, with all that it needs to run it.
  bool frames_are_whole() const;
  Next yield_value(Frame& frame);
  Next return_generator(Frame& frame);
  Next return_value(Frame& frame);
  Next deliver(Result result);  // to the frame on top

  Unwinder unwinder{*this};

 private:
  Next loop();
  void need_an_end();
  void drop_unstarted(std::int64_t pops, int depth);
  void finalize_abandoned();
  void run_twin(py::Owned<> generator);  // the frame on top is the body of this one, from outside
  Result already_executing(const region::TracedGenerator& generator);
  Result throw_through(PyObject* generator, py::Owned<> instance);

  region::Gathering gathering_;  // until all else is gone
  const Extent extent_;
  const int depth_left_;
  std::unique_ptr<Frame> top_;  // region.top
  py::Owned<> returned_;
  py::Owned<> thrown_;            // raised in the frame on top before its next instruction
  bool runs_ = false;             // the frames have all that they start with
  bool mid_instruction_ = false;  // an instruction was left half-way: a frame that it led to is gone
  std::int64_t pops_ = 0;
  std::unordered_map<std::string, int> module_calls_;
};

std::unique_ptr<Frame> new_frame(PyFunctionObject* function, PyCodeObject* code);
bool delegates(const Frame& body);  // suspended in a `yield from`

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
