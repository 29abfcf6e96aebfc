// Products of matrices. Their results are contiguous.
#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// The matrices (or batches of them) of arguments `a` and `a + 1` multiplied.
Exprs multiplied(SizeCall& call, std::size_t a) {
  const Exprs left = call.shape(a).sizes, right = call.shape(a + 1).sizes;
  const std::size_t rank = left.size();
  call.require_equal(left[rank - 1], right[rank - 2]);
  Exprs sizes = left;
  if (rank == 3) call.require_equal(left[0], right[0]);
  sizes[rank - 1] = right[rank - 1];
  return sizes;
}

bool product(SizeCall& call) {
  call.give_contiguous(0, multiplied(call, 0));
  return true;
}

// beta * self + alpha * product
bool added(SizeCall& call, const Exprs& sizes) {
  require_expandable(call, call.shape(0).sizes, sizes);
  call.give_contiguous(0, sizes);
  return true;
}
bool add_product(SizeCall& call) { return added(call, multiplied(call, 1)); }

bool add_sum_of_products(SizeCall& call) {
  const Exprs sizes = multiplied(call, 1);
  return added(call, {sizes[1], sizes[2]});
}

Exprs matrix_vector(SizeCall& call, std::size_t a) {
  const Exprs matrix = call.shape(a).sizes;
  call.require_equal(matrix[1], call.shape(a + 1).sizes[0]);
  return {matrix[0]};
}
bool mv(SizeCall& call) {
  call.give_contiguous(0, matrix_vector(call, 0));
  return true;
}
bool addmv(SizeCall& call) { return added(call, matrix_vector(call, 1)); }

bool addr(SizeCall& call) { return added(call, {call.shape(1).sizes[0], call.shape(2).sizes[0]}); }

bool dot(SizeCall& call) {
  call.require_equal(call.shape(0).sizes[0], call.shape(1).sizes[0]);
  call.give_contiguous(0, {});
  return true;
}

// The distances of the vectors in the last dimension of two batches.
bool cdist(SizeCall& call) {
  const Exprs a = call.shape(0).sizes, b = call.shape(1).sizes;
  call.require_equal(a.back(), b.back());
  Exprs sizes = a;
  for (std::size_t d = 0; d + 2 < a.size(); ++d) {
    if (a.size() != b.size()) return false;
    sizes[d] = broadcast(call, a[d], b[d]);
  }
  sizes.back() = b[b.size() - 2];
  call.give_contiguous(0, sizes);
  return true;
}

// The distances of all pairs of rows.
bool pdist(SizeCall& call) {
  const Expr* rows = call.shape(0).sizes[0];
  call.require_at_least(rows, 2);
  call.give_contiguous(0, {call.floordiv(call.mul(rows, call.sub(rows, 1)), 2)});
  return true;
}

constexpr SizeRow kRows[] = {
    {"mm", product},
    {"bmm", product},
    {"addmm", add_product},
    {"_addmm_activation", add_product},
    {"baddbmm", add_product},
    {"addbmm", add_sum_of_products},
    {"mv", mv},
    {"addmv", addmv},
    {"addr", addr},
    {"dot", dot},
    {"vdot", dot},
    {"_cdist_forward", cdist},
    {"_pdist_forward", pdist},
};

}  // namespace

SizeTable matmul_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
