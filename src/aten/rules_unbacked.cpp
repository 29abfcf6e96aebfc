// Operators whose results depend on the values of tensors: numbers, and tensors of a size that nobody knows before the
// call. Each gives new symbols, for which the capture has hints that no data stands behind.
#include <ATen/Functions.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "aten/call.h"
#include "aten/elements.h"
#include "aten/internal.h"
#include "aten/size_node.h"
#include "py/gil.h"
#include "symbolic/operations.h"

namespace pellucid::aten {
namespace {

using symbolic::Value;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// What one call gives that depends on values.
class Given {
 public:
  explicit Given(Call& call) : call_(call), scope_(scope_of_thread()) {}
  ~Given() {
    if (!of_) return;
    const py::Gil gil;  // torch has released it
    of_ = {};
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

  // The tensor with data that this one stands for, where the capture goes by its elements.
  std::optional<at::Tensor> elements(GraphGives what, const at::Tensor& fake) {
    if (!takes_symbols()) return std::nullopt;
    const py::Gil gil;
    of_ = py::take(new_object_of(fake));
    const auto known = scope_->decider->elements_of(what, of_.get());
    return known ? std::optional(tensor_in(known.get())) : std::nullopt;
  }
  // How many there are, as `count` finds in the elements of a tensor; where nobody knows these, a symbol as of size().
  template <class Count>
  const Expr* size_of(const at::Tensor& fake, Count&& count, std::int64_t least, std::int64_t most) {
    if (const auto known = elements(GraphGives::Size, fake)) {
      const WithData outside;
      constexpr std::int64_t kLeastInCompilers = 2;
      const std::int64_t found = count(*known);
      if (found >= kLeastInCompilers || !scope_->is_traced_again) {
        scope_->has_known_sizes = true;
        return constant(found);
      }
    }
    return size(least, most);
  }

  // Null: the capture takes no such operators.
  const Expr* number(Value hint, std::int64_t least, std::int64_t most) {
    return symbol(GraphGives::Number, hint, least, most);
  }
  // Sizes get one hint where they can, so that those that have to be equal are, and one with many divisors, so that
  // they can be reshaped. It is less than `most` where it can be: some elements, but not all.
  const Expr* size(std::int64_t least, std::int64_t most) {
    if (!takes_symbols()) return nullptr;
    if (least == most) return constant(least);
    constexpr std::int64_t kHints[] = {5040, 2520, 1260, 720, 360, 180, 120, 60, 36, 24, 12, 6, 4, 3, 2};
    const auto* hint = std::ranges::find_if(kHints, [&](std::int64_t one) { return one < most; });
    const std::int64_t one = 1;  // what is only so of one element is asserted as all else is
    if (hint == std::end(kHints)) hint = &one;
    return symbol(GraphGives::Size, Value::of(std::max(*hint, least)), least, most);
  }
  // Of an argument that is an int or a torch.SymInt; null: it is neither.
  const Expr* argument(std::size_t i) const {
    const c10::IValue& value = call_.arg(i);
    if (value.isInt()) return constant(value.toInt());
    return value.isSymInt() ? expr_of(*scope_, value.toSymInt()) : nullptr;
  }
  bool takes_symbols() const { return scope_ && scope_->decider != nullptr && !QuietScope::is_active(); }
  const Expr* constant(std::int64_t number) const { return scope_->space.constant(Value::of(number)); }
  Shape shape(const at::Tensor& tensor) const { return shape_of(*scope_, tensor); }

  // No more elements than the product of these sizes can be.
  std::int64_t most(const Exprs& sizes) const {
    symbolic::Wide product = 1;
    for (const Expr* size : sizes) {
      product *= std::max<symbolic::Wide>(scope_->space.range(size).most, 0);
      if (product > kMost) return kMost;
    }
    return static_cast<std::int64_t>(product);
  }

  at::Tensor fresh(const Shape& shape, c10::ScalarType dtype) const {
    c10::SmallVector<std::int64_t, 5> sizes, strides;
    for (const Expr* size : shape.sizes) sizes.push_back(size->hint.i);
    for (const Expr* stride : shape.strides) strides.push_back(stride->hint.i);
    return with_shape(call_.fresh(sizes, strides, dtype), scope_, shape);
  }
  // One dimension.
  at::Tensor vector(const Expr* size, c10::ScalarType dtype) const {
    return fresh({{size}, {constant(1)}, constant(0)}, dtype);
  }
  at::Tensor contiguous(const Exprs& sizes, c10::ScalarType dtype) const {
    SizeLayouts layouts(scope_, call_.op.name);
    return fresh({sizes, layouts.contiguous_strides(sizes), constant(0)}, dtype);
  }
  const std::shared_ptr<SizeScope>& scope() const noexcept { return scope_; }

  // What item() gives of the tensor whose elements were asked for last.
  void note_known_item(const at::Scalar& element) const {
    const py::Gil gil;  // torch asks without it
    PyObject* number = element.isBoolean()         ? PyBool_FromLong(element.toBool())
                       : element.isIntegral(false) ? PyLong_FromLongLong(element.toLong())
                                                   : PyFloat_FromDouble(element.toDouble());
    scope_->known_items.emplace_back(of_.copy(), py::take(number));
  }

 private:
  const Expr* symbol(GraphGives what, Value hint, std::int64_t least, std::int64_t most) {
    if (!takes_symbols()) return nullptr;
    return scope_->decider->given_by_graph(what, hint, least, most, of_.get());
  }

  Call& call_;
  py::Owned<> of_;  // whose elements were asked for last
  std::shared_ptr<SizeScope> scope_;
};

// The values that an integer dtype has; nothing for other dtypes, and where 64 bits are too few.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Bool:
      return {{0, 1}};
    case c10::ScalarType::Byte:
      return {{0, 255}};
    case c10::ScalarType::Char:
      return {{-128, 127}};
    case c10::ScalarType::Short:
      return {{std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max()}};
    case c10::ScalarType::Int:
      return {{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}};
    case c10::ScalarType::Long:
      return {{kLeast, kMost}};
    default:
      return std::nullopt;
  }
}

bool item(Call& call) {
  Given given(call);
  const c10::ScalarType dtype = call.tensor(0).scalar_type();
  const auto range = range_of(dtype);
  if (!range && !c10::isFloatingType(dtype)) return false;
  if (const auto known = given.elements(GraphGives::Number, call.tensor(0))) {
    call.note_facts();
    const WithData outside;
    const at::Scalar element = known->item();
    given.note_known_item(element);
    call.give(element);
    return true;
  }
  constexpr std::int64_t kSmall = 3;  // a size or an index, if it is one
  const Value hint = range ? Value::of(std::min(kSmall, range->second)) : Value::real(1.5);
  const Expr* number = given.number(hint, range ? range->first : kLeast, range ? range->second : kMost);
  if (number == nullptr) return false;
  call.note_facts();
  if (range && dtype != c10::ScalarType::Bool) {
    call.give(at::Scalar(symint_of(given.scope(), number)));
  } else if (range) {
    given.scope()->item = symbolic::truth(given.scope()->space, number);
    call.give(at::Scalar(number->hint.i != 0));
  } else {
    given.scope()->item = number;
    call.give(at::Scalar(number->hint.f));
  }
  return true;
}

// One row for each element that is not zero, column after column in memory.
bool nonzero(Call& call) {
  Given given(call);
  const Shape self = given.shape(call.tensor(0));
  if (self.sizes.empty()) return false;
  const auto count_in = [](const at::Tensor& known) { return at::nonzero(known).size(0); };
  const Expr* count = given.size_of(call.tensor(0), count_in, 0, given.most(self.sizes));
  if (count == nullptr) return false;
  call.note_facts();
  const auto rank = static_cast<std::int64_t>(self.sizes.size());
  call.give(given.fresh({{count, given.constant(rank)}, {given.constant(1), count}, given.constant(0)}, at::kLong));
  return true;
}

bool masked_select(Call& call) {
  Given given(call);
  const at::Tensor self = call.tensor(0), mask = call.tensor(1);
  if (mask.scalar_type() != at::kBool) return false;
  const std::vector<at::Tensor> both = at::broadcast_tensors({self, mask});
  const Exprs sizes = given.shape(both[0]).sizes;
  const auto count_in = [&](const at::Tensor& known) {
    c10::SmallVector<std::int64_t, 5> all;
    for (const Expr* one : sizes) all.push_back(one->hint.i);
    return at::nonzero(known.expand(all)).size(0);
  };
  const Expr* count = given.size_of(mask, count_in, 0, given.most(sizes));
  if (count == nullptr) return false;
  call.note_facts();
  call.give(given.vector(count, self.scalar_type()));
  return true;
}

// At least one value is unique where there is an element.
template <bool consecutive>
const Expr* uniques(Given& given, const at::Tensor& self, const Exprs& sizes) {
  const bool any =
      std::ranges::all_of(sizes, [&](const Expr* size) { return given.scope()->space.range(size).least >= 1; });
  const auto count_in = [](const at::Tensor& known) {
    return std::get<0>(consecutive ? at::unique_consecutive(known) : at::_unique2(known)).size(0);
  };
  return given.size_of(self, count_in, any ? 1 : 0, given.most(sizes));
}

// The same of the slices along a dimension. torch compares them in a copy in which that one is the first.
bool unique_rows(Call& call, Given& given, std::int64_t dim) {
  const at::Tensor self = call.tensor(0);
  Exprs sizes = given.shape(self).sizes;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  if (!given.takes_symbols() || dim < -rank || dim >= rank) return false;
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  auto& space = given.scope()->space;
  if (std::ranges::any_of(sizes, [&](const Expr* size) { return space.range(size).least < 1; })) return false;
  const Expr* const all = sizes[at];
  const Expr* const count = given.size(1, space.range(all).most);
  if (count == nullptr) return false;
  call.note_facts();
  Exprs moved = sizes;
  moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(at));
  moved.insert(moved.begin(), count);
  SizeLayouts layouts(given.scope(), call.op.name);
  Exprs strides = layouts.contiguous_strides(moved);
  const Expr* const stride = strides.front();
  strides.erase(strides.begin());
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(at), stride);
  sizes[at] = count;
  call.give(given.fresh({sizes, strides, given.constant(0)}, self.scalar_type()), given.vector(all, at::kLong),
            given.vector(count, at::kLong));
  return true;
}

