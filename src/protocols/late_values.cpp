#include "protocols/late_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bytecode/opcodes.h"
#include "guards/condition.h"
#include "protocols/numbers.h"
#include "py/number_operator.h"
#include "region/torch_module.h"

namespace pellucid::protocols {
namespace {

using region::is_number;

constexpr std::size_t kMostFields = 1000;

PyObject* held_function(const char* module, const char* name) { return py::import_attr(module, name).release(); }
PyObject* method_of_text(const char* name) {
  return py::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), name)).release();
}

bool is_unsettled(PyObject* operand) { return is_number(operand) && !region::as_number(operand)->settled; }

bool is_text(PyObject* operand) { return PyUnicode_CheckExact(region::value_at_hand(operand)); }

// An int of 64 bits, a finite float or a text; as a constant also a flag or nothing.
bool is_operand(PyObject* operand) {
  symbolic::Value value;
  PyObject* known = region::value_at_hand(operand);
  if (is_text(operand) || guards::is_symbolic_value(known, &value)) return true;
  return !is_number(operand) && (known == Py_None || PyBool_Check(known) || PyLong_CheckExact(known));
}

bool all_are(PyObject* tuple, bool (*test)(PyObject*)) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (!test(PyTuple_GET_ITEM(tuple, i))) return false;
  }
  return true;
}

bool any_is_unsettled(PyObject* tuple) {
  return !all_are(tuple, [](PyObject* item) { return !is_unsettled(item); });
}

