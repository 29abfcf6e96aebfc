#include "trace/late_text.h"

#include "bytecode/opcodes.h"
#include "protocols/deferred.h"
#include "protocols/torch_function.h"
#include "region/subclasses.h"

namespace pellucid::trace {
namespace {

using bytecode::Opcode;

// What becomes of the value in stack slot `place`, read from the instructions behind it.
struct Flow {
  int place, size;     // slots of the value and of the whole stack
  int call_base = -1;  // the slots of the callable, once found
};

// What evaluates the other parts of an f-string and the other arguments of a call.
bool may_come_between(Opcode op) {
  switch (op) {
    case Opcode::LOAD_CONST:
    case Opcode::LOAD_FAST:
    case Opcode::LOAD_DEREF:
    case Opcode::LOAD_GLOBAL:
    case Opcode::LOAD_METHOD:
    case Opcode::LOAD_ATTR:
    case Opcode::PUSH_NULL:
    case Opcode::KW_NAMES:
    case Opcode::PRECALL:
    case Opcode::CALL:
    case Opcode::UNARY_NEGATIVE:
    case Opcode::UNARY_NOT:
    case Opcode::BINARY_OP:
    case Opcode::BINARY_SUBSCR:
    case Opcode::COMPARE_OP:
    case Opcode::FORMAT_VALUE:
    case Opcode::BUILD_STRING:
    case Opcode::BUILD_TUPLE:
    case Opcode::BUILD_LIST:
      return true;
    default:
      return false;
  }
}

// One instruction further; false: the value goes elsewhere, or nobody knows.
bool follow(Flow& flow, const bytecode::Instruction& instruction) {
  const Opcode op = instruction.op;
  if (!may_come_between(op)) return false;
  const int base = flow.size - bytecode::pops(op, instruction.arg);
  if (base <= flow.place) {
    if (op == Opcode::CALL && flow.place >= base + 2) flow.call_base = base;
    if (op == Opcode::BUILD_STRING) flow.place = base;
    if (op != Opcode::CALL && op != Opcode::BUILD_STRING) return false;
  }
  flow.size = base + bytecode::pushes(op, instruction.arg);
  return true;
}

bool goes_to_reorderable_call(Executor& executor, const Frame& frame, int place) {
  Flow flow{place, place + 1};
  const bytecode::DecodedCode& code = *frame.decoded;
  for (int index = code.index_at(frame.next); index < code.size(); ++index) {
    if (!follow(flow, code[index])) return false;
    if (flow.call_base < 0) continue;
    const auto slot = static_cast<std::size_t>(flow.call_base);
    if (slot + 1 >= static_cast<std::size_t>(place)) return false;
    PyObject *method = frame.stack[slot].get(), *self = frame.stack[slot + 1].get();
    if (method != nullptr) return protocols::is_reorderable(executor, method, self);
    if (PyMethod_Check(self))
      return protocols::is_reorderable(executor, PyMethod_GET_FUNCTION(self), PyMethod_GET_SELF(self));
    return protocols::is_reorderable(executor, self, nullptr);
  }
  return false;
}

}  // namespace

bool format_later(Executor& executor, Frame& frame, PyObject* tensor, int conversion, PyObject* spec, int consumed) {
  if (!executor.region.deferred.reorderable || region::cat_of(tensor) != Cat::Tensor) return false;
  if (protocols::is_answered(executor, tensor)) return false;  // its class says how it reads
  const int place = static_cast<int>(frame.stack.size()) - consumed;
  if (!goes_to_reorderable_call(executor, frame, place)) return false;
  auto lifted = executor.region.recorder.lift(tensor);
  auto part = py::take(Py_BuildValue("((OiOI))", tensor, conversion, spec, aten::version_of(lifted.get())));
  auto text = protocols::new_late_text(executor, std::move(part));
  drop(frame, static_cast<std::size_t>(consumed));
  frame.stack.push_back(std::move(text));
  return true;
}

bool join_later(Executor& executor, Frame& frame, int count) {
  bool any = false;
  for (int i = 0; i < count; ++i)
    any |= protocols::parts_of_late_text(peek(frame, static_cast<std::size_t>(i))) != nullptr;
  if (!any) return false;
  auto all = py::take(PyTuple_New(0));
  for (int i = count; i-- > 0;) {
    PyObject* value = peek(frame, static_cast<std::size_t>(i));
    PyObject* parts = protocols::parts_of_late_text(value);
    auto more =
        parts != nullptr ? py::Owned<>::share(parts) : py::take(PyTuple_Pack(1, executor.region.numbers.plain(value)));
    all = py::take(PySequence_Concat(all.get(), more.get()));
  }
  drop(frame, static_cast<std::size_t>(count));
  frame.stack.push_back(protocols::new_late_text(executor, std::move(all)));
  return true;
}

}  // namespace pellucid::trace