bool unique_dim(Call& call) {
  Given given(call);
  return unique_rows(call, given, call.arg(1).toInt());
}

// (values, where each element went, how often each was there), the latter two without elements when nobody asks.
template <std::size_t inverse, std::size_t counts>
bool unique_values(Call& call) {
  Given given(call);
  const at::Tensor self = call.tensor(0);
  const Shape shape = given.shape(self);
  if (counts == 2 && !call.arg(3).isNone()) return unique_rows(call, given, call.arg(3).toInt());
  constexpr bool is_consecutive = inverse == 1;
  const Expr* count = uniques<is_consecutive>(given, self, shape.sizes);
  if (count == nullptr) return false;
  call.note_facts();
  const bool with_inverse = call.arg(inverse).toBool(), with_counts = call.arg(counts).toBool();
  const at::Tensor where =
      with_inverse ? given.contiguous(shape.sizes, at::kLong) : call.fresh(c10::IntArrayRef{0}, at::kLong);
  const at::Tensor how_often =
      with_counts ? given.vector(count, at::kLong) : call.fresh(c10::IntArrayRef{0}, at::kLong);
  call.give(given.vector(count, self.scalar_type()), where, how_often);
  return true;
}

// How often each number is there, from 0 to the greatest one.
bool bincount(Call& call) {
  Given given(call);
  const bool weighs = call.arg(1).isTensor() && call.arg(1).toTensor().defined();
  const Expr* minimum = given.takes_symbols() ? given.argument(2) : nullptr;
  if (call.tensor(0).dim() != 1 || minimum == nullptr) return false;
  const std::int64_t least = given.scope()->space.range(minimum).least;
  if (minimum->is_constant() && least < 0) return false;
  const auto count_in = [&](const at::Tensor& known) {
    const std::int64_t most = known.numel() == 0 ? -1 : known.max().item().toLong();
    return std::max(most + 1, minimum->hint.i);
  };
  const Expr* count = minimum->is_constant()
                          ? given.size_of(call.tensor(0), count_in, std::max<std::int64_t>(least, 0), kMost)
                          : given.size(std::max<std::int64_t>(least, 0), kMost);
  if (count == nullptr) return false;
  const bool is_float = weighs && call.tensor(1).scalar_type() == at::kFloat;
  call.note_facts();
  call.give(given.vector(count, !weighs ? at::kLong : is_float ? at::kFloat : at::kDouble));
  return true;
}

