// Indexing by tensors.
#include <algorithm>
#include <vector>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

bool is_mask(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
}

// self[indices]: the sizes of the result, and where those of the indices stand in them.
struct Indexed {
  Exprs sizes;
  std::vector<Shape> indices;   // without those that are None
  std::vector<std::size_t> at;  // for each dimension of self, where it is in the result; kNowhere: it is indexed
  std::size_t first = 0, rank = 0;
};
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

Indexed indexed(SizeCall& call) {
  Indexed out;
  const Exprs self = call.shape(0).sizes;
  const std::vector<at::Tensor> tensors = call.tensors(1);
  const auto is_indexed = [&](std::size_t d) { return d < tensors.size() && tensors[d].defined(); };
  Exprs sizes;
  std::size_t first = 0, last = 0;
  for (std::size_t d = 0; d < tensors.size(); ++d) {
    if (!is_indexed(d)) continue;
    if (out.indices.empty()) first = d;
    last = d;
    out.indices.push_back(call.shape_of_tensor(tensors[d]));
    const Exprs& more = out.indices.back().sizes;
    sizes.insert(sizes.begin(), std::max(sizes.size(), more.size()) - sizes.size(), call.constant(1));
    for (std::size_t i = 0; i < more.size(); ++i) {
      const Expr*& size = sizes[sizes.size() - more.size() + i];
      size = broadcast(call, size, more[i]);
    }
  }
  out.rank = sizes.size();
  // Where a None stands between two of them, the dimensions of the indices come first.
  const bool adjacent = last - first + 1 == out.indices.size();
  out.first = adjacent ? first : 0;
  if (!adjacent) out.sizes = sizes;
  out.at.assign(self.size(), kNowhere);
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (adjacent && d == first) out.sizes.append(sizes.begin(), sizes.end());
    if (is_indexed(d)) continue;
    out.at[d] = out.sizes.size();
    out.sizes.push_back(self[d]);
  }
  return out;
}

bool has_mask(const std::vector<at::Tensor>& indices) {
  return std::ranges::any_of(indices, [](const at::Tensor& index) { return index.defined() && is_mask(index); });
}

// TensorIterator walks over self, whose indexed dimensions do not move, and over the indices.
bool index(SizeCall& call) {
  if (has_mask(call.tensors(1))) return false;
  const Indexed found = indexed(call);
  if (found.indices.empty()) return false;
  const std::size_t rank = found.sizes.size();
  const Shape self = call.shape(0);
  std::vector<Exprs> strides(1, Exprs(rank, call.constant(0)));
  for (std::size_t d = 0; d < self.sizes.size(); ++d) {
    if (found.at[d] != kNowhere) strides[0][found.at[d]] = self.strides[d];
  }
  for (const Shape& index : found.indices) {
    Exprs of(rank, call.constant(0));
    const std::size_t begin = found.first + found.rank - index.sizes.size();
    for (std::size_t i = 0; i < index.sizes.size(); ++i) {
      const Expr* size = found.sizes[begin + i];
      if (index.sizes[i] == size || !call.is(index.sizes[i], 1)) of[begin + i] = index.strides[i];
    }
    strides.push_back(std::move(of));
  }
  call.give(0,
            {found.sizes, call.strides_in(call.iteration_order(found.sizes, strides), found.sizes), call.constant(0)});
  return true;
}

bool index_put(SizeCall& call) {
  const Shape self = call.shape(0);
  const std::vector<at::Tensor> indices = call.tensors(1);
  if (has_mask(indices)) {
    // How many values a mask takes is checked by the run; the mask is as large as what it chooses from.
    std::size_t d = 0;
    for (const at::Tensor& index : indices) {
      const std::size_t rank = index.defined() && is_mask(index) ? static_cast<std::size_t>(index.dim()) : 0;
      for (std::size_t i = 0; i < rank; ++i, ++d) {
        call.require_equal(call.shape_of_tensor(index).sizes[i], self.sizes[d]);
      }
      d += rank == 0 ? 1 : 0;
    }
    // One value for all of them has a gradient of its own, where a compiler takes for granted that it is not one.
    if (call.scope()->is_traced_again) {
      for (const Expr* size : call.shape(2).sizes) (void)call.is(size, 1);
    }
  } else {
    require_expandable(call, call.shape(2).sizes, indexed(call).sizes);
  }
  if (call.results() != 0) call.give_like(0, self);
  return true;
}

bool index_select(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  if (!sizes.empty()) sizes[call.dim(1, sizes.size())] = call.product(call.shape(2).sizes);
  call.give_contiguous(0, sizes);
  return true;
}

// Wherever an index points to, it has to lie within self in the other dimensions.
void require_within(SizeCall& call, std::size_t inner, std::size_t outer, std::size_t except) {
  const Exprs small = call.shape(inner).sizes, large = call.shape(outer).sizes;
  if (small.size() != large.size()) return;
  for (std::size_t d = 0; d < small.size(); ++d) {
    if (d != except) call.require(call.compare(symbolic::Comparison::Le, small[d], large[d]));
  }
}

bool is_empty_index(SizeCall& call, std::size_t i) {
  const Exprs sizes = call.shape(i).sizes;
  return std::ranges::any_of(sizes, [&](const Expr* size) { return call.is(size, 0); });
}

