#include "trace/value_checks.h"

#include "aten/aten.h"
#include "bytecode/opcodes.h"
#include "graph/bodies.h"
#include "protocols/torch_function.h"
#include "py/traceback.h"
#include "region/recorder.h"

namespace pellucid::trace {

using bytecode::Flow;
using protocols::Args;

namespace {

// The index of the `raise` to which control that comes to byte offset `start` goes, whatever the values are; -1: to
// none. `visit` sees the instructions on the way.
template <class Visit>
int way_to_raise(const bytecode::DecodedCode& code, int start, Visit&& visit) {
  constexpr int kMost = 64;  // the arguments of an exception are no longer than that
  int index = code.index_at(start);
  for (int steps = 0; steps < kMost && index >= 0 && index < code.size(); ++steps) {
    const bytecode::Instruction& instruction = code[index];
    switch (bytecode::info(instruction.op).flow) {
      case Flow::Next:
        visit(instruction);
        ++index;
        break;
      case Flow::Jump:
        index = instruction.target;
        break;
      case Flow::Raise:
        return instruction.op == bytecode::Opcode::RAISE_VARARGS ? index : -1;
      default:
        return -1;
    }
  }
  return -1;
}

bool only_raises(const bytecode::DecodedCode& code, int start) {
  return way_to_raise(code, start, [](const bytecode::Instruction&) {}) >= 0;
}

// "ValueError: it is negative (in forward, line 14)" for the `raise` that control comes to from `start`: the type and
// text as far as they stand there as a name and a constant.
std::string words_of_raise(const bytecode::DecodedCode& decoded, PyCodeObject* code, int start) {
  using enum bytecode::Opcode;
  std::string type, text;
  const int raises = way_to_raise(decoded, start, [&](const bytecode::Instruction& instruction) {
    if (type.empty() && (instruction.op == LOAD_GLOBAL || instruction.op == LOAD_NAME)) {
      const int name = instruction.op == LOAD_GLOBAL ? instruction.arg >> 1 : instruction.arg;
      type = py::text_of(PyTuple_GET_ITEM(code->co_names, name));
    } else if (type.empty() && instruction.op == LOAD_ASSERTION_ERROR) {
      type = "AssertionError";
    } else if (instruction.op == LOAD_CONST && text.empty()) {
      PyObject* constant = PyTuple_GET_ITEM(code->co_consts, instruction.arg);
      if (PyUnicode_CheckExact(constant)) text = py::text_of(constant);
    }
  });
  if (type.empty()) type = "an exception";
  if (!text.empty()) type += ": " + text;
  return type + " (in " + py::text_of(code->co_name) + ", line " +
         std::to_string(py::line_of(code, decoded[raises].offset)) + ")";
}

PyObject* function_of_torch(const char* name) { return py::import_attr("torch", name).release(); }

// A failing assertion of another device ends the process's use of it, so nothing could run again.
bool may_be_asserted(Executor& executor, PyObject* tensor) {
  if (protocols::is_answered(executor, tensor)) return false;
  // A body runs inside of an operator that has exceptions of its own.
  if (!executor.region.numbers.policy.value_checks || executor.region.capture->bodies->is_open()) return false;
  static PyObject* const is_wrapped = py::import_attr("torch._C._functorch", "is_functorch_wrapped_tensor").release();
  if (py::take(PyObject_CallOneArg(is_wrapped, tensor)).get() == Py_True) return false;
  const auto is_cpu = py::take(PyObject_GetAttrString(tensor, "is_cpu"));
  return is_cpu.get() == Py_True && aten::meta_of(tensor).sizes.empty();
}

}  // namespace

std::optional<bool> asserted_truth(Executor& executor, Frame& frame, PyObject* tensor, bool when, int target) {
  if (!may_be_asserted(executor, tensor)) return std::nullopt;
  const bytecode::DecodedCode& code = *frame.decoded;
  const bool jump_raises = only_raises(code, target);
  if (jump_raises == only_raises(code, code.at(frame.at).end())) return std::nullopt;
  const bool truth = jump_raises != when;
  static PyObject* const assert_async = function_of_torch("_assert_async");
  static PyObject* const logical_not = function_of_torch("logical_not");
  auto& recorder = executor.region.recorder;
  auto holds = py::Owned<>::share(tensor);
  if (!truth) {
    PyObject* args[] = {tensor};
    Result inverse = recorder.torch_call(graph::Op::CallFunction, logical_not, logical_not, Args{args, nullptr});
    if (!inverse.is_value()) return std::nullopt;
    holds = std::move(inverse.value);
  }
  const int raises_at = jump_raises ? target : code.at(frame.at).end();
  const auto message = py::str(words_of_raise(code, frame.code.get(), raises_at));
  PyObject* args[] = {holds.get(), message.get()};
  if (!recorder.torch_call(graph::Op::CallFunction, assert_async, assert_async, Args{args, nullptr}).is_value())
    return std::nullopt;
  executor.region.capture->has_value_checks = true;
  return truth;
}

}  // namespace pellucid::trace
