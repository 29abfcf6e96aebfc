#include "runtime/fills_first.h"

#include <algorithm>

#include "aten/aten.h"
#include "bytecode/makers.h"
#include "frames/frame_objects.h"
#include "py/cpython.h"

namespace pellucid::runtime {
namespace {

using guards::Guard;
using guards::Kind;
using region::Effect;
using source::Source;
using source::Step;

// The value of a key, or null. By identity, or as equal texts: keys of other classes may have an `__eq__` of their own,
// which is not asked.
PyObject* value_of(PyObject* dict, PyObject* key) {
  Py_ssize_t at = 0;
  PyObject *met = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &at, &met, &value) != 0) {
    if (met == key) return value;
    if (PyUnicode_CheckExact(met) && PyUnicode_CheckExact(key) && PyUnicode_Compare(met, key) == 0) return value;
  }
  return nullptr;
}

// Whether what the dict is behind the region contradicts what the guard asks of it.
bool contradicts(const Guard& guard, PyObject* dict) {
  switch (guard.kind) {
    case Kind::DICT_CONTAINS:
      return guard.number == 0 && value_of(dict, guard.operand.get()) != nullptr;
    case Kind::DICT_KEYS:
      return PyDict_GET_SIZE(dict) > PyTuple_GET_SIZE(guard.operand.get());
    case Kind::LENGTH:
      return PyDict_GET_SIZE(dict) > guard.number;
    default:
      return false;
  }
}

// A tensor, list or dict that the region makes, or a mark that it sets. A value that the program only hands on says
// nothing of what the next call finds.
bool is_state(const region::Capture& capture, PyObject* value) {
  if (value == Py_None || PyBool_Check(value)) return true;
  const bool may_be = capture.node_of.contains(value) || PyList_Check(value) || PyDict_Check(value);
  return may_be && !capture.source_of.contains(value);
}

// The same of a guard that asks whether a value in it is None, True or False.
bool contradicts_value(const region::Capture& capture, const Guard& guard, PyObject* dict) {
  if (guard.kind != Kind::ID_MATCH && guard.kind != Kind::EQUALS_MATCH) return false;
  PyObject* const wanted = guard.operand.get();
  if (wanted != Py_None && wanted != Py_True && wanted != Py_False) return false;
  PyObject* const now = value_of(dict, guard.source->operand.get());
  return now != nullptr && now != wanted && is_state(capture, now);
}

// A dict that the next call may have another of: an argument itself, or what belongs to a mode around the call.
bool is_of_this_call(const Source* source) {
  if (source->step == Step::Local) return true;
  while (source != nullptr && source->step != Step::FunctionMode) source = source->base;
  return source != nullptr;
}

bool is_undone_by(const region::Capture& capture, const Guard& guard, const Source* dict, PyObject* behind) {
  if (guard.source == nullptr) return false;
  if (guard.source == dict) return contradicts(guard, behind);
  const Source* const object = dict->step == Step::DictOf ? dict->base : nullptr;
  if (object != nullptr && guard.source == object) {
    if (guard.kind != Kind::HAS_ATTR || guard.number != 0) return false;
    PyObject* const now = value_of(behind, guard.operand.get());
    return now != nullptr && is_state(capture, now);
  }
  const bool is_item = guard.source->step == Step::DictItem && guard.source->base == dict;
  const bool is_attribute =
      guard.source->step == Step::InstanceAttr && object != nullptr && guard.source->base == object;
  return (is_item || is_attribute) && contradicts_value(capture, guard, behind);
}

// A slot of an object, or the gradient of a tensor: the program has asked whether it is None, and will find something
// there. Where a backward pass alone asks, whoever calls the function may clear it between the calls.
bool is_set_by(const region::Capture& capture, const Guard& guard, const Source* object, const Effect& effect) {
  const bool is_it = guard.kind == Kind::ID_MATCH && guard.source != nullptr && guard.source->step == Step::Member &&
                     guard.source->base == object && guard.operand.get() == Py_None &&
                     guard.source->operand.get() == effect.name.get();
  if (!is_it || !effect.value || effect.value.get() == Py_None || !is_state(capture, effect.value.get())) return false;
  return guard.why.code && !frames::is_hidden(guard.why.code.get());
}

}  // namespace

bool fills_what_it_found_empty(const region::Capture& capture) {
  if (capture.fills_cache) return true;
  const auto undoes = [&](const Effect& effect) {
    const bool is_attribute = effect.kind == Effect::Kind::SetAttr;
    if (!is_attribute && effect.kind != Effect::Kind::SetDict) return false;
    const auto known = capture.source_of.find(effect.target.get());
    if (known == capture.source_of.end() || is_of_this_call(known->second)) return false;
    return std::ranges::any_of(capture.guards.all(), [&](const Guard& guard) {
      if (is_attribute) return is_set_by(capture, guard, known->second, effect);
      return is_undone_by(capture, guard, known->second, effect.value.get());
    });
  };
  return std::ranges::any_of(capture.effects, undoes);
}

namespace {

bool calls_backward(const trace::BreakInfo::FrameInfo& frame) {
  const bytecode::DecodedCode& code = bytecode::decoded(frame.code.get());
  const int index = code.index_at(frame.offset);
  if (index < 0 || code[index].op != bytecode::Opcode::CALL) return false;
  const auto makers = bytecode::stack_makers(code, index);
  const auto below = static_cast<std::size_t>(code[index].arg);
  if (makers.size() < below + 2) return false;
  // A method, or a function with nothing below it.
  const auto names_it = [&](int maker) {
    if (maker < 0) return false;
    const bytecode::Instruction& made = code[maker];
    const bytecode::Operand operand = bytecode::info(made.op).operand;
    if (operand != bytecode::Operand::Name && operand != bytecode::Operand::GlobalName) return false;
    const int name = operand == bytecode::Operand::GlobalName ? made.arg >> 1 : made.arg;
    return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(frame.code->co_names, name), "backward") == 0;
  };
  return names_it(makers[makers.size() - below - 1]) || names_it(makers[makers.size() - below - 2]);
}

}  // namespace

bool finds_no_gradient_before_backward(const region::Capture& capture, const trace::BreakInfo& stop) {
  if (stop.is_error || stop.stack.empty() || !calls_backward(stop.stack.back())) return false;
  const auto found_none = [&](const Source* tensor) {
    return std::ranges::any_of(capture.guards.all(), [&](const Guard& guard) {
      const Source* const source = guard.source;
      if (guard.kind != Kind::ID_MATCH || guard.operand.get() != Py_None || source == nullptr) return false;
      if (source->step != Step::Member || source->base != tensor || is_of_this_call(tensor)) return false;
      const bool is_gradient = PyUnicode_Check(source->operand.get()) &&
                               PyUnicode_CompareWithASCIIString(source->operand.get(), "grad") == 0;
      return is_gradient && guard.why.code && !frames::is_hidden(guard.why.code.get());
    });
  };
  return std::ranges::any_of(capture.input_of, [&](const auto& input) {
    PyObject* const tensor = input.second;
    if (!aten::is_tensor(tensor) || !aten::meta_of(tensor).requires_grad) return false;
    const auto known = capture.source_of.find(tensor);
    return known != capture.source_of.end() && found_none(known->second);
  });
}

}  // namespace pellucid::runtime
