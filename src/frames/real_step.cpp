#include "frames/real_step.h"

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

template <bool Wanted, int Direction>
bool jump_if(Step& step) noexcept {
  const int truth = PyObject_IsTrue(step.peek(0));
  if (truth < 0) return false;
  step.drop(1);
  if ((truth != 0) == Wanted) step.next += Direction * 2 * step.arg;
  return true;
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

template <PyObject* (*operation)(PyObject*)>
bool unary(Step& step) noexcept {
  return give(step, 1, operation(step.peek(0)));
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

bool binary_op(Step& step) noexcept { return give(step, 2, py::number_operator(step.arg)(step.peek(1), step.peek(0))); }

// The interpreter turns other arguments into these first, and words the errors.
bool has_plain_arguments(Step& step) noexcept {
  const bool has_keywords = (step.arg & 1) != 0;
  return PyTuple_CheckExact(step.peek(has_keywords ? 1 : 0)) && (!has_keywords || PyDict_CheckExact(step.peek(0)));
}

Rule more_rules_for(int opcode) noexcept {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::BUILD_SET:
      return build_set;
    case Opcode::BUILD_MAP:
      return build_map;
    case Opcode::SET_ADD:
      return set_add;
    case Opcode::MAP_ADD:
      return map_add;
    case Opcode::LIST_EXTEND:
      return list_extend;
    case Opcode::SET_UPDATE:
      return set_update;
    case Opcode::DICT_UPDATE:
      return dict_update;
    case Opcode::DICT_MERGE:
      return dict_merge;
    case Opcode::UNPACK_SEQUENCE:
      return unpack_sequence;
    case Opcode::UNPACK_EX:
      return unpack_ex;
    case Opcode::FORMAT_VALUE:
      return format_value;
    case Opcode::LOAD_GLOBAL:
      return load_global;
    case Opcode::STORE_GLOBAL:
      return store_global;
    case Opcode::DELETE_GLOBAL:
      return delete_global;
    case Opcode::IMPORT_NAME:
      return import_name;
    case Opcode::IMPORT_FROM:
      return import_from;
    case Opcode::LOAD_BUILD_CLASS:
      return load_build_class;
    case Opcode::BEFORE_WITH:
      return before_with;
    case Opcode::SEND:
      return send;
    case Opcode::WITH_EXCEPT_START:
      return with_except_start;
    case Opcode::GET_LEN:
      return get_len;
    case Opcode::MATCH_KEYS:
      return match_keys;
    case Opcode::MATCH_CLASS:
      return match_class;
    default:
      return nullptr;
  }
}

}  // namespace

Rule rule_for(int opcode, Step& step) noexcept {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::CALL:
      return call;
    case Opcode::CALL_FUNCTION_EX:
      return has_plain_arguments(step) ? call_function_ex : nullptr;
    case Opcode::POP_JUMP_FORWARD_IF_TRUE:
      return jump_if<true, 1>;
    case Opcode::POP_JUMP_FORWARD_IF_FALSE:
      return jump_if<false, 1>;
    case Opcode::POP_JUMP_BACKWARD_IF_TRUE:
      return jump_if<true, -1>;
    case Opcode::POP_JUMP_BACKWARD_IF_FALSE:
      return jump_if<false, -1>;
    case Opcode::JUMP_IF_TRUE_OR_POP:
      return jump_or_pop<true>;
    case Opcode::JUMP_IF_FALSE_OR_POP:
      return jump_or_pop<false>;
    case Opcode::UNARY_NOT:
      return unary_not;
    case Opcode::BINARY_OP:
      return binary_op;
    case Opcode::BINARY_SUBSCR:
      return binary_subscr;
    case Opcode::STORE_SUBSCR:
      return store_subscr;
    case Opcode::LOAD_ATTR:
      return load_attr;
    case Opcode::LOAD_METHOD:
      return load_method;
    case Opcode::STORE_ATTR:
      return store_attr;
    case Opcode::COMPARE_OP:
      return compare;
    case Opcode::CONTAINS_OP:
      return contains;
    case Opcode::GET_ITER:
      return get_iter;
    case Opcode::FOR_ITER:
      return for_iter;
    case Opcode::RAISE_VARARGS:
      return step.arg == 0 ? nullptr : raise_varargs;
    case Opcode::UNARY_POSITIVE:
      return unary<PyNumber_Positive>;
    case Opcode::UNARY_NEGATIVE:
      return unary<PyNumber_Negative>;
    case Opcode::UNARY_INVERT:
      return unary<PyNumber_Invert>;
    case Opcode::DELETE_SUBSCR:
      return delete_subscr;
    case Opcode::DELETE_ATTR:
      return delete_attr;
    default:
      return more_rules_for(opcode);
  }
}

}  // namespace pellucid::frames
