// Views of all elements: what they show is worked out from the layout of their argument.
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// Takes the factors that two products have in common out of both, so that what is asked of them is short.
void cancel(SizeCall& call, Exprs& a, Exprs& b) {
  for (const Expr*& factor : a) {
    for (const Expr*& other : b) {
      const bool same = factor == other && call.space().range(factor).least >= 1;
      if (same) factor = other = call.constant(1);
      if (!factor->is_constant() || !other->is_constant() || factor->is_constant(0) || other->is_constant(0)) continue;
      const std::int64_t common = std::gcd(factor->constant().i, other->constant().i);
      factor = call.constant(factor->constant().i / common);
      other = call.constant(other->constant().i / common);
    }
  }
}

// The sizes asked for, with -1 worked out; all of them have as many elements as there are.
Exprs inferred_sizes(SizeCall& call, Exprs sizes, const Exprs& from) {
  const Expr** unknown = nullptr;
  Exprs known;
  for (const Expr*& size : sizes) {
    if (size->hint.i == -1) {
      call.require_equal(size, call.constant(-1));
      unknown = &size;
    } else {
      call.require_at_least(size, 0);
      known.push_back(size);
    }
  }
  Exprs there = from;
  cancel(call, there, known);
  const Expr *numel = call.product(there), *product = call.product(known);
  if (unknown == nullptr) {
    call.require_equal(product, numel);
    return sizes;
  }
  call.require_at_least(product, 1);
  call.require_equal(call.mod(numel, product), call.constant(0));
  *unknown = call.floordiv(numel, product);
  return sizes;
}

std::optional<Exprs> view_strides(SizeCall& call, const Shape& from, const Exprs& sizes) {
  // A dimension of size 1 gets another stride, also where no size changes.
  const auto is_long = [&](const Expr* size) { return call.space().range(size).least >= 2; };
  if (std::ranges::equal(from.sizes, sizes) && std::ranges::all_of(sizes, is_long)) return from.strides;
  // That a view of contiguous memory is contiguous needs no torch: the common case.
  if (std::ranges::equal(call.contiguous_strides(from.sizes), from.strides)) return call.contiguous_strides(sizes);
  const auto symbolic = [&](const Exprs& exprs) {
    std::vector<c10::SymInt> out;
    for (const Expr* expr : exprs) out.push_back(symint_of(call.scope(), expr));
    return out;
  };
  const auto strides = at::detail::computeStride(symbolic(from.sizes), symbolic(from.strides), symbolic(sizes));
  if (!strides) return std::nullopt;
  Exprs out;
  for (const c10::SymInt& stride : *strides) out.push_back(expr_of(*call.scope(), stride));
  return out;
}

bool view(SizeCall& call) {
  const Shape from = call.shape(0);
  const Exprs sizes = inferred_sizes(call, call.numbers(1), from.sizes);
  const auto strides = view_strides(call, from, sizes);
  if (!strides) return false;
  call.give(0, {sizes, *strides, from.offset});
  return true;
}

bool reshape_alias(SizeCall& call) {
  call.give(0, {call.numbers(1), call.numbers(2), call.shape(0).offset});
  return true;
}

// The elements of the last dimension lie side by side, so that they can be cut or joined.
bool view_dtype(SizeCall& call) {
  const auto before = static_cast<std::int64_t>(call.tensor(0).itemsize()),
             after = static_cast<std::int64_t>(call.result(0).itemsize());
  Shape shape = call.shape(0);
  if (before != after) {
    if (shape.sizes.empty()) return false;
    call.require_equal(shape.strides.back(), call.constant(1));
    const auto convert = [&](const Expr*& number) {
      if (before > after) {
        number = call.mul(number, before / after);
        return;
      }
      call.require_equal(call.mod(number, call.constant(after / before)), call.constant(0));
      number = call.floordiv(number, after / before);
    };
    convert(shape.sizes.back());
    std::for_each(shape.strides.begin(), shape.strides.end() - 1, convert);
    convert(shape.offset);
  }
  call.give(0, shape);
  return true;
}

bool alias(SizeCall& call) {
  call.give(0, call.shape(0));
  return true;
}

bool expand(SizeCall& call) {
  const Shape from = call.shape(0);
  Exprs sizes = call.numbers(1);
  Exprs strides(sizes.size(), nullptr);
  const std::size_t missing = sizes.size() - from.sizes.size();
  for (std::size_t d = sizes.size(); d-- > 0;) {
    const bool fresh = d < missing;
    const Expr* size = fresh ? call.constant(1) : from.sizes[d - missing];
    const bool is_last = d + 1 == sizes.size();  // of a tensor of no dimension, which gets strides of 0 alone
    strides[d] = !fresh ? from.strides[d - missing] : call.constant(0);
    if (fresh && !is_last) strides[d] = call.mul(sizes[d + 1], strides[d + 1]);
    if (sizes[d]->hint.i == -1) {
      call.require_equal(sizes[d], call.constant(-1));
      sizes[d] = size;
    } else if (size != sizes[d] && !call.equal(size, sizes[d])) {
      call.require_equal(size, call.constant(1));
      call.require_at_least(sizes[d], 0);
      strides[d] = call.constant(0);
    }
  }
  call.give(0, {sizes, strides, from.offset});
  return true;
}