bool gather(SizeCall& call) {
  const Exprs sizes = call.shape(2).sizes;
  if (is_empty_index(call, 2)) return false;
  if (!sizes.empty()) require_within(call, 2, 0, call.dim(1, sizes.size()));
  call.give_contiguous(0, sizes);
  return true;
}

// self, dim, index, and a tensor or a number.
bool scatter(SizeCall& call) {
  const Shape self = call.shape(0);
  if (is_empty_index(call, 2)) return false;
  if (!self.sizes.empty()) require_within(call, 2, 0, call.dim(1, self.sizes.size()));
  if (call.has_tensor(3)) require_within(call, 2, 3, kNowhere);
  call.require_written(self.sizes);
  if (call.results() != 0) call.give_like(0, self);
  return true;
}

// self, dim, index, source: slices of the source go to the places of self that the index names.
bool index_add(SizeCall& call) {
  const Shape self = call.shape(0);
  const Expr* count = call.product(call.shape(2).sizes);
  const Exprs source = call.shape(3).sizes;
  if (source.size() != self.sizes.size()) return false;
  for (std::size_t d = 0; d < source.size(); ++d) {
    call.require_equal(source[d], d == call.dim(1, source.size()) ? count : self.sizes[d]);
  }
  call.require_written(self.sizes);
  if (call.results() != 0) call.give_like(0, self);
  return true;
}

bool index_fill(SizeCall& call) {
  const Shape self = call.shape(0);
  call.require_written(self.sizes);
  if (call.results() != 0) call.give_like(0, self);
  return true;
}

// self, dim, start, length
bool narrow_copy(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Expr*& size = sizes[call.dim(1, sizes.size())];
  const Expr *start = call.number(2), *length = call.number(3);
  if (call.less(start, call.constant(0))) start = call.add(start, size);
  call.require_at_least(start, 0);
  call.require_at_least(length, 0);
  call.require(call.compare(symbolic::Comparison::Le, call.add(start, length), size));
  size = length;
  call.give_contiguous(0, sizes);
  return true;
}

bool embedding(SizeCall& call) {
  Exprs sizes = call.shape(1).sizes;
  sizes.push_back(call.shape(0).sizes[1]);
  call.give_contiguous(0, sizes);
  return true;
}

bool one_hot(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Expr* classes = call.number(1);
  call.require_at_least(classes, 1);
  sizes.push_back(classes);
  call.give_contiguous(0, sizes);
  return true;
}

// Sorted sequences side by side, as many as there are rows of values.
bool searchsorted(SizeCall& call) {
  const Exprs sequences = call.shape(0).sizes, values = call.shape(1).sizes;
  for (std::size_t d = 0; sequences.size() > 1 && d + 1 < sequences.size(); ++d) {
    call.require_equal(sequences[d], values[d]);
  }
  call.give_contiguous(0, values);
  return true;
}

// grad_in, input_sizes, dim, size, step: windows are added up in a tensor of these sizes.
bool unfold_backward(SizeCall& call) {
  const Exprs windows = call.shape(0).sizes, sizes = call.numbers(1);
  if (sizes.empty() || windows.size() != sizes.size() + 1) return false;
  const std::size_t dim = call.dim(2, sizes.size());
  const Expr *size = call.number(3), *step = call.number(4);
  const Expr* room = call.sub(sizes[dim], size);
  call.require_at_least(room, 0);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    call.require_equal(windows[d], d == dim ? call.add(call.floordiv(room, step), 1) : sizes[d]);
  }
  call.require_equal(windows.back(), size);
  call.give_contiguous(0, sizes);
  return true;
}

// Values of one ragged dimension, [total, width], and padded ones, [parts, longest, width].
bool jagged_to_padded(SizeCall& call) {
  const std::vector<at::Tensor> offsets = call.tensors(1);
  const Exprs values = call.shape(0).sizes, longest = call.numbers(2);
  if (offsets.size() != 1 || longest.size() != 1 || values.size() != 2) return false;
  const Expr* const parts = call.sub(call.shape_of_tensor(offsets[0]).sizes[0], 1);
  call.require_at_least(longest[0], 0);
  call.give_contiguous(0, {parts, longest[0], values[1]});
  return true;
}
bool padded_to_jagged(SizeCall& call) {
  const Exprs padded = call.shape(0).sizes;
  if (call.is_none(2) || padded.size() != 3) return false;
  call.give_contiguous(0, {call.number(2), padded[2]});
  return true;
}

constexpr SizeRow kRows[] = {
    {"_jagged_to_padded_dense_forward", jagged_to_padded},
    {"_padded_dense_to_jagged_forward", padded_to_jagged},
    {"index.Tensor", index},
    {"_unsafe_index.Tensor", index},
    {"index_put", index_put},
    {"_unsafe_index_put", index_put},
    {"_index_put_impl_", index_put},
    {"index_select", index_select},
    {"gather", gather},
    {"scatter", scatter},
    {"scatter_add", scatter},
    {"scatter_reduce", scatter},
    {"index_add", index_add},
    {"index_copy", index_add},
    {"index_reduce", index_add},
    {"index_fill", index_fill},
    {"narrow_copy", narrow_copy},
    {"embedding", embedding},
    {"one_hot", one_hot},
    {"searchsorted.Tensor", searchsorted},
    {"unfold_backward", unfold_backward},
};

}  // namespace

SizeTable index_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
