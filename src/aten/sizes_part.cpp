// Views of some elements: slices, pieces, diagonals, windows.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

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

constexpr SizeRow kRows[] = {
    {"slice.Tensor", slice},          {"select.int", select},
    {"slice_scatter", slice_scatter}, {"select_scatter", select_scatter},
    {"split.Tensor", split},          {"split_with_sizes", split_with_sizes},
    {"unsafe_split.Tensor", split},   {"unsafe_split_with_sizes", split_with_sizes},
    {"unbind.int", unbind},           {"diagonal", diagonal},
    {"diag_embed", diag_embed},       {"unfold", unfold},
};

}  // namespace

SizeTable part_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
