// Views: what they show is worked out from the layout of their argument.
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
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
  if (std::ranges::equal(from.sizes, sizes)) return from.strides;
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

// Only between dtypes of one size.
bool view_dtype(SizeCall& call) {
  if (call.tensor(0).itemsize() != call.result(0).itemsize()) return false;
  call.give(0, call.shape(0));
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
    const bool last = d + 1 == sizes.size();
    strides[d] = !fresh ? from.strides[d - missing] : last ? call.constant(1) : call.mul(sizes[d + 1], strides[d + 1]);
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

// From `first` (counted from the end if negative) up to the size.
const Expr* clamped(SizeCall& call, const Expr* at, const Expr* least, const Expr* size) {
  if (call.less(at, call.constant(0))) at = call.add(at, size);
  if (at != least && call.less(at, least)) return least;
  return at != size && call.less(size, at) ? size : at;
}

// Arguments `first` on: dim, start, end, step.
Shape sliced(SizeCall& call, std::size_t first) {
  Shape shape = call.shape(0);
  const std::size_t d = call.dim(first, shape.sizes.size());
  const Expr* size = shape.sizes[d];
  const Expr* step = call.number(first + 3);
  call.require_at_least(step, 1);
  const Expr* start =
      call.is_none(first + 1) ? call.constant(0) : clamped(call, call.number(first + 1), call.constant(0), size);
  const Expr* end = size;
  if (!call.is_none(first + 2)) {
    end = call.number(first + 2);
    constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
    end = end->is_constant(to_the_end) ? size : clamped(call, end, start, size);
  } else if (call.less(end, start)) {
    end = start;
  }
  const Expr* length = call.sub(end, start);
  shape.offset = call.add(shape.offset, call.mul(start, shape.strides[d]));
  shape.sizes[d] = step->is_constant(1) ? length : call.floordiv(call.sub(call.add(length, step), 1), step);
  shape.strides[d] = call.mul(shape.strides[d], step);
  return shape;
}

bool slice(SizeCall& call) {
  call.give(0, sliced(call, 1));
  return true;
}

void drop(Shape& shape, std::size_t d) {
  shape.sizes.erase(shape.sizes.begin() + static_cast<std::ptrdiff_t>(d));
  shape.strides.erase(shape.strides.begin() + static_cast<std::ptrdiff_t>(d));
}

// Arguments `first` on: dim, index.
Shape selected(SizeCall& call, std::size_t first) {
  Shape shape = call.shape(0);
  const std::size_t d = call.dim(first, shape.sizes.size());
  const Expr* index = call.number(first + 1);
  if (call.less(index, call.constant(0))) index = call.add(index, shape.sizes[d]);
  call.require_at_least(index, 0);
  call.require(call.compare(symbolic::Comparison::Lt, index, shape.sizes[d]));
  shape.offset = call.add(shape.offset, call.mul(index, shape.strides[d]));
  drop(shape, d);
  return shape;
}

bool select(SizeCall& call) {
  call.give(0, selected(call, 1));
  return true;
}

// A copy of self in which a view of it is the second argument.
bool with_part(SizeCall& call, const Shape& part) {
  const Exprs source = call.shape(1).sizes;
  const Shape self = call.shape(0);
  if (source.size() != part.sizes.size() || !call.is_contiguous(self)) return false;
  for (std::size_t d = 0; d < source.size(); ++d) call.require_equal(source[d], part.sizes[d]);
  call.give_contiguous(0, self.sizes);
  return true;
}
bool slice_scatter(SizeCall& call) { return with_part(call, sliced(call, 2)); }
bool select_scatter(SizeCall& call) { return with_part(call, selected(call, 2)); }

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

void give_piece(SizeCall& call, std::size_t k, Shape shape, std::size_t d, const Expr* start, const Expr* length) {
  shape.offset = call.add(shape.offset, call.mul(start, shape.strides[d]));
  shape.sizes[d] = length;
  call.give(k, shape);
}

bool split(SizeCall& call) {
  const Expr* piece = call.number(1);
  const Shape shape = call.shape(0);
  const std::size_t d = call.dim(2, shape.sizes.size());
  if (call.is(piece, 0)) return false;
  const auto pieces = static_cast<std::int64_t>(call.results());
  // As many pieces: the last one begins inside, and ends there.
  const Expr* last = call.mul(piece, pieces - 1);
  if (pieces > 1) call.require(call.compare(symbolic::Comparison::Lt, last, shape.sizes[d]));
  call.require(call.compare(symbolic::Comparison::Le, shape.sizes[d], call.mul(piece, pieces)));
  for (std::int64_t k = 0; k < pieces; ++k) {
    const Expr* length = k + 1 < pieces ? piece : call.sub(shape.sizes[d], last);
    give_piece(call, static_cast<std::size_t>(k), shape, d, call.mul(piece, k), length);
  }
  return true;
}

bool split_with_sizes(SizeCall& call) {
  const Shape shape = call.shape(0);
  const std::size_t d = call.dim(2, shape.sizes.size());
  const Expr* start = call.constant(0);
  std::size_t k = 0;
  for (const Expr* length : call.numbers(1)) {
    call.require_at_least(length, 0);
    give_piece(call, k++, shape, d, start, length);
    start = call.add(start, length);
  }
  call.require_equal(start, shape.sizes[d]);
  return true;
}

// As many tensors as the dimension is long: their number is part of the program.
bool unbind(SizeCall& call) {
  const Shape from = call.shape(0);
  const std::size_t d = call.dim(1, from.sizes.size());
  const std::int64_t length = call.plain(from.sizes[d]);
  for (std::int64_t k = 0; k < length; ++k) {
    Shape shape = from;
    shape.offset = call.add(from.offset, call.mul(from.strides[d], k));
    drop(shape, d);
    call.give(static_cast<std::size_t>(k), shape);
  }
  return true;
}

bool as_strided(SizeCall& call) {
  const Exprs sizes = call.numbers(1);
  for (const Expr* size : sizes) call.require_at_least(size, 0);
  call.give(0, {sizes, call.numbers(2), call.is_none(3) ? call.shape(0).offset : call.number(3)});
  return true;
}

bool diagonal(SizeCall& call) {
  Shape shape = call.shape(0);
  const std::int64_t offset = call.arg(1).toInt();
  const std::size_t rank = shape.sizes.size(), first = call.dim(2, rank), second = call.dim(3, rank);
  const Expr *rows = shape.sizes[first], *columns = shape.sizes[second];
  (offset >= 0 ? columns : rows) = call.sub(offset >= 0 ? columns : rows, std::abs(offset));
  const Expr* length = rows == columns || call.less(rows, columns) ? rows : columns;
  if (length->hint.i < 1) return false;
  call.require_at_least(length, 1);
  const Expr* skipped = shape.strides[offset >= 0 ? second : first];
  shape.offset = call.add(shape.offset, call.mul(skipped, std::abs(offset)));
  const Expr* stride = call.add(shape.strides[first], shape.strides[second]);
  drop(shape, std::max(first, second));
  drop(shape, std::min(first, second));
  shape.sizes.push_back(length);
  shape.strides.push_back(stride);
  call.give(0, shape);
  return true;
}

bool diag_embed(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const std::size_t rank = sizes.size() + 1;
  const std::size_t first = call.dim(2, rank), second = call.dim(3, rank);
  const Expr* length = call.add(sizes.back(), std::abs(call.arg(1).toInt()));
  sizes.pop_back();
  for (const std::size_t d : {std::min(first, second), std::max(first, second)})
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(d), length);
  call.give_contiguous(0, sizes);
  return true;
}

