// Elementwise operators.
#include <algorithm>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

struct Operands {
  std::vector<Shape> shapes;
  Exprs sizes;  // of all together
};

Operands operands_of(SizeCall& call) {
  Operands all;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) all.shapes.push_back(call.shape_of_tensor(tensor));
  };
  for (std::size_t i = 0; i < call.size(); ++i) {
    const bool is_result = call.op.args[i].written && call.op.out;
    if (is_result) continue;  // what is in it does not matter
    if (call.has_tensor(i)) add(call.tensor(i));
  }
  for (const Shape& shape : all.shapes) {
    const std::size_t rank = std::max(all.sizes.size(), shape.sizes.size());
    Exprs sizes(rank, call.constant(1));
    std::ranges::copy(all.sizes, sizes.end() - static_cast<std::ptrdiff_t>(all.sizes.size()));
    for (std::size_t d = 0; d < shape.sizes.size(); ++d) {
      const Expr*& size = sizes[rank - shape.sizes.size() + d];
      size = broadcast(call, size, shape.sizes[d]);
    }
    all.sizes = std::move(sizes);
  }
  return all;
}

bool same(const Exprs& a, const Exprs& b) { return std::ranges::equal(a, b); }

// The strides of each operand as broadcast: 0 where it is expanded.
std::vector<Exprs> broadcast_strides(SizeCall& call, const Operands& all) {
  const std::size_t rank = all.sizes.size();
  std::vector<Exprs> strides;
  for (const Shape& shape : all.shapes) {
    Exprs of(rank, call.constant(0));
    const std::size_t missing = rank - shape.sizes.size();
    for (std::size_t d = 0; d < shape.sizes.size(); ++d) {
      const Expr* size = all.sizes[missing + d];
      const bool expanded = shape.sizes[d] != size && call.is(shape.sizes[d], 1) && !call.is(size, 1);
      if (!expanded) of[missing + d] = shape.strides[d];
    }
    strides.push_back(std::move(of));
  }
  return strides;
}

void give_elementwise(SizeCall& call, const Operands& all) {
  for (std::size_t k = 0; k < call.results(); ++k) {
    Shape shape{all.sizes, Exprs(all.sizes.size(), nullptr), call.constant(0)};
    const auto has_all = [&](const Shape& operand) { return same(operand.sizes, all.sizes); };
    const auto first = std::ranges::find_if(all.shapes, has_all);
    const bool one_layout = first != all.shapes.end() && std::ranges::all_of(all.shapes, [&](const Shape& operand) {
                              return !has_all(operand) ? operand.sizes.empty() : same(operand.strides, first->strides);
                            });
    // Of operands of one shape TensorIterator keeps the layout, whatever the strides of dimensions of size 1 are.
    const bool same_shape = std::ranges::all_of(all.shapes, has_all);
    const bool dense = one_layout && std::ranges::equal(first->strides, call.contiguous_strides(all.sizes));
    const auto contiguous = [&](const Shape& operand) { return call.is_contiguous(operand); };
    if (dense || (same_shape && std::ranges::all_of(all.shapes, contiguous))) {
      call.give_contiguous(k, all.sizes);
      continue;
    }
    if (one_layout && same_shape) {
      call.give_like(k, *first);
      continue;
    }
    const std::vector<Exprs> strides = broadcast_strides(call, all);
    shape.strides = call.strides_in(call.iteration_order(all.sizes, strides), all.sizes);
    call.give(k, shape);
  }
}

}  // namespace

bool broadcast_sizes(SizeCall& call) {
  const auto is_list = [](const ArgFact& fact) { return fact.kind == ArgKind::TensorList; };
  if (std::ranges::any_of(call.op.args, is_list)) return false;
  const Operands all = operands_of(call);
  call.require_written(all.sizes);
  give_elementwise(call, all);
  return true;
}

}  // namespace pellucid::aten
