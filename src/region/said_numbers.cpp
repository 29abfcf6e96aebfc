#include "region/said_numbers.h"

#include <cstdlib>

#include "region/objects.h"
#include "region/region.h"

namespace pellucid::region {

// What one operation of Python gives of two numbers.
py::Owned<> SaidNumbers::applied(symbolic::Binary operation, const py::Owned<>& left, const py::Owned<>& right) {
  using symbolic::Binary;
  const auto function = [](const char* module, const char* name) { return py::import_attr(module, name).release(); };
  static const std::unordered_map<Binary, PyObject*> functions = {
      {Binary::Add, function("operator", "add")}, {Binary::Sub, function("operator", "sub")},
      {Binary::Mul, function("operator", "mul")}, {Binary::FloorDiv, function("operator", "floordiv")},
      {Binary::Mod, function("operator", "mod")}, {Binary::TrueDiv, function("operator", "truediv")},
      {Binary::Min, function("builtins", "min")}, {Binary::Max, function("builtins", "max")}};
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

// The operations of Python that give the value of an expression; nothing: it has no words of Python.
py::Owned<> SaidNumbers::made(const symbolic::Expr* expr) {
  using symbolic::Binary;
  using symbolic::Op;
  const auto of_two = [&](Binary operation) { return applied(operation, of(expr->args[0]), of(expr->args[1])); };
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
    case Op::FloorDiv:
      return of_two(Binary::FloorDiv);
    case Op::Mod:
      return of_two(Binary::Mod);
    case Op::Min:
      return of_two(Binary::Min);
    case Op::Max:
      return of_two(Binary::Max);
    case Op::TrueDiv:
      return of_two(Binary::TrueDiv);
    default:
      return {};
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
