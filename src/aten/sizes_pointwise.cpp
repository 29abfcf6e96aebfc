// Elementwise operators, and those whose results have the shape of an argument.
#include <algorithm>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// The size that two dimensions broadcast to.
const Expr* broadcast(SizeCall& call, const Expr* a, const Expr* b) {
  if (a == b || b->is_constant(1)) return a;
  if (a->is_constant(1)) return b;
  if (call.is(a, 1)) return b;
  if (call.is(b, 1)) return a;
  call.require_equal(a, b);
  return a->is_constant() ? a : b->is_constant() ? b : a;
}

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

// Is it a tensor without gaps in the usual order, at all sizes?
bool is_contiguous(SizeCall& call, const Shape& shape) {
  const Expr* stride = call.constant(1);
  for (std::size_t d = shape.sizes.size(); d-- > 0;) {
    if (shape.sizes[d]->is_constant(1)) continue;
    if (shape.strides[d] != stride && !call.equal(shape.strides[d], stride)) return false;
    stride = call.mul(stride, shape.sizes[d]);
  }
  return true;
}

// The order of dimensions, inner first, in which TensorIterator lays out a new result: by the strides of the first
// operand in which two dimensions differ.
std::vector<std::size_t> iteration_order(SizeCall& call, const Operands& all) {
  const std::size_t rank = all.sizes.size();
  // Strides of each operand as broadcast: 0 where it is expanded.
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
  // 1: `a` belongs outside of `b`; -1: inside; 0: either.
  const auto order_of = [&](std::size_t a, std::size_t b) {
    for (const Exprs& of : strides) {
      const Expr *first = of[a], *second = of[b];
      if (call.is(first, 0) || call.is(second, 0)) continue;
      if (first != second && call.less(first, second)) return -1;
      if (first != second && call.less(second, first)) return 1;
      if (call.less(all.sizes[b], all.sizes[a])) return 1;
    }
    return 0;
  };
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
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

void give_elementwise(SizeCall& call, const Operands& all) {
  for (std::size_t k = 0; k < call.results(); ++k) {
    Shape shape{all.sizes, Exprs(all.sizes.size(), nullptr), call.constant(0)};
    const auto has_all = [&](const Shape& operand) { return same(operand.sizes, all.sizes); };
    const auto first = std::ranges::find_if(all.shapes, has_all);
    const bool one_layout = first != all.shapes.end() && std::ranges::all_of(all.shapes, [&](const Shape& operand) {
                              return !has_all(operand) ? operand.sizes.empty() : same(operand.strides, first->strides);
                            });
    if (one_layout && is_contiguous(call, *first)) {
      call.give(k, all.sizes);
      continue;
    }
    const Expr* stride = call.constant(1);
    for (const std::size_t d : iteration_order(call, all)) {
      shape.strides[d] = stride;
      if (!all.sizes[d]->is_constant()) call.require_at_least(all.sizes[d], 1);
      if (!all.sizes[d]->is_constant(0)) stride = call.mul(stride, all.sizes[d]);
    }
    call.give(k, shape);
  }
}

bool like_first(SizeCall& call) {
  const Shape shape = call.shape(0);
  call.require_written(shape.sizes);
  call.give_all(shape.sizes);
  return true;
}

constexpr SizeRow kRows[] = {
    {"softmax", like_first},      {"_softmax", like_first}, {"log_softmax", like_first}, {"_log_softmax", like_first},
    {"native_dropout", like_first},
};

}  // namespace

bool broadcast_sizes(SizeCall& call) {
  const auto is_list = [](const ArgFact& fact) { return fact.kind == ArgKind::TensorList; };
  if (std::ranges::any_of(call.op.args, is_list)) return false;
  const Operands all = operands_of(call);
  call.require_written(all.sizes);
  give_elementwise(call, all);
  return true;
}

SizeTable pointwise_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
