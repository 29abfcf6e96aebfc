#include "trace/late_text.h"

#include "bytecode/opcodes.h"
#include "handlers/deferred.h"

namespace pellucid::trace {
namespace {

using bytecode::Opcode;

// What becomes of the value in stack slot `place`, read from the instructions behind it: only what evaluates the other
// parts of an f-string and the other arguments of a call may come in between.
struct Flow {
  int place, size;     // slots of the value and of the whole stack
  int call_base = -1;  // the slots of the callable, once found
};

int pushes(const Instruction& instruction) {
  switch (static_cast<Opcode>(instruction.opcode)) {
    case Opcode::LOAD_CONST:
    case Opcode::LOAD_FAST:
    case Opcode::LOAD_DEREF:
    case Opcode::LOAD_METHOD:
    case Opcode::PUSH_NULL:
      return 1;
    case Opcode::LOAD_GLOBAL:
      return (instruction.arg & 1) != 0 ? 2 : 1;
    default:
      return 0;
  }
}

// How many values the instruction replaces by one; 0: none; -1: unknown.
int takes(const Instruction& instruction) {
  switch (static_cast<Opcode>(instruction.opcode)) {
    case Opcode::LOAD_CONST:
    case Opcode::LOAD_FAST:
    case Opcode::LOAD_DEREF:
    case Opcode::LOAD_GLOBAL:
    case Opcode::PUSH_NULL:
    case Opcode::KW_NAMES:
    case Opcode::PRECALL:
      return 0;
    case Opcode::LOAD_METHOD:
      return 0;
    case Opcode::LOAD_ATTR:
    case Opcode::UNARY_NEGATIVE:
    case Opcode::UNARY_NOT:
      return 1;
    case Opcode::BINARY_OP:
    case Opcode::BINARY_SUBSCR:
    case Opcode::COMPARE_OP:
      return 2;
    case Opcode::FORMAT_VALUE:
      return (instruction.arg & 4) != 0 ? 2 : 1;
    case Opcode::BUILD_STRING:
    case Opcode::BUILD_TUPLE:
    case Opcode::BUILD_LIST:
      return instruction.arg;
    case Opcode::CALL:
      return instruction.arg + 2;
    default:
      return -1;
  }
}

// One instruction further; false: the value goes elsewhere, or nobody knows.
bool follow(Flow& flow, const Instruction& instruction) {
  const int count = takes(instruction);
  if (count < 0) return false;
  const auto opcode = static_cast<Opcode>(instruction.opcode);
  if (count > 0) {
    const int base = flow.size - count;
    if (base <= flow.place) {
      if (opcode == Opcode::CALL && flow.place >= base + 2) flow.call_base = base;
      if (opcode == Opcode::BUILD_STRING) flow.place = base;
      if (opcode != Opcode::CALL && opcode != Opcode::BUILD_STRING) return false;
    }
    flow.size = base + 1;
  } else if (opcode == Opcode::LOAD_METHOD && flow.place == flow.size - 1) {
    return false;
  }
  flow.size += pushes(instruction);
  return true;
}

bool goes_to_reorderable_call(Executor& executor, const Frame& frame, int place) {
  Flow flow{place, place + 1};
  for (int offset = frame.next; offset < frame.info->size;) {
    const Instruction instruction = instruction_at(frame.info->units, offset);
    offset = instruction.next;
    if (!follow(flow, instruction)) return false;
    if (flow.call_base < 0) continue;
    const auto slot = static_cast<std::size_t>(flow.call_base);
    if (slot + 1 >= static_cast<std::size_t>(place)) return false;
    PyObject *method = frame.stack[slot].get(), *self = frame.stack[slot + 1].get();
    if (method != nullptr) return handlers::is_reorderable(executor, method, self);
    if (PyMethod_Check(self))
      return handlers::is_reorderable(executor, PyMethod_GET_FUNCTION(self), PyMethod_GET_SELF(self));
    return handlers::is_reorderable(executor, self, nullptr);
  }
  return false;
}

}  // namespace

bool format_later(Executor& executor, Frame& frame, PyObject* tensor, int conversion, PyObject* spec, int consumed) {
  if (!executor.reorderable || objects::cat_of(tensor) != Cat::Tensor) return false;
  const int place = static_cast<int>(frame.stack.size()) - consumed;
  if (!goes_to_reorderable_call(executor, frame, place)) return false;
  auto lifted = executor.lift(tensor);
  auto part = py::take(Py_BuildValue("((OiOI))", tensor, conversion, spec, aten::version_of(lifted.get())));
  auto text = handlers::new_late_text(executor, std::move(part));
  drop(frame, static_cast<std::size_t>(consumed));
  frame.stack.push_back(std::move(text));
  return true;
}

bool join_later(Executor& executor, Frame& frame, int count) {
  bool any = false;
  for (int i = 0; i < count; ++i)
    any |= handlers::parts_of_late_text(peek(frame, static_cast<std::size_t>(i))) != nullptr;
  if (!any) return false;
  auto all = py::take(PyTuple_New(0));
  for (int i = count; i-- > 0;) {
    PyObject* value = peek(frame, static_cast<std::size_t>(i));
    PyObject* parts = handlers::parts_of_late_text(value);
    auto more = parts != nullptr ? py::Owned<>::share(parts) : py::take(PyTuple_Pack(1, value));
    all = py::take(PySequence_Concat(all.get(), more.get()));
  }
  drop(frame, static_cast<std::size_t>(count));
  frame.stack.push_back(handlers::new_late_text(executor, std::move(all)));
  return true;
}

}  // namespace pellucid::trace
