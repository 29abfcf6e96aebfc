#include "frames/real_step.h"

#include <array>

#include "bytecode/opcodes.h"
#include "frames/real_rules.h"
#include "py/number_operator.h"

namespace pellucid::frames {

void Step::drop(int count) noexcept {
  for (int i = 0; i < count; ++i) {
    PyObject* value = *--top;
    *top = nullptr;
    Py_XDECREF(value);
  }
}

void Step::replace(int count, PyObject* value) noexcept {
  drop(count);
  *top++ = value;
}

namespace {

using bytecode::Opcode;

bool give(Step& step, int operands, PyObject* value) noexcept {
  if (value == nullptr) return false;
  step.replace(operands, value);
  return true;
}

bool call(Step& step) noexcept {
  const bool is_method = step.peek(step.arg + 1) != nullptr;
  const int total = step.arg + (is_method ? 1 : 0);
  PyObject* callable = step.peek(total);
  const Py_ssize_t keywords = step.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(step.kwnames);
  const auto positional = static_cast<std::size_t>(total - keywords);
  PyObject* result =
      PyObject_Vectorcall(callable, step.top - total, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, step.kwnames);
  return give(step, step.arg + 2, result);
}

bool call_function_ex(Step& step) noexcept {
  const bool has_keywords = (step.arg & 1) != 0;
  PyObject* keywords = has_keywords ? step.peek(0) : nullptr;
  PyObject* given = step.peek(has_keywords ? 1 : 0);
  PyObject* callable = step.peek(has_keywords ? 2 : 1);
  PyObject* result = PyObject_Call(callable, given, keywords);
  return give(step, has_keywords ? 4 : 3, result);
}

bool jump_by(Step& step, bool wanted, int distance) noexcept {
  const int truth = PyObject_IsTrue(step.peek(0));
  if (truth < 0) return false;
  step.drop(1);
  if ((truth != 0) == wanted) step.next += distance;
  return true;
}
template <bool Wanted>
bool jump_if(Step& step) noexcept {
  return jump_by(step, Wanted, 2 * step.arg);
}
template <bool Wanted>
bool jump_back_if(Step& step) noexcept {
  return jump_by(step, Wanted, -2 * step.arg);
}

template <bool Wanted>
bool jump_or_pop(Step& step) noexcept {
  const int truth = PyObject_IsTrue(step.peek(0));
  if (truth < 0) return false;
  if ((truth != 0) == Wanted) {
    step.next += 2 * step.arg;
  } else {
    step.drop(1);
  }
  return true;
}

bool unary_not(Step& step) noexcept {
  const int truth = PyObject_IsTrue(step.peek(0));
  return truth >= 0 && give(step, 1, Py_NewRef(truth != 0 ? Py_False : Py_True));
}

constexpr auto unary_function(Opcode op) {
  PyObject* (*function)(PyObject*) = nullptr;
#define UNARY(opcode, symbol, name, method, call) \
  if (op == Opcode::opcode) function = call;
#include "py/operators.def"
  return function;
}
template <Opcode op>
bool unary(Step& step) noexcept {
  return give(step, 1, unary_function(op)(step.peek(0)));
}

bool binary_subscr(Step& step) noexcept { return give(step, 2, PyObject_GetItem(step.peek(1), step.peek(0))); }

bool store_subscr(Step& step) noexcept {
  if (PyObject_SetItem(step.peek(1), step.peek(0), step.peek(2)) < 0) return false;
  step.drop(3);
  return true;
}

bool delete_subscr(Step& step) noexcept {
  if (PyObject_DelItem(step.peek(1), step.peek(0)) < 0) return false;
  step.drop(2);
  return true;
}

PyObject* name_of(const Step& step) noexcept { return PyTuple_GET_ITEM(step.code->co_names, step.arg); }

bool load_attr(Step& step) noexcept { return give(step, 1, PyObject_GetAttr(step.peek(0), name_of(step))); }

// The function with the object behind it, or NULL with the bound attribute.
bool load_method(Step& step) noexcept {
  PyObject* object = step.peek(0);
  PyObject* found = nullptr;
  const bool unbound = _PyObject_GetMethod(object, name_of(step), &found) != 0;
  if (found == nullptr) return false;
  if (unbound) Py_INCREF(object);
  step.replace(1, unbound ? found : nullptr);
  *step.top++ = unbound ? object : found;
  return true;
}

bool store_attr(Step& step) noexcept {
  if (PyObject_SetAttr(step.peek(0), name_of(step), step.peek(1)) < 0) return false;
  step.drop(2);
  return true;
}

bool delete_attr(Step& step) noexcept {
  if (PyObject_DelAttr(step.peek(0), name_of(step)) < 0) return false;
  step.drop(1);
  return true;
}

bool compare(Step& step) noexcept { return give(step, 2, PyObject_RichCompare(step.peek(1), step.peek(0), step.arg)); }

bool contains(Step& step) noexcept {
  const int found = PySequence_Contains(step.peek(0), step.peek(1));
  return found >= 0 && give(step, 2, Py_NewRef((found ^ step.arg) != 0 ? Py_True : Py_False));
}

bool get_iter(Step& step) noexcept { return give(step, 1, PyObject_GetIter(step.peek(0))); }

bool for_iter(Step& step) noexcept {
  PyObject* iterator = step.peek(0);
  PyObject* value = Py_TYPE(iterator)->tp_iternext(iterator);
  if (value != nullptr) {
    *step.top++ = value;
    return true;
  }
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0) return false;
    PyErr_Clear();
  }
  step.drop(1);
  step.next += 2 * step.arg;
  return true;
}

bool binary_op(Step& step) noexcept {
  return give(step, 2, py::binary_operator(step.arg).call(step.peek(1), step.peek(0)));
}

// The interpreter turns other arguments into these first, and words the errors.
bool has_plain_arguments(Step& step) noexcept {
  const bool has_keywords = (step.arg & 1) != 0;
  return PyTuple_CheckExact(step.peek(has_keywords ? 1 : 0)) && (!has_keywords || PyDict_CheckExact(step.peek(0)));
}

constexpr Rule Interpreter = nullptr;
constexpr auto kRules = [] {
  std::array<Rule, 256> rules{};
#define OP(number, name, caches, pops, pushes, looks, operand, flow, real, ...) rules[number] = real;
#include "bytecode/opcodes.def"
  return rules;
}();

}  // namespace

Rule rule_for(int opcode, Step& step) noexcept {
  const auto op = static_cast<Opcode>(opcode);
  if (op == Opcode::CALL_FUNCTION_EX && !has_plain_arguments(step)) return Interpreter;
  if (op == Opcode::RAISE_VARARGS && step.arg == 0) return Interpreter;  // raises what is being handled
  return kRules[static_cast<std::uint8_t>(op)];
}

}  // namespace pellucid::frames