bool unfold(SizeCall& call) {
  Shape shape = call.shape(0);
  if (shape.sizes.empty()) return false;
  const std::size_t d = call.dim(1, shape.sizes.size());
  const Expr *length = call.number(2), *step = call.number(3);
  call.require(call.compare(symbolic::Comparison::Ge, shape.sizes[d], length));
  shape.sizes.push_back(length);
  shape.strides.push_back(shape.strides[d]);
  shape.sizes[d] = call.add(call.floordiv(call.sub(shape.sizes[d], length), step), 1);
  shape.strides[d] = call.mul(shape.strides[d], step);
  call.give(0, shape);
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
    {"slice.Tensor", slice},
    {"select.int", select},
    {"slice_scatter", slice_scatter},
    {"select_scatter", select_scatter},
    {"permute", permute},
    {"transpose.int", transpose},
    {"t", t},
    {"unsqueeze", unsqueeze},
    {"squeeze", squeeze},
    {"squeeze.dim", squeeze_dims},
    {"squeeze.dims", squeeze_dims},
    {"split.Tensor", split},
    {"split_with_sizes", split_with_sizes},
    {"unsafe_split.Tensor", split},
    {"unsafe_split_with_sizes", split_with_sizes},
    {"unbind.int", unbind},
    {"as_strided", as_strided},
    {"diagonal", diagonal},
    {"diag_embed", diag_embed},
    {"unfold", unfold},
    {"view_as_real", view_as_real},
    {"view_as_complex", view_as_complex},
};

}  // namespace

SizeTable view_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
