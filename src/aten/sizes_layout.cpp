// How the strides of new tensors follow from sizes and from the layouts of arguments, with open sizes.
#include <c10/core/MemoryFormat.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "aten/sizes.h"

namespace pellucid::aten {

std::size_t SizeCall::dim(std::size_t i, std::size_t rank) const {
  return static_cast<std::size_t>(c10::maybe_wrap_dim(arg(i).toInt(), static_cast<std::int64_t>(rank)));
}

bool SizeLayouts::is_contiguous(const Shape& shape) { return is_contiguous(shape.sizes, shape.strides); }

bool SizeLayouts::is_contiguous(const Exprs& sizes, const Exprs& strides) {
  const Expr* stride = constant(1);
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d]->is_constant(1)) continue;
    if (strides[d] != stride && !equal(strides[d], stride)) return false;
    stride = mul(stride, sizes[d]);
  }
  return true;
}

c10::MemoryFormat SizeLayouts::format_of(const at::Tensor& tensor) {
  const Shape shape = shape_of_tensor(tensor);
  // What is contiguous never counts as channels_last, so the common case asks nothing of sizes that may be 1.
  return is_contiguous(shape) ? c10::MemoryFormat::Contiguous : tensor.suggest_memory_format();
}

// The stride of a dimension is the product of the sizes inside of it, of which a size of 0 counts as 1: that a size is
// not 0 is required, so that the product says it. The outermost size is not part of any stride.
Exprs SizeLayouts::strides_in(const std::vector<std::size_t>& order, const Exprs& sizes) {
  Exprs strides(sizes.size(), nullptr);
  const Expr* stride = constant(1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Expr* size = sizes[order[i]];
    strides[order[i]] = stride;
    if (i + 1 == order.size() || size->is_constant(0)) continue;
    if (!size->is_constant() && size->hint.i >= 1) require_at_least(size, 1);
    if (!size->is_constant() && size->hint.i == 0) size = constant(plain(size));
    stride = mul(stride, size->is_constant(0) ? constant(1) : size);
  }
  return strides;
}

Exprs SizeLayouts::contiguous_strides(const Exprs& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return strides_in(order, sizes);
}

std::vector<std::size_t> SizeLayouts::iteration_order(const Exprs& sizes, std::span<const Exprs> strides) {
  const std::size_t rank = sizes.size();
  // 1: `a` belongs outside of `b`; -1: inside; 0: either.
  const auto order_of = [&](std::size_t a, std::size_t b) {
    for (const Exprs& of : strides) {
      const Expr *first = of[a], *second = of[b];
      if (is(first, 0) || is(second, 0)) continue;
      if (first != second && less(first, second)) return -1;
      if (first != second && less(second, first)) return 1;
      if (less(sizes[b], sizes[a])) return 1;
    }
    return 0;
  };
  std::vector<std::size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  for (std::size_t i = 1; i < rank; ++i) {  // an insertion sort in which what may stand either way stays
    std::size_t at = i;
    for (std::size_t other = i; other-- > 0;) {
      const int compared = order_of(order[other], order[at]);
      if (compared > 0) {
        std::swap(order[other], order[at]);
        at = other;
      } else if (compared < 0) {
        break;
      }
    }
  }
  return order;
}

Exprs SizeLayouts::strides_like(const Shape& shape) {
  if (is_contiguous(shape)) return shape.strides;
  const Exprs dense = strides_in(iteration_order(shape.sizes, std::span(&shape.strides, 1)), shape.sizes);
  for (std::size_t d = 0; d < dense.size(); ++d) {
    if (shape.sizes[d]->is_constant(1) || dense[d] == shape.strides[d]) continue;
    if (!equal(dense[d], shape.strides[d])) return dense;
  }
  return shape.strides;  // which may be anything where the size is 1
}

void SizeCall::give_contiguous(std::size_t k, const Exprs& sizes) {
  give(k, {sizes, contiguous_strides(sizes), constant(0)});
}

void SizeCall::give_format(std::size_t k, const Exprs& sizes, c10::MemoryFormat format) {
  using Order = std::vector<std::size_t>;
  const bool is_2d = format == c10::MemoryFormat::ChannelsLast && sizes.size() == 4;
  const bool is_3d = format == c10::MemoryFormat::ChannelsLast3d && sizes.size() == 5;
  if (!is_2d && !is_3d) return give_contiguous(k, sizes);
  give(k, {sizes, strides_in(is_2d ? Order{1, 3, 2, 0} : Order{1, 4, 3, 2, 0}, sizes), constant(0)});
}

void drop(Shape& shape, std::size_t d) {
  shape.sizes.erase(shape.sizes.begin() + static_cast<std::ptrdiff_t>(d));
  shape.strides.erase(shape.strides.begin() + static_cast<std::ptrdiff_t>(d));
}

const Expr* broadcast(SizeCall& call, const Expr* a, const Expr* b) {
  if (a == b || b->is_constant(1)) return a;
  if (a->is_constant(1)) return b;
  if (call.is(a, 1)) return b;
  if (call.is(b, 1)) return a;
  call.require_equal(a, b);
  return a->is_constant() ? a : b->is_constant() ? b : a;
}

void require_expandable(SizeCall& call, const Exprs& from, const Exprs& to) {
  for (std::size_t d = 0; d < from.size(); ++d) {
    const Expr* a = from[from.size() - 1 - d];
    const Expr* b = d < to.size() ? to[to.size() - 1 - d] : call.constant(1);
    if (a != b && !call.is(a, 1)) call.require_equal(a, b);
  }
}

}  // namespace pellucid::aten