bool permute(SizeCall& call) {
  const Shape from = call.shape(0);
  Shape shape{{}, {}, from.offset};
  for (const std::int64_t number : call.arg(1).toIntVector()) {
    const auto d =
        static_cast<std::size_t>(number < 0 ? number + static_cast<std::int64_t>(from.sizes.size()) : number);
    shape.sizes.push_back(from.sizes[d]);
    shape.strides.push_back(from.strides[d]);
  }
  call.give(0, shape);
  return true;
}

bool swapped(SizeCall& call, std::size_t a, std::size_t b) {
  Shape shape = call.shape(0);
  if (!shape.sizes.empty()) {
    std::swap(shape.sizes[a], shape.sizes[b]);
    std::swap(shape.strides[a], shape.strides[b]);
  }
  call.give(0, shape);
  return true;
}
bool transpose(SizeCall& call) {
  const std::size_t rank = call.shape(0).sizes.size();
  return swapped(call, call.dim(1, rank), call.dim(2, rank));
}
bool t(SizeCall& call) { return call.shape(0).sizes.size() < 2 ? alias(call) : swapped(call, 0, 1); }

bool unsqueeze(SizeCall& call) {
  Shape shape = call.shape(0);
  const std::size_t rank = shape.sizes.size(), d = call.dim(1, rank + 1);
  const Expr* stride = d < rank ? call.mul(shape.sizes[d], shape.strides[d]) : call.constant(1);
  shape.sizes.insert(shape.sizes.begin() + static_cast<std::ptrdiff_t>(d), call.constant(1));
  shape.strides.insert(shape.strides.begin() + static_cast<std::ptrdiff_t>(d), stride);
  call.give(0, shape);
  return true;
}

// Without dimensions: all of them.
bool squeezed(SizeCall& call, const std::vector<bool>& dims) {
  Shape shape = call.shape(0);
  for (std::size_t d = shape.sizes.size(); d-- > 0;) {
    if (dims[d] && call.is(shape.sizes[d], 1)) drop(shape, d);
  }
  call.give(0, shape);
  return true;
}
bool squeeze(SizeCall& call) { return squeezed(call, std::vector<bool>(call.shape(0).sizes.size(), true)); }
bool squeeze_dims(SizeCall& call) {
  std::vector<bool> dims(call.shape(0).sizes.size());
  const auto add = [&](std::int64_t d) {
    if (!dims.empty()) dims[static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(dims.size()) : d)] = true;
  };
  if (call.arg(1).isInt()) {
    add(call.arg(1).toInt());
  } else {
    for (const std::int64_t d : call.arg(1).toIntVector()) add(d);
  }
  return squeezed(call, dims);
}

bool as_strided(SizeCall& call) {
  const Exprs sizes = call.numbers(1);
  for (const Expr* size : sizes) call.require_at_least(size, 0);
  call.give(0, {sizes, call.numbers(2), call.is_none(3) ? call.shape(0).offset : call.number(3)});
  return true;
}

bool view_as_real(SizeCall& call) {
  Shape shape = call.shape(0);
  for (const Expr*& stride : shape.strides) stride = call.mul(stride, 2);
  shape.offset = call.mul(shape.offset, 2);
  shape.sizes.push_back(call.constant(2));
  shape.strides.push_back(call.constant(1));
  call.give(0, shape);
  return true;
}

bool view_as_complex(SizeCall& call) {
  Shape shape = call.shape(0);
  call.require_equal(shape.sizes.back(), call.constant(2));
  drop(shape, shape.sizes.size() - 1);
  const auto halved = [&](const Expr*& number) {
    call.require_equal(call.mod(number, call.constant(2)), call.constant(0));
    number = call.floordiv(number, 2);
  };
  std::ranges::for_each(shape.strides, halved);
  halved(shape.offset);
  call.give(0, shape);
  return true;
}

constexpr SizeRow kRows[] = {
    {"view", view},
    {"view.dtype", view_dtype},
    {"_unsafe_view", view},
    {"_reshape_alias", reshape_alias},
    {"alias", alias},
    {"detach", alias},
    {"lift_fresh", alias},
    {"lift", alias},
    {"_conj", alias},
    {"_neg_view", alias},
    {"expand", expand},
    {"permute", permute},
    {"transpose.int", transpose},
    {"t", t},
    {"unsqueeze", unsqueeze},
    {"squeeze", squeeze},
    {"squeeze.dim", squeeze_dims},
    {"squeeze.dims", squeeze_dims},
    {"as_strided", as_strided},
    {"view_as_real", view_as_real},
    {"view_as_complex", view_as_complex},
};

}  // namespace

SizeTable view_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
