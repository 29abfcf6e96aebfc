// How the strides of new tensors follow from sizes and from the layouts of arguments, with open sizes.
#pragma once
#include <vector>

#include "aten/sizes_arithmetic.h"

namespace pellucid::aten {

class SizeLayouts : public SizeArithmetic {
 public:
  using SizeArithmetic::SizeArithmetic;

  Shape shape_of_tensor(const at::Tensor& tensor) { return shape_of(*scope(), tensor); }
  // No gaps in the usual order, at all sizes; dimensions of size 1 may have any stride.
  bool is_contiguous(const Shape& shape);
  bool is_contiguous(const Exprs& sizes, const Exprs& strides);
  c10::MemoryFormat format_of(const at::Tensor& tensor);  // as Tensor::suggest_memory_format
  Exprs contiguous_strides(const Exprs& sizes);
  // The order of dimensions, inner first, in which TensorIterator lays out a new result of operands with these strides
  // (0 where one is expanded): by the first operand in which two dimensions differ.
  std::vector<std::size_t> iteration_order(const Exprs& sizes, std::span<const Exprs> strides);
  Exprs strides_in(const std::vector<std::size_t>& order, const Exprs& sizes);
  Exprs strides_like(const Shape& shape);  // of a new tensor that preserves the layout: its own if it has no gaps
};

}  // namespace pellucid::aten
