// The part of Numbers that is about sizes: which are open, and how the program computes what torch made of them.
#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "aten/aten.h"
#include "region/numbers.h"
#include "region/region.h"
#include "symbolic/integers.h"

namespace pellucid::region {
namespace {

py::Owned<> object_of(const symbolic::Value& value) {
  switch (value.type) {
    case symbolic::Type::Int:
      return py::take(PyLong_FromLongLong(value.i));
    case symbolic::Type::Float:
      return py::take(PyFloat_FromDouble(value.f));
    default:
      return py::Owned<>::share(value.is_true() ? Py_True : Py_False);
  }
}

}  // namespace

bool Numbers::opens_size(std::int64_t size, const Source* source, PathHash path, const SizeMark& mark) {
  using Wish = SizeMark::Wish;
  const SeenNumber* seen = policy.history == nullptr ? nullptr : policy.history->find(path);
  const auto now = static_cast<std::uint64_t>(size);
  // Tensors with no element or one in a dimension are broadcast and laid out in ways of their own.
  const bool may = policy.graph_numbers != GraphNumbers::None && size >= 2 && mark.wish != Wish::Closed;
  const bool asked = policy.all_open && !is_of_an_object(source);
  if (may && mark.wish == Wish::Open) return mark.wants_open(size);
  if (may && (seen != nullptr ? seen->opens_for(now, false, policy.is_last) : asked || mark.wants_open(size)))
    return true;
  if (policy.history != nullptr) region_.capture->numbers.emplace_back(path, SeenNumber{now});
  return false;
}

std::unique_ptr<aten::TensorSpec> Numbers::open_tensor(PyObject* tensor, const Source* source) {
  const bool marked = has_size_marks(tensor);
  aten::OpenLayout layout = aten::layout_of(tensor);
  const auto count = static_cast<std::int64_t>(layout.dims.size());
  const bool changes =
      policy.history != nullptr && source->step != source::Step::Const && (marked || !aten::is_parameter(tensor));
  if (count == 0 || !changes) return aten::TensorSpec::of(tensor);
  auto& table = region_.capture->sources;
  aten::OpenShape shape;
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = 0;
    aten::size_at(tensor, i, &size);
    const Source* at = table.size_of(source, i);
    const PathHash path = hash_of(at);
    const SizeMark mark = marked ? size_mark(tensor, i) : SizeMark{};
    auto& dim = layout.dims[static_cast<std::size_t>(i)];
    dim.open = opens_size(size, at, path, mark);
    dim.least = mark.least, dim.most = mark.most;
    any |= dim.open;
    const auto hint = symbolic::Value::of(size);
    shape.sizes.push_back(dim.open ? new_symbol(hint, at, path, dim.least, dim.most) : space().constant(hint));
    if (dim.open) symbols_.back().must_stay_open = mark.wish == SizeMark::Wish::Open;
  }
  shape.strides.resize(shape.sizes.size(), nullptr);
  for (std::int64_t i = 0; i < count; ++i) any |= open_stride(tensor, source, layout, shape, i);
  if (!any) return aten::TensorSpec::of(tensor);
  shapes_.emplace(tensor, std::move(shape));
  return aten::TensorSpec::of(tensor, &layout);
}

// The stride of a dimension as an expression. Whether it is open: neither what the sizes say nor always the same.
bool Numbers::open_stride(PyObject* tensor, const Source* source, aten::OpenLayout& layout, aten::OpenShape& shape,
                          std::int64_t i) {
  const symbolic::Expr*& made = shape.strides[static_cast<std::size_t>(i)];
  if (made != nullptr) return false;
  auto& dim = layout.dims[static_cast<std::size_t>(i)];
  std::int64_t stride = 0;
  aten::stride_at(tensor, i, &stride);
  made = space().constant(symbolic::Value::of(stride));
  if (dim.inner >= 0) {
    bool open = open_stride(tensor, source, layout, shape, dim.inner);
    const auto inner = static_cast<std::size_t>(dim.inner);
    const symbolic::Expr* dense = symbolic::product_of(space().nodes(), shape.sizes[inner], shape.strides[inner]);
    if (dense == nullptr || dense->is_constant() || dense->hint.i != stride) return open;
    made = dense;
    dim.stride = aten::OpenLayout::Stride::Dense;
    return open;
  }
  if (stride <= 1) return false;
  const Source* at = region_.capture->sources.stride_of(source, i);
  const PathHash path = hash_of(at);
  if (!opens_size(stride, at, path, {})) return false;
  made = new_symbol(symbolic::Value::of(stride), at, path, 2);
  dim.stride = aten::OpenLayout::Stride::Open;
  return true;
}