py::Owned<> mapped(PyObject* tuple, PyObject* (*map)(PyObject*)) {
  auto made = py::take(PyTuple_New(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    PyTuple_SET_ITEM(made.get(), i, Py_NewRef(map(PyTuple_GET_ITEM(tuple, i))));
  return made;
}

// function(*operands), of which none makes it raise. A tuple among them holds operands. `or_known`: a constant where no
// operand is a number of the region.
std::optional<Result> late(Interpreter& t, PyObject* function, std::span<PyObject* const> operands,
                           bool or_known = false) {
  auto arguments = py::take(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  auto values = py::take(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  bool any = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    PyObject* operand = operands[i];
    const bool tuple = PyTuple_CheckExact(operand);
    if (tuple ? !all_are(operand, is_operand) : !is_operand(operand)) return std::nullopt;
    any |= tuple ? any_is_unsettled(operand) : is_unsettled(operand);
    const auto kept = [](PyObject* item) { return is_unsettled(item) ? item : region::value_at_hand(item); };
    const auto at = static_cast<Py_ssize_t>(i);
    PyTuple_SET_ITEM(arguments.get(), at, tuple ? mapped(operand, kept).release() : Py_NewRef(kept(operand)));
    PyTuple_SET_ITEM(
        values.get(), at,
        tuple ? mapped(operand, region::value_at_hand).release() : Py_NewRef(region::value_at_hand(operand)));
  }
  if (!any && !or_known) return std::nullopt;
  auto value = py::Owned<>::steal(PyObject_CallObject(function, values.get()));
  if (!value) PyErr_Clear();
  if (!value ||
      !(PyUnicode_CheckExact(value.get()) || PyLong_CheckExact(value.get()) || PyFloat_CheckExact(value.get())))
    return std::nullopt;
  if (!any) return Result::of(std::move(value));
  t.region.doing = "computes";
  return Result::of(t.region.numbers.computed(function, std::move(arguments), std::move(value), nullptr));
}

// Of a format specification: 'c' raises for ints that are no characters, 'n' asks the locale.
bool is_total_spec(PyObject* spec) {
  if (!PyUnicode_CheckExact(spec)) return false;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(spec);
  const Py_UCS4 last = length == 0 ? 'd' : PyUnicode_READ_CHAR(spec, length - 1);
  return last != 'c' && last != 'n';
}

// The fields of a template, of str.format or of %: of each argument, whether it is asked for its str() alone.
using Fields = std::vector<bool>;

void note_field(Fields& fields, std::size_t argument, bool is_text) {
  if (fields.size() <= argument) fields.resize(argument + 1, true);
  fields[argument] = fields[argument] && is_text;
}

// Of a template of str.format: fields of plain arguments, without attributes, items or fields within. Nothing: another
// one, which may raise.
std::optional<Fields> fields_of_template(PyObject* format) {
  const std::string text = py::text_of(format);
  Fields fields;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '}') ++i;  // }}, else CPython has raised
    if (text[i] != '{' || (i + 1 < text.size() && text[i + 1] == '{' && ++i)) continue;
    const std::size_t end = text.find('}', i);
    if (end == std::string::npos) return std::nullopt;
    const std::string_view field = std::string_view(text).substr(i + 1, end - i - 1);
    const std::string_view name = field.substr(0, field.find_first_of("!:")), how = field.substr(name.size());
    if (name.find_first_of(".[") != std::string_view::npos || field.find('{') != std::string_view::npos)
      return std::nullopt;
    if (how.find(':') != std::string_view::npos && (how.back() == 'c' || how.back() == 'n')) return std::nullopt;
    std::size_t argument = name.empty() ? next++ : 0;
    if (std::from_chars(name.begin(), name.end(), argument).ptr == name.end() && argument < kMostFields)
      note_field(fields, argument, how.empty() || how == ":" || how.starts_with("!s"));
    i = end;
  }
  return fields;
}

// Of a template of %: without %c, and without widths among the arguments.
std::optional<Fields> fields_of_percent(PyObject* format) {
  const std::string text = py::text_of(format);
  Fields fields;
  for (std::size_t i = text.find('%'); i != std::string::npos; i = text.find('%', i + 1)) {
    const std::size_t type = text.find_first_not_of("0123456789#-+ .lhL", i + 1);
    if (type == std::string::npos || text[type] == 'c' || text[type] == '*' || text[type] == '(') return std::nullopt;
    if (text[type] != '%') note_field(fields, fields.size(), text[type] == 's');
    i = type;
  }
  return fields;
}

using Rule = bool (*)(Args args);

bool of_one(Args args) { return args.size() == 1; }
bool of_one_int(Args args) { return args.size() == 1 && PyLong_CheckExact(region::value_at_hand(args[0])); }
bool of_two_numbers(Args args) { return args.size() == 2 && !is_text(args[0]) && !is_text(args[1]); }
bool of_ints(Args args) {
  return std::ranges::all_of(args.values,
                             [](PyObject* value) { return PyLong_CheckExact(region::value_at_hand(value)); });
}
bool to_digits(Args args) {
  constexpr long kMostDigits = 300;
  if (args.size() != 2 || is_text(args[0]) || !PyLong_CheckExact(args[1])) return false;
  const long digits = PyLong_AsLong(args[1]);
  if (digits == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  const bool is_int =
      PyLong_CheckExact(region::value_at_hand(args[0]));  // a float near the largest one may be rounded beyond it
  return (is_int ? digits >= -kMostDigits : digits >= 0) && digits <= kMostDigits;
}
bool of_spec(Args args) { return args.size() == 1 || (args.size() == 2 && is_total_spec(args[1])); }

// Functions that raise for no number or text, with what their arguments have to be besides.
const std::unordered_map<PyObject*, Rule>& rules() {
  static const std::unordered_map<PyObject*, Rule> table = {
      {reinterpret_cast<PyObject*>(&PyUnicode_Type), of_one},
      {held_function("builtins", "repr"), of_one},
      {held_function("builtins", "ascii"), of_one},
      {held_function("builtins", "format"), of_spec},
      {held_function("builtins", "hex"), of_one_int},
      {held_function("builtins", "oct"), of_one_int},
      {held_function("builtins", "bin"), of_one_int},
      {held_function("builtins", "round"), to_digits},
      {held_function("math", "atan2"), of_two_numbers},
      {held_function("math", "copysign"), of_two_numbers},
      {held_function("math", "gcd"), of_ints},
      {held_function("math", "lcm"), of_ints},
  };
  return table;
}

// The items of a tuple or list that are texts.
std::optional<Result> late_joined(Interpreter& t, PyObject* separator, PyObject* items) {
  static PyObject* const join = method_of_text("join");
  if (!PyTuple_CheckExact(items) && !PyList_CheckExact(items)) return std::nullopt;
  if (t.region.provenance.is_outside(t.region.shadows.original(items))) return std::nullopt;
  const auto parts = py::take(PySequence_Tuple(items));
  if (!all_are(parts.get(), is_text)) return std::nullopt;
  PyObject* operands[] = {separator, parts.get()};
  return late(t, join, operands);
}

// What Python prints of a container that holds these items, as a function of them.
PyObject* printer_of(PyObject* container) {
  static PyObject* const of_tuple = held_function("builtins", "repr");
  static PyObject* const of_list = held_function("pellucid._late", "text_of_list");
  static PyObject* const of_size = held_function("pellucid._late", "text_of_size");
  static PyObject* const of_dict = held_function("pellucid._late", "text_of_dict");
  if (PyTuple_CheckExact(container)) return of_tuple;
  if (PyList_CheckExact(container)) return of_list;
  if (PyDict_CheckExact(container)) return of_dict;
  return Py_IS_TYPE(container, region::torch_size_type()) ? of_size : nullptr;
}

}  // namespace

namespace {

std::optional<Result> text_of(Interpreter& t, PyObject* container, bool or_known) {
  PyObject* const printer = printer_of(container);
  if (printer == nullptr || t.region.provenance.is_outside(container)) return std::nullopt;
  if (PyDict_CheckExact(container)) {
    const auto keys = py::take(PyDict_Keys(container)), values = py::take(PyDict_Values(container));
    const auto names = py::take(PyList_AsTuple(keys.get())), items = py::take(PyList_AsTuple(values.get()));
    PyObject* parts[] = {names.get(), items.get()};
    return late(t, printer, parts, or_known);
  }
  auto items = py::take(PyTuple_New(PySequence_Fast_GET_SIZE(container)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    PyTuple_SET_ITEM(items.get(), i, Py_NewRef(PySequence_Fast_GET_ITEM(container, i)));
  PyObject* parts[] = {items.get()};
  return late(t, printer, parts, or_known);
}

// An argument of a template, or of a container its text, where that is all that is asked for.
py::Owned<> argument_of(Interpreter& t, PyObject* argument, const Fields& fields, std::size_t i) {
  if (i < fields.size() && fields[i]) {
    if (auto text = text_of(t, argument, /*or_known=*/true)) return std::move(text->value);
  }
  return py::Owned<>::share(argument);
}

std::optional<Result> late_format(Interpreter& t, PyObject* format, Args args) {
  if (args.size() < 2 || !PyUnicode_CheckExact(args[0])) return std::nullopt;
  const auto fields = fields_of_template(args[0]);
  if (!fields) return std::nullopt;
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> operands{args[0]};
  for (std::size_t i = 1; i < args.size(); ++i) {
    held.push_back(argument_of(t, args[i], *fields, i - 1));
    operands.push_back(held.back().get());
  }
  return late(t, format, operands);
}

std::optional<Result> late_percent(Interpreter& t, PyObject* format, PyObject* right) {
  static PyObject* const mod = held_function("operator", "mod");
  const auto fields = fields_of_percent(format);
  if (!fields) return std::nullopt;
  py::Owned<> arguments = py::Owned<>::share(right);
  if (PyTuple_CheckExact(right) || is_open_size(right)) {  // an argument for each field
    if (t.region.provenance.is_outside(right)) return std::nullopt;
    arguments = py::take(PyTuple_New(PyTuple_GET_SIZE(right)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(right); ++i) {
      const auto at = static_cast<std::size_t>(i);
      PyTuple_SET_ITEM(arguments.get(), i, argument_of(t, PyTuple_GET_ITEM(right, i), *fields, at).release());
    }
  } else if (fields->size() == 1) {
    arguments = argument_of(t, right, *fields, 0);
  }
  PyObject* operands[] = {format, arguments.get()};
  return late(t, mod, operands);
}

}  // namespace

namespace {

bool is_of_tensor(PyObject* operand) { return is_number(operand) && region::as_number(operand)->of_tensor; }

PyObject* operator_of(bytecode::Operator operation) {
  using bytecode::Operator;
  static const std::unordered_map<Operator, PyObject*> functions = {
      {Operator::NB_ADD, held_function("operator", "add")},
      {Operator::NB_SUBTRACT, held_function("operator", "sub")},
      {Operator::NB_MULTIPLY, held_function("operator", "mul")},
      {Operator::NB_TRUE_DIVIDE, held_function("operator", "truediv")},
      {Operator::NB_FLOOR_DIVIDE, held_function("operator", "floordiv")},
      {Operator::NB_REMAINDER, held_function("operator", "mod")}};
  const auto found = functions.find(operation);
  return found == functions.end() ? nullptr : found->second;
}

// A float, or an int that is less than the largest float, so that the one becomes the other: of 64 bits where it was
// read. The arithmetic here adds few bits to that.
bool is_term(PyObject* operand) {
  PyObject* const value = region::value_at_hand(operand);
  symbolic::Value known;
  if (!is_of_tensor(operand)) {
    const bool is_late = region::is_late(operand);
    return !is_late &&
           (PyFloat_CheckExact(value) || (PyLong_CheckExact(value) && guards::is_symbolic_value(value, &known)));
  }
  static const std::unordered_set<PyObject*> functions = [] {
    std::unordered_set<PyObject*> made{reinterpret_cast<PyObject*>(&PyFloat_Type), held_function("builtins", "abs"),
                                       held_function("builtins", "round"), held_function("operator", "neg")};
    for (const char* name : {"add", "sub", "mul", "truediv", "floordiv", "mod"})
      made.insert(held_function("operator", name));
    return made;
  }();
  const region::Number* number = region::as_number(operand);
  const bool is_read = number->depth == 0;
  return (is_read || functions.contains(number->function)) && (PyFloat_CheckExact(value) || PyLong_CheckExact(value));
}

// Known not to be zero, or guarded to be so.
bool is_divisor(Interpreter& t, PyObject* operand) {
  if (is_of_tensor(operand)) return false;
  if (const auto truth = number_truth(t, operand)) return truth->value.get() == Py_True;
  return PyObject_IsTrue(t.region.numbers.plain(operand)) == 1;
}

// The product of ints has as many bits as both.
bool multiplies_products(PyObject* left, PyObject* right) {
  const auto is_computed = [](PyObject* operand) {
    return PyLong_CheckExact(region::value_at_hand(operand)) && is_of_tensor(operand) &&
           region::as_number(operand)->depth != 0;
  };
  return is_computed(left) || is_computed(right);
}

std::optional<Result> computed_late(Interpreter& t, PyObject* function, std::span<PyObject* const> operands) {
  auto arguments = py::take(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (std::size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(is_unsettled(operands[i]) ? operands[i] : region::value_at_hand(operands[i])));
  const auto values = mapped(arguments.get(), region::value_at_hand);
  auto value = py::Owned<>::steal(PyObject_CallObject(function, values.get()));
  if (!value) PyErr_Clear();
  if (!value) return std::nullopt;
  t.region.doing = "computes";
  return Result::of(t.region.numbers.computed(function, std::move(arguments), std::move(value), nullptr));
}

}  // namespace

std::optional<Result> late_text_of(Interpreter& t, PyObject* container) {
  return text_of(t, container, /*or_known=*/false);
}

std::optional<Result> late_call(Interpreter& t, PyObject* callable, Args args) {
  static PyObject* const format = method_of_text("format");
  if (callable == format && args.keyword_count() == 0) return late_format(t, format, args);
  if (args.size() == 1 && args.keyword_count() == 0 && is_of_tensor(args[0]) && is_term(args[0])) {
    static PyObject* const absolute = held_function("builtins", "abs");
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(region::value_at_hand(args[0])));
    if (callable == type) return Result::of(py::Owned<>::share(args[0]));
    if (callable == absolute || callable == reinterpret_cast<PyObject*>(&PyFloat_Type))
      return computed_late(t, callable, args.values);
  }
  const auto rule = rules().find(callable);
  if (rule == rules().end() || args.keyword_count() != 0 || !rule->second(args)) return std::nullopt;
  return late(t, callable, args.values);
}

std::optional<Result> late_join(Interpreter& t, PyObject* parts) {
  static PyObject* const empty = py::str("").release();
  return late_joined(t, empty, parts);
}

std::optional<Result> late_binary(Interpreter& t, PyObject* left, PyObject* right, int op) {
  if (!is_text(left)) return std::nullopt;
  const auto operation = static_cast<bytecode::Operator>(op % py::kInPlace);
  PyObject* operands[] = {left, right};
  static PyObject* const add = held_function("operator", "add");
  if (operation == bytecode::Operator::NB_ADD && is_text(right)) return late(t, add, operands);
  if (operation == bytecode::Operator::NB_REMAINDER && PyUnicode_CheckExact(left)) return late_percent(t, left, right);
  return std::nullopt;
}

std::optional<Result> late_bits(Interpreter& t, PyObject* left, PyObject* right, int op) {
  const auto operation = static_cast<bytecode::Operator>(op % py::kInPlace);
  const bool is_one = operation == bytecode::Operator::NB_AND || operation == bytecode::Operator::NB_OR ||
                      operation == bytecode::Operator::NB_XOR;
  if (!is_one || !PyLong_CheckExact(region::value_at_hand(left)) || !PyLong_CheckExact(region::value_at_hand(right)))
    return std::nullopt;
  static const std::array functions = {held_function("operator", "and_"), held_function("operator", "or_"),
                                       held_function("operator", "xor")};
  PyObject* operands[] = {left, right};
  const std::size_t which = operation == bytecode::Operator::NB_AND  ? 0
                            : operation == bytecode::Operator::NB_OR ? 1
                                                                     : 2;
  return late(t, functions[which], operands);
}

std::optional<Result> late_not_finite(Interpreter& t, PyObject* left, PyObject* right, int op) {
  using bytecode::Operator;
  const auto operation = static_cast<Operator>(op % py::kInPlace);
  static const std::unordered_map<Operator, PyObject*> functions = {
      {Operator::NB_ADD, held_function("operator", "add")},
      {Operator::NB_SUBTRACT, held_function("operator", "sub")},
      {Operator::NB_MULTIPLY, held_function("operator", "mul")}};
  const auto is_endless = [](PyObject* operand) {
    PyObject* value = region::value_at_hand(operand);
    return PyFloat_CheckExact(value) && !std::isfinite(PyFloat_AS_DOUBLE(value));
  };
  const auto function = functions.find(operation);
  PyObject* const known = is_endless(left) ? left : right;
  PyObject* const number = known == left ? right : left;
  symbolic::Value value;
  if (function == functions.end() || !is_endless(known) || !region::is_open(number) ||
      !guards::is_symbolic_value(region::value_at_hand(number), &value))
    return std::nullopt;
  const auto constant = py::Owned<>::share(t.region.numbers.plain(known));
  PyObject* const first = known == left ? constant.get() : left;
  PyObject* const second = known == left ? right : constant.get();
  PyNumberMethods* const methods = PyFloat_Type.tp_as_number;
  const binaryfunc slot = operation == Operator::NB_ADD        ? methods->nb_add
                          : operation == Operator::NB_SUBTRACT ? methods->nb_subtract
                                                               : methods->nb_multiply;
  auto result = py::take(slot(region::value_at_hand(first), region::value_at_hand(second)));
  t.region.doing = "computes";
  return Result::of(t.region.numbers.computed(function->second, py::take(PyTuple_Pack(2, first, second)),
                                              std::move(result), nullptr));
}

std::optional<Result> late_arithmetic(Interpreter& t, PyObject* left, PyObject* right, int op) {
  using bytecode::Operator;
  if ((!is_of_tensor(left) && !is_of_tensor(right)) || !is_term(left) || !is_term(right)) return std::nullopt;
  const auto operation = static_cast<Operator>(op % py::kInPlace);
  PyObject* const function = operator_of(operation);
  if (function == nullptr) return std::nullopt;
  const bool divides = operation == Operator::NB_TRUE_DIVIDE || operation == Operator::NB_FLOOR_DIVIDE ||
                       operation == Operator::NB_REMAINDER;
  if (divides && !is_divisor(t, right)) return std::nullopt;
  if (operation == Operator::NB_MULTIPLY && multiplies_products(left, right)) return std::nullopt;
  PyObject* operands[] = {left, right};
  return computed_late(t, function, operands);
}

std::optional<Result> late_negative(Interpreter& t, PyObject* value) {
  static PyObject* const negative = held_function("operator", "neg");
  if (!is_of_tensor(value) || !is_term(value)) return std::nullopt;
  return computed_late(t, negative, {&value, 1});
}

}  // namespace pellucid::protocols