// Each element as often as its repeats say.
bool repeats(Call& call) {
  Given given(call);
  const at::Tensor repeats = call.tensor(0);
  if (repeats.dim() != 1 || (repeats.scalar_type() != at::kLong && repeats.scalar_type() != at::kInt)) return false;
  if (!given.takes_symbols()) return false;
  // A number that the program gives is checked when the operator runs.
  const auto count_in = [](const at::Tensor& known) { return known.sum().item().toLong(); };
  const Expr* count = call.arg(1).isNone() ? given.size_of(repeats, count_in, 0, kMost) : given.argument(1);
  if (count == nullptr) return false;
  call.note_facts();
  call.give(given.vector(count, repeats.scalar_type()));
  return true;
}

// A mask among the indices becomes the indices of its elements.
bool masks(Call& call) {
  const auto is_mask = [](const c10::IValue& index) {
    return index.isTensor() && index.toTensor().defined() && is_fake(index.toTensor().unsafeGetTensorImpl()) &&
           (index.toTensor().scalar_type() == at::kBool || index.toTensor().scalar_type() == at::kByte);
  };
  const auto list = call.arg(1).toListRef();
  if (std::ranges::none_of(list, is_mask) || QuietScope::is_active()) return false;
  Given given(call);
  const at::Tensor self = call.tensor(0);
  const Exprs sizes = given.shape(self).sizes;
  SizeLayouts layouts(given.scope(), call.op.name);
  c10::List<std::optional<at::Tensor>> indices;
  std::size_t dim = 0;
  for (const c10::IValue& index : list) {
    if (!is_mask(index)) {
      indices.push_back(index.isTensor() ? std::optional(index.toTensor()) : std::nullopt);
      ++dim;
      continue;
    }
    const at::Tensor mask = index.toTensor();
    const Exprs of_mask = given.shape(mask).sizes;
    if (of_mask.empty() || dim + of_mask.size() > sizes.size()) return false;
    for (const Expr* size : of_mask) layouts.require_equal(sizes[dim++], size);
    for (at::Tensor& column : at::nonzero(mask).unbind(1)) indices.push_back(std::move(column));
  }
  call.replace_arg(1, std::move(indices));
  call.find_scope();
  return false;  // and goes on with these
}

constexpr RowOf<Rule> kRows[] = {
    {"_local_scalar_dense", item},
    {"nonzero", nonzero},
    {"masked_select", masked_select},
    {"_unique2", unique_values<2, 3>},
    {"unique_consecutive", unique_values<1, 2>},
    {"unique_dim", unique_dim},
    {"unique_dim_consecutive", unique_dim},
    {"repeat_interleave.Tensor", repeats},
    {"bincount", bincount},
    {"index.Tensor", masks},
};

}  // namespace

Rule find_unbacked_rule(const std::string& name) { return find_in(kRows, name); }

}  // namespace pellucid::aten
