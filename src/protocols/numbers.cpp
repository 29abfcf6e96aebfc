#include "protocols/numbers.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "aten/aten.h"
#include "bytecode/opcodes.h"
#include "protocols/operators.h"
#include "protocols/policies.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "py/number_operator.h"
#include "region/compiled_function.h"
#include "region/known_elements.h"
#include "region/seeds.h"
#include "region/torch_module.h"
#include "symbolic/operations.h"

namespace pellucid::protocols {
namespace {

using region::is_number;
using region::is_open;
using region::value_at_hand;
using symbolic::Expr;
using symbolic::Space;

PyObject* function_of_operator(const char* name) {
  static PyObject* const module = py::module_named("operator");
  static std::unordered_map<std::string, PyObject*> table;
  PyObject*& slot = table[name];
  if (slot == nullptr) slot = py::take(PyObject_GetAttrString(module, name)).release();
  return slot;
}

bool is_operand(PyObject* object) {
  return is_number(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object);
}

// The number of `function(*operands)`, when C code gives `value` for the values at hand. Nothing when the two disagree:
// then the plain values tell.
// `mark`: of the space before the expression was made; what that needed to be true is taken back.
std::optional<Result> made(Interpreter& t, std::size_t mark, PyObject* function, std::span<PyObject* const> operands,
                           py::Owned<> value, const Expr* expr) {
  symbolic::Value known;
  if (!value) PyErr_Clear();
  if (!value || expr == nullptr || !guards::is_symbolic_value(value.get(), &known) ||
      !symbolic::same(known, expr->hint)) {
    t.region.numbers.space().truncate(mark);
    return std::nullopt;
  }
  auto arguments = py::take(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  Py_ssize_t at = 0;
  for (PyObject* operand : operands)
    PyTuple_SET_ITEM(arguments.get(), at++, Py_NewRef(is_open(operand) ? operand : value_at_hand(operand)));
  return Result::of(t.region.numbers.computed(function, std::move(arguments), std::move(value), expr));
}

std::optional<symbolic::Binary> binary_of(int op) {
  switch (static_cast<bytecode::Operator>(op % py::kInPlace)) {
    case bytecode::Operator::NB_ADD:
      return symbolic::Binary::Add;
    case bytecode::Operator::NB_SUBTRACT:
      return symbolic::Binary::Sub;
    case bytecode::Operator::NB_MULTIPLY:
      return symbolic::Binary::Mul;
    case bytecode::Operator::NB_TRUE_DIVIDE:
      return symbolic::Binary::TrueDiv;
    case bytecode::Operator::NB_FLOOR_DIVIDE:
      return symbolic::Binary::FloorDiv;
    case bytecode::Operator::NB_REMAINDER:
      return symbolic::Binary::Mod;
    case bytecode::Operator::NB_POWER:
      return symbolic::Binary::Pow;
    default:
      return std::nullopt;
  }
}

// Its value depends on one that only the graph knows.
bool is_of_graph(Interpreter& t, PyObject* object) {
  return is_open(object) && region::as_number(object)->expr != nullptr &&
         t.region.unbacked.names(region::as_number(object)->expr);
}

// Both expressions, when an operand is open.
bool expressions(Interpreter& t, PyObject* left, PyObject* right, const Expr** a, const Expr** b) {
  if ((!is_open(left) && !is_open(right)) || !is_operand(left) || !is_operand(right)) return false;
  *a = t.region.numbers.expr_of(left);
  *b = t.region.numbers.expr_of(right);
  return *a != nullptr && *b != nullptr;
}

}  // namespace

namespace {

// n & mask as arithmetic: each run of ones is the difference of two remainders. Null: it has too many.
const Expr* masked(Interpreter& t, const Expr* n, std::int64_t mask) {
  using symbolic::Binary;
  constexpr int kMostRuns = 4, kMostBit = 62;
  Space& space = t.region.numbers.space();
  const auto who = t.region.numbers.here();
  const auto binary = [&](Binary operation, const Expr* a, const Expr* b) {
    return a != nullptr && b != nullptr ? symbolic::binary(space, operation, a, b, who) : nullptr;
  };
  const auto number = [&](std::int64_t value) { return space.constant(symbolic::Value::of(value)); };
  const auto below = [&](int bit) {  // what the bits below this one say
    return binary(Binary::Mod, n, number(std::int64_t{1} << bit));
  };
  if (mask < 0) return binary(Binary::Sub, n, masked(t, n, ~mask));
  const Expr* sum = number(0);
  int runs = 0;
  for (int bit = 0; bit <= kMostBit && mask >> bit != 0; ++bit) {
    if ((mask >> bit & 1) == 0) continue;
    const int first = bit;
    while (bit <= kMostBit && (mask >> bit & 1) != 0) ++bit;
    if (bit > kMostBit || ++runs > kMostRuns) return nullptr;
    sum = binary(Binary::Add, sum, first == 0 ? below(bit) : binary(Binary::Sub, below(bit), below(first)));
  }
  return sum;
}

// Shifts by a constant, and bits of one, as arithmetic. Null: another operation.
const Expr* bits(Interpreter& t, bytecode::Operator op, const Expr* a, const Expr* b) {
  using symbolic::Binary;
  Space& space = t.region.numbers.space();
  const auto who = t.region.numbers.here();
  const auto binary = [&](Binary operation, const Expr* x, const Expr* y) {
    return x != nullptr && y != nullptr ? symbolic::binary(space, operation, x, y, who) : nullptr;
  };
  if (a->type != symbolic::Type::Int || b->type != symbolic::Type::Int) return nullptr;
  const bool shifts = op == bytecode::Operator::NB_LSHIFT || op == bytecode::Operator::NB_RSHIFT;
  if (!shifts && a->is_constant()) std::swap(a, b);
  if (!b->is_constant()) return nullptr;
  const std::int64_t constant = b->constant().i;
  constexpr std::int64_t kMostShifted = 62;
  if (shifts && (constant < 0 || constant > kMostShifted)) return nullptr;
  switch (op) {
    case bytecode::Operator::NB_LSHIFT:
    case bytecode::Operator::NB_RSHIFT: {
      const Expr* power = space.constant(symbolic::Value::of(std::int64_t{1} << constant));
      return binary(op == bytecode::Operator::NB_LSHIFT ? Binary::Mul : Binary::FloorDiv, a, power);
    }
    case bytecode::Operator::NB_AND:
      return masked(t, a, constant);
    case bytecode::Operator::NB_OR:
      return binary(Binary::Sub, binary(Binary::Add, a, b), masked(t, a, constant));
    case bytecode::Operator::NB_XOR: {
      const Expr* common = masked(t, a, constant);
      return binary(Binary::Sub, binary(Binary::Sub, binary(Binary::Add, a, b), common), common);
    }
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<Result> number_binary(Interpreter& t, PyObject* left, PyObject* right, int op) {
  const Expr *a = nullptr, *b = nullptr;
  t.region.doing = "computes";
  if (is_of_graph(t, left)) region::Seeds::open(t.region, right);
  if (is_of_graph(t, right)) region::Seeds::open(t.region, left);
  if (!expressions(t, left, right, &a, &b)) return std::nullopt;
  const py::BinaryOperator& o = py::binary_operator(op % py::kInPlace);
  auto value = py::Owned<>::steal(o.call(value_at_hand(left), value_at_hand(right)));
  if (!value) PyErr_Clear();
  if (!value) return std::nullopt;
  const auto operation = binary_of(op);
  Space& space = t.region.numbers.space();
  const std::size_t mark = space.mark();
  const Expr* expr = operation ? symbolic::binary(space, *operation, a, b, t.region.numbers.here())
                               : bits(t, static_cast<bytecode::Operator>(op % py::kInPlace), a, b);
  if (expr == nullptr && !operation) return std::nullopt;
  PyObject* operands[] = {left, right};
  return made(t, mark, function_of_operator(o.function), operands, std::move(value), expr);
}

std::optional<Result> number_compare(Interpreter& t, PyObject* left, PyObject* right, int op) {
  const Expr *a = nullptr, *b = nullptr;
  t.region.doing = "compares";
  if (!expressions(t, left, right, &a, &b)) return std::nullopt;
  const Expr* expr = symbolic::compare(t.region.numbers.space(), static_cast<symbolic::Comparison>(op), a, b);
  if (expr == nullptr) return std::nullopt;
  // Of what only the graph knows there is no truth yet, only one that can be asserted.
  if (t.region.unbacked.names(expr) && t.region.numbers.space().prove(expr) == symbolic::Proof::Unknown) {
    static constexpr const char* kFunctions[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    auto value = py::take(PyObject_RichCompare(value_at_hand(left), value_at_hand(right), op));
    PyObject* function = function_of_operator(kFunctions[op]);
    auto operands = py::take(PyTuple_Pack(2, left, right));
    return Result::of(t.region.numbers.computed(function, std::move(operands), std::move(value), expr));
  }
  return Result::boolean(t.region.numbers.decide(expr));
}

std::optional<Result> number_truth(Interpreter& t, PyObject* value) {
  if (!is_open(value)) return std::nullopt;
  t.region.doing = "tests the truth";
  const Expr* expr = symbolic::truth(t.region.numbers.space(), t.region.numbers.expr_of(value));
  if (expr == nullptr) return std::nullopt;
  return Result::boolean(t.region.numbers.decide(expr));
}

std::optional<Result> number_unary(Interpreter& t, PyObject* value, int opcode) {
  if (!is_open(value)) return std::nullopt;
  t.region.doing = "computes";
  switch (static_cast<bytecode::Opcode>(opcode)) {
    case bytecode::Opcode::UNARY_POSITIVE:
      return Result::of(py::Owned<>::share(value));  // of an exact int or float the number itself
    case bytecode::Opcode::UNARY_NEGATIVE: {
      auto& numbers = t.region.numbers;
      const std::size_t mark = numbers.space().mark();
      const Expr* expr = symbolic::unary(numbers.space(), symbolic::Unary::Neg, numbers.expr_of(value), numbers.here());
      auto result = py::Owned<>::steal(PyNumber_Negative(value_at_hand(value)));
      return made(t, mark, function_of_operator("neg"), {&value, 1}, std::move(result), expr);
    }
    // As -1 - n, which torch's symbols have, too.
    case bytecode::Opcode::UNARY_INVERT: {
      if (!PyLong_CheckExact(value_at_hand(value))) return std::nullopt;
      static PyObject* const minus_one = PyLong_FromLong(-1);
      return number_binary(t, minus_one, value, static_cast<int>(bytecode::Operator::NB_SUBTRACT));
    }
    default:
      return std::nullopt;
  }
}

namespace {

// What a function of one number does.
struct Function {
  std::optional<symbolic::MathFunction> math;
  symbolic::Unary unary{};
};

const std::unordered_map<PyObject*, Function>& functions() {
  static const std::unordered_map<PyObject*, Function> table = [] {
    std::unordered_map<PyObject*, Function> made;
    const auto add = [&](const char* module, const char* name, Function function) {
      made.emplace(py::import_attr(module, name).release(), function);
    };
#define MATH(name) add("math", #name, {.math = symbolic::MathFunction::name});
#include "symbolic/functions.def"
    using symbolic::Unary;
    add("builtins", "abs", {.unary = Unary::Abs});
    add("builtins", "int", {.unary = Unary::ToInt});
    add("builtins", "float", {.unary = Unary::ToFloat});
    add("math", "trunc", {.unary = Unary::ToInt});
    add("math", "floor", {.unary = Unary::Floor});
    add("math", "ceil", {.unary = Unary::Ceil});
    add("builtins", "round", {.unary = Unary::Round});
    return made;
  }();
  return table;
}

}  // namespace

namespace {

std::optional<Result> call_unary(Interpreter& t, PyObject* callable, const Function& function, PyObject* argument) {
  PyObject* value = value_at_hand(argument);
  auto result = py::Owned<>::steal(PyObject_CallOneArg(callable, value));
  if (!result) PyErr_Clear();
  if (!result) return std::nullopt;
  if (result.get() == value && reinterpret_cast<PyObject*>(Py_TYPE(value)) == callable)
    return Result::of(py::Owned<>::share(argument));  // int() of an int
  auto& numbers = t.region.numbers;
  const Expr* number = numbers.expr_of(argument);
  const std::size_t mark = numbers.space().mark();
  const Expr* expr = function.math ? symbolic::math(numbers.space(), *function.math, number, numbers.here())
                                   : symbolic::unary(numbers.space(), function.unary, number, numbers.here());
  return made(t, mark, callable, {&argument, 1}, std::move(result), expr);
}

bool is_endless(PyObject* operand) {  // an infinity or NaN
  PyObject* value = value_at_hand(operand);
  return PyFloat_CheckExact(value) && !std::isfinite(PyFloat_AS_DOUBLE(value));
}

// min() and max() of numbers of one type: with two types the result's type would depend on the order.
std::optional<Result> call_extremum(Interpreter& t, PyObject* callable, symbolic::Binary operation, Args args) {
  auto& numbers = t.region.numbers;
  // Which of two goes first is the same for all numbers that a region leaves open: they are finite.
  if (args.size() == 2 && is_endless(args[0]) != is_endless(args[1])) {
    const int comparison = operation == symbolic::Binary::Min ? Py_LT : Py_GT;
    const bool second = PyObject_RichCompareBool(value_at_hand(args[1]), value_at_hand(args[0]), comparison) != 0;
    for (PyObject* value : args.values) (void)numbers.expr_of(value);
    PyObject* const endless = numbers.plain(args[is_endless(args[0]) ? 0 : 1]);
    PyObject* const chosen = args[second ? 1 : 0];
    return Result::of(py::Owned<>::share(is_endless(chosen) ? endless : chosen));
  }
  const std::size_t mark = numbers.space().mark();
  const Expr* extremum = nullptr;
  for (PyObject* value : args.values) {
    if (!is_operand(value) || Py_TYPE(value_at_hand(value)) != Py_TYPE(value_at_hand(args[0])) || PyBool_Check(value))
      return std::nullopt;
    const Expr* next = numbers.expr_of(value);
    if (next != nullptr && extremum != nullptr)
      next = symbolic::binary(numbers.space(), operation, extremum, next, numbers.here());
    if (next == nullptr) return std::nullopt;
    extremum = next;
  }
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) values.push_back(value_at_hand(value));
  auto result = py::Owned<>::steal(PyObject_Vectorcall(callable, values.data(), values.size(), nullptr));
  return made(t, mark, callable, args.values, std::move(result), extremum);
}

std::optional<Result> call_divmod(Interpreter& t, Args args) {
  auto quotient = number_binary(t, args[0], args[1], static_cast<int>(bytecode::Operator::NB_FLOOR_DIVIDE));
  if (!quotient) return std::nullopt;
  auto rest = number_binary(t, args[0], args[1], static_cast<int>(bytecode::Operator::NB_REMAINDER));
  if (!rest) return std::nullopt;
  return Result::of(py::take(PyTuple_Pack(2, quotient->value.get(), rest->value.get())));
}

}  // namespace

std::optional<Result> number_call(Interpreter& t, PyObject* callable, Args args) {
  static PyObject* const min = py::import_attr("builtins", "min").release();
  static PyObject* const max = py::import_attr("builtins", "max").release();
  static PyObject* const round = py::import_attr("builtins", "round").release();
  static PyObject* const pow = py::import_attr("builtins", "pow").release();
  static PyObject* const divmod = py::import_attr("builtins", "divmod").release();
  static PyObject* const index = py::import_attr("operator", "index").release();
  static PyObject* const to_bool = py::import_attr("builtins", "bool").release();
  if (args.keyword_count() != 0 || std::ranges::none_of(args.values, is_open)) return std::nullopt;
  t.region.doing = "computes";
  if (args.size() == 1) {
    PyObject* value = value_at_hand(args[0]);
    if ((callable == round || callable == index) ? PyLong_CheckExact(value)
                                                 : callable == to_bool && PyBool_Check(value))
      return Result::of(py::Owned<>::share(args[0]));
    const auto found = functions().find(callable);
    return found == functions().end() ? std::nullopt : call_unary(t, callable, found->second, args[0]);
  }
  if (callable == min) return call_extremum(t, callable, symbolic::Binary::Min, args);
  if (callable == max) return call_extremum(t, callable, symbolic::Binary::Max, args);
  if (args.size() != 2) return std::nullopt;
  if (callable == pow) return number_binary(t, args[0], args[1], static_cast<int>(bytecode::Operator::NB_POWER));
  return callable == divmod ? call_divmod(t, args) : std::nullopt;
}

namespace {

bool is_size(PyObject* object) { return Py_IS_TYPE(object, region::torch_size_type()); }

// What torch.Size gives for the values at hand.
py::Owned<> at_hand(PyObject* object) {
  if (!region::holds_open(object)) return py::Owned<>::share(object);
  auto values = py::take(PyTuple_New(PyTuple_GET_SIZE(object)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    PyTuple_SET_ITEM(values.get(), i, Py_NewRef(value_at_hand(PyTuple_GET_ITEM(object, i))));
  return py::take(PyObject_CallOneArg(reinterpret_cast<PyObject*>(region::torch_size_type()), values.get()));
}

py::Owned<> as_tuple(PyObject* object) {
  return is_size(object) ? py::take(PySequence_Tuple(object)) : py::Owned<>::share(object);
}

// What torch.Size gives, with these items.
py::Owned<> with_items(const py::Owned<>& given, py::Owned<> items) {
  if (!PyTuple_Check(given.get()) || PyTuple_CheckExact(given.get())) return items;
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  auto made = py::take(Py_TYPE(given.get())->tp_alloc(Py_TYPE(given.get()), count));
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(made.get(), i, Py_NewRef(PyTuple_GET_ITEM(items.get(), i)));
  return made;
}

}  // namespace

bool is_open_size(PyObject* object) { return is_size(object) && region::holds_open(object); }

std::optional<Result> sizes_binary(Interpreter& t, PyObject* left, PyObject* right, int op) {
  if (!is_size(left) && !is_size(right)) return std::nullopt;
  if (!region::holds_open(left) && !region::holds_open(right)) return std::nullopt;
  const bool whole =
      (PyTuple_Check(left) || PyLong_CheckExact(left)) && (PyTuple_Check(right) || PyLong_CheckExact(right));
  if (!whole) return std::nullopt;
  const py::BinaryOperator& o = py::binary_operator(op % py::kInPlace);
  auto given = py::Owned<>::steal(o.call(at_hand(left).get(), at_hand(right).get()));
  if (!given) return t.raise_pending(py::PythonError());
  auto items = py::take(o.call(as_tuple(left).get(), as_tuple(right).get()));
  return Result::of(with_items(given, std::move(items)));
}

std::optional<Result> sizes_slice(Interpreter& t, PyObject* sizes, PyObject* slice) {
  if (!is_open_size(sizes)) return std::nullopt;
  auto given = py::Owned<>::steal(PyObject_GetItem(at_hand(sizes).get(), slice));
  if (!given) return t.raise_pending(py::PythonError());
  return Result::of(with_items(given, py::take(PyObject_GetItem(as_tuple(sizes).get(), slice))));
}

std::optional<Result> sizes_made(Interpreter& t, PyObject* items) {
  if (!region::holds_open(items)) return std::nullopt;
  const auto tuple = py::take(PySequence_Tuple(items));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {  // a float among them is refused in torch's words
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    if (is_number(item) && !region::is_open_int(item)) return std::nullopt;
  }
  auto given = py::Owned<>::steal(py::enter([&] { return at_hand(tuple.get()); }));
  if (!given) return t.raise_pending(py::PythonError());
  return Result::of(with_items(given, tuple.copy()));
}

std::optional<Result> product_of_items(Interpreter& t, PyObject* items) {
  if (!region::holds_open(items)) return std::nullopt;
  py::Owned<> product = py::take(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    if (!is_operand(item)) return std::nullopt;
    Result next = binary(t, product.get(), item, static_cast<int>(bytecode::Operator::NB_MULTIPLY));
    if (!next.is_value()) return next;
    product = std::move(next.value);
  }
  return Result::of(std::move(product));
}

py::Owned<> plain_key(Interpreter& t, PyObject* key) {
  if (!PySlice_Check(key)) return py::Owned<>::share(t.region.numbers.plain(key));
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  if (!is_number(slice->start) && !is_number(slice->stop) && !is_number(slice->step)) return py::Owned<>::share(key);
  const auto plain = [&](PyObject* part) { return t.region.numbers.plain(part); };
  return py::take(PySlice_New(plain(slice->start), plain(slice->stop), plain(slice->step)));
}

bool has_number(Args args) noexcept {
  for (PyObject* value : args.values) {
    if (is_number(value)) return true;
  }
  return false;
}

Args plain_arguments(Interpreter& t, Args args, std::vector<PyObject*>& room) {
  t.region.doing = "passes a number to C code";
  room.clear();
  for (PyObject* value : args.values) room.push_back(t.region.numbers.plain(value));
  return Args{room, args.kwnames};
}

namespace {

// BaseException.__init__, which keeps its arguments.
bool initialises_exception(PyObject* descriptor) {
  static PyObject* const init = py::interned("__init__").release();
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  return Py_IS_TYPE(descriptor, &PyWrapperDescr_Type) && PyDescr_NAME(descriptor) == init &&
         PyDescr_TYPE(descriptor)->tp_init == base->tp_init;
}

// object.__setattr__, and what a class over object has of it.
bool sets_attribute(PyObject* descriptor) {
  return Py_IS_TYPE(descriptor, &PyWrapperDescr_Type) && PyDescr_NAME(descriptor) == region::names().__setattr__ &&
         PyDescr_TYPE(descriptor) == &PyBaseObject_Type;
}

}  // namespace

// Making one keeps the arguments and does not look at them.
static bool keeps_arguments(PyTypeObject* type) {
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  if (PyType_IsSubtype(type, base) != 0)
    return type->tp_new == base->tp_new &&
           (type->tp_init == base->tp_init || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE));
  const bool is_tuple = PyType_IsSubtype(type, &PyTuple_Type) != 0 && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
  return cat_of(type) == Cat::Instance || is_tuple;
}

bool moves_numbers(PyObject* callable) {
  // The region ends at a call that has no rule: nobody looks at what it gets.
  if (const Handler handler = find(callable)) return handler == refuse || has_row_for_numbers(callable);
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyFunction_Type || type == &PyMethod_Type || is_torch_op(callable)) return true;
  if (PyType_Check(callable)) return keeps_arguments(reinterpret_cast<PyTypeObject*>(callable));
  if (cat_of(type) == Cat::Builtin) {
    const py::BoundNative bound = py::bound_native(callable);
    PyObject* function = bound.descriptor == nullptr ? callable : bound.descriptor;
    const Handler handler = find(function);
    const bool is_unknown = handler == nullptr && Py_IS_TYPE(function, &PyCFunction_Type);
    return has_row_for_numbers(function) || is_torch_op(function) || sets_attribute(function) ||
           initialises_exception(function) || handler == refuse || is_unknown;
  }
  if (region::original_of_compiled(callable).function != nullptr) return true;
  if (is_instance_rule(type)) return has_row_for_numbers(reinterpret_cast<PyObject*>(type));
  PyObject* method = py::type_lookup(type, region::names().__call__);
  return method != nullptr && PyFunction_Check(method) != 0;
}

py::Owned<> elements_if_known(Interpreter& t, PyObject* value) {
  if (cat_of(value) != Cat::Tensor || !aten::is_plain_tensor(value) || is_answered(t, value)) return {};
  return region::known_elements(t.region, t.region.recorder.lift(value).get());
}

bool gives_item(Interpreter& t, PyObject* tensor) {
  return t.region.numbers.takes_items() || elements_if_known(t, tensor);
}

bool is_index(Interpreter& t, PyObject* value) {
  if (cat_of(value) != Cat::Tensor || !aten::is_plain_tensor(value) || is_answered(t, value)) return false;
  const auto sizes = aten::meta_of(value).sizes;
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size != 1; })) return false;
  const auto dtype = py::take(PyObject_GetAttrString(value, "dtype"));
  const auto is_of = [&](const char* kind) {
    return py::take(PyObject_GetAttrString(dtype.get(), kind)).get() == Py_True;
  };
  if (is_of("is_floating_point") || is_of("is_complex")) return false;
  return gives_item(t, value);
}

}  // namespace pellucid::protocols