const aten::OpenShape* Numbers::open_shape(PyObject* tensor) const {
  const auto found = shapes_.find(tensor);
  return found == shapes_.end() ? nullptr : &found->second;
}

// What one operation of Python gives of two numbers.
py::Owned<> Numbers::applied(symbolic::Binary operation, const py::Owned<>& left, const py::Owned<>& right) {
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
  const symbolic::Expr* expr = symbolic::binary(space(), operation, expr_of(left.get()), expr_of(right.get()), here());
  if (expr == nullptr) {
    plain(left.get());
    plain(right.get());
    return value;
  }
  return computed(callable, py::take(PyTuple_Pack(2, left.get(), right.get())), std::move(value), expr);
}

// The operations of Python that give the value of an expression; nothing: it has no words of Python.
py::Owned<> Numbers::said(const symbolic::Expr* expr) {
  using symbolic::Binary;
  using symbolic::Op;
  const auto of_two = [&](Binary operation) {
    return applied(operation, number_of(expr->args[0]), number_of(expr->args[1]));
  };
  switch (expr->op()) {
    case Op::Symbol: {
      if (symbols_[expr->operation.symbol].source == nullptr) region_.unbacked.refuse_if_named(expr);
      auto made = new_number(object_of(expr->hint).get());
      as_number(made.get())->source = symbols_[expr->operation.symbol].source;
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
      for (std::size_t i = 0; i < expr->args.size(); ++i)
        add(expr->operation.coefficients[i], number_of(expr->args[i]));
      const std::int64_t rest = expr->constant().i;
      if (rest != 0)
        sum = applied(rest < 0 ? Binary::Sub : Binary::Add, sum, py::take(PyLong_FromLongLong(std::abs(rest))));
      return sum;
    }
    case Op::Product: {
      py::Owned<> product = number_of(expr->args[0]);
      for (const symbolic::Expr* factor : expr->args.subspan(1))
        product = applied(Binary::Mul, product, number_of(factor));
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

py::Owned<> Numbers::number_of_node(const symbolic::Expr* expr) {
  auto made = new_number(object_of(expr->hint).get());
  as_number(made.get())->expr = expr;
  by_expr_.insert_or_assign(expr, made.copy());
  return made;
}

void Numbers::note_int_of(PyObject* truth, const symbolic::Expr* expr) {
  static PyObject* const to_int = py::import_attr("builtins", "int").release();
  by_expr_.emplace(expr, computed(to_int, py::take(PyTuple_Pack(1, truth)), object_of(expr->hint), expr));
}

PyObject* Numbers::known_number(const symbolic::Expr* expr) const {
  const auto found = by_expr_.find(expr);
  return found == by_expr_.end() ? nullptr : found->second.get();
}

std::string Numbers::name_of(std::uint32_t symbol) const {
  const Source* source = symbols_[symbol].source;
  return source == nullptr ? "u" + std::to_string(symbol) : source::print(source);
}

py::Owned<> Numbers::number_of(const symbolic::Expr* expr) {
  if (PyObject* known = known_number(expr)) return py::Owned<>::share(known);
  if (expr->type == symbolic::Type::Bool) return py::Owned<>::share(decide(expr) ? Py_True : Py_False);
  if (expr->is_constant()) return object_of(expr->constant());
  auto made = said(expr);
  if (!made) {  // it has no words of Python
    (void)fix(expr, "an operation of torch");
    return object_of(expr->hint);
  }
  by_expr_.insert_or_assign(expr, made.copy());
  return made;
}

}  // namespace pellucid::region
