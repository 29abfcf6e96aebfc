#include "region/said_numbers.h"

#include <cstdlib>

#include "region/objects.h"
#include "region/region.h"

namespace pellucid::region {

namespace {

PyObject* function(const char* module, const char* name) { return py::import_attr(module, name).release(); }

// The function of Python that is the operation of a node, but of sums and products, which have several; null: none is.
PyObject* function_of(const symbolic::Operation& operation) {
  using symbolic::Op;
  static const std::unordered_map<Op, PyObject*> functions = {{Op::FloorDiv, function("operator", "floordiv")},
                                                              {Op::FFloorDiv, function("operator", "floordiv")},
                                                              {Op::Mod, function("operator", "mod")},
                                                              {Op::FMod, function("operator", "mod")},
                                                              {Op::Pow, function("operator", "pow")},
                                                              {Op::FPow, function("operator", "pow")},
                                                              {Op::Min, function("builtins", "min")},
                                                              {Op::FMin, function("builtins", "min")},
                                                              {Op::Max, function("builtins", "max")},
                                                              {Op::FMax, function("builtins", "max")},
                                                              {Op::TrueDiv, function("operator", "truediv")},
                                                              {Op::FDiv, function("operator", "truediv")},
                                                              {Op::FAdd, function("operator", "add")},
                                                              {Op::FSub, function("operator", "sub")},
                                                              {Op::FMul, function("operator", "mul")},
                                                              {Op::FNeg, function("operator", "neg")},
                                                              {Op::FAbs, function("builtins", "abs")},
                                                              {Op::ToFloat, function("builtins", "float")},
                                                              {Op::ToInt, function("builtins", "int")},
                                                              {Op::Floor, function("math", "floor")},
                                                              {Op::Ceil, function("math", "ceil")},
                                                              {Op::Round, function("builtins", "round")}};
  if (operation.op == Op::Math) {
    static const std::unordered_map<symbolic::MathFunction, PyObject*> of_math = {
#define MATH(name) {symbolic::MathFunction::name, function("math", #name)},
#include "symbolic/functions.def"
    };
    return of_math.at(operation.function);
  }
  const auto found = functions.find(operation.op);
  return found == functions.end() ? nullptr : found->second;
}

}  // namespace

// What one operation of Python gives of two numbers.
py::Owned<> SaidNumbers::applied(symbolic::Binary operation, const py::Owned<>& left, const py::Owned<>& right) {
  using symbolic::Binary;
  static const std::unordered_map<Binary, PyObject*> functions = {{Binary::Add, function("operator", "add")},
                                                                  {Binary::Sub, function("operator", "sub")},
                                                                  {Binary::Mul, function("operator", "mul")}};
  PyObject* callable = functions.at(operation);
  PyObject* values[] = {value_at_hand(left.get()), value_at_hand(right.get())};
  auto value = py::take(PyObject_Vectorcall(callable, values, 2, nullptr));
  const symbolic::Expr* expr = symbolic::binary(numbers_.space(), operation, numbers_.expr_of(left.get()),
                                                numbers_.expr_of(right.get()), numbers_.here());
  if (expr == nullptr) {
    numbers_.plain(left.get());
    numbers_.plain(right.get());
    return value;
  }
  return numbers_.computed(callable, py::take(PyTuple_Pack(2, left.get(), right.get())), std::move(value), expr);
}

// What a function gives of the arguments of an expression.
py::Owned<> SaidNumbers::called(PyObject* function, const symbolic::Expr* expr) {
  const auto count = static_cast<Py_ssize_t>(expr->args.size());
  auto arguments = py::take(PyTuple_New(count)), values = py::take(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(arguments.get(), i, of(expr->args[static_cast<std::size_t>(i)]).release());
    PyTuple_SET_ITEM(values.get(), i, Py_NewRef(value_at_hand(PyTuple_GET_ITEM(arguments.get(), i))));
  }
  auto value = py::take(PyObject_CallObject(function, values.get()));
  return numbers_.computed(function, std::move(arguments), std::move(value), expr);
}

// The operations of Python that give the value of an expression; nothing: it has no words of Python.
py::Owned<> SaidNumbers::made(const symbolic::Expr* expr) {
  using symbolic::Binary;
  using symbolic::Op;
  switch (expr->op()) {
    case Op::Symbol: {
      const Source* source = numbers_.symbols_[expr->operation.symbol].source;
      if (source == nullptr) numbers_.region_.unbacked.refuse_if_named(expr);
      const auto id = static_cast<std::size_t>(source->id);
      if (id < numbers_.by_source_.size() && numbers_.by_source_[id] != nullptr)
        return py::Owned<>::share(numbers_.by_source_[id]);
      auto made = numbers_.new_number(object_of(expr->hint).get());
      as_number(made.get())->source = source;
      as_number(made.get())->expr = expr;
      return made;
    }
    case Op::Sum: {
      py::Owned<> sum;
      const auto add = [&](std::int64_t coefficient, py::Owned<> term) {
        const std::int64_t factor = sum && coefficient < 0 ? -coefficient : coefficient;
        if (factor != 1) term = applied(Binary::Mul, py::take(PyLong_FromLongLong(factor)), term);
        sum = sum ? applied(coefficient < 0 ? Binary::Sub : Binary::Add, sum, term) : std::move(term);
      };
      for (std::size_t i = 0; i < expr->args.size(); ++i) add(expr->operation.coefficients[i], of(expr->args[i]));
      const std::int64_t rest = expr->constant().i;
      if (rest != 0)
        sum = applied(rest < 0 ? Binary::Sub : Binary::Add, sum, py::take(PyLong_FromLongLong(std::abs(rest))));
      return sum;
    }
    case Op::Product: {
      py::Owned<> product = of(expr->args[0]);
      for (const symbolic::Expr* factor : expr->args.subspan(1)) product = applied(Binary::Mul, product, of(factor));
      return product;
    }
    default: {
      PyObject* function = function_of(expr->operation);
      return function == nullptr ? py::Owned<>() : called(function, expr);
    }
  }
}

py::Owned<> SaidNumbers::of_node(const symbolic::Expr* expr) {
  auto made = numbers_.new_number(object_of(expr->hint).get());
  as_number(made.get())->expr = expr;
  as_number(made.get())->as_symbol = true;
  by_expr_.insert_or_assign(expr, made.copy());
  return made;
}

void SaidNumbers::note_int_of(PyObject* truth, const symbolic::Expr* expr) {
  static PyObject* const to_int = py::import_attr("builtins", "int").release();
  by_expr_.emplace(expr, numbers_.computed(to_int, py::take(PyTuple_Pack(1, truth)), object_of(expr->hint), expr));
}

PyObject* SaidNumbers::known(const symbolic::Expr* expr) const {
  const auto found = by_expr_.find(expr);
  return found == by_expr_.end() ? nullptr : found->second.get();
}

py::Owned<> SaidNumbers::of(const symbolic::Expr* expr) {
  if (PyObject* made_before = known(expr)) return py::Owned<>::share(made_before);
  if (expr->type == symbolic::Type::Bool) return py::Owned<>::share(numbers_.decide(expr) ? Py_True : Py_False);
  if (expr->is_constant()) return object_of(expr->constant());
  auto made = this->made(expr);
  if (!made) {  // it has no words of Python
    (void)numbers_.fix(expr, "an operation of torch");
    return object_of(expr->hint);
  }
  by_expr_.insert_or_assign(expr, made.copy());
  return made;
}

}  // namespace pellucid::region
