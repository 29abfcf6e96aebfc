// Fourier transforms and decompositions of matrices.
#include <algorithm>
#include <numeric>
#include <vector>

#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

using Dims = c10::SmallVector<std::size_t, 5>;

// From the longest to the shortest stride. False: two are equal, and which comes first is not known.
template <class Iterator>
bool sort_by_stride(SizeCall& call, const Exprs& strides, Iterator begin, Iterator end) {
  std::sort(begin, end, [&](std::size_t a, std::size_t b) { return strides[a]->hint.i > strides[b]->hint.i; });
  for (auto at = begin; at != end && at + 1 != end; ++at) {
    const Expr *longer = strides[*at], *shorter = strides[*(at + 1)];
    if (longer->hint.i == shorter->hint.i) return false;
    call.require(call.compare(symbolic::Comparison::Gt, longer, shorter));
  }
  return true;
}

// As the CPU transforms: a copy with the other dimensions first, by their strides, whose layout the result gets.
bool give_transformed(SizeCall& call, const Shape& self, const Exprs& sizes, const Dims& dims) {
  Dims order;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) order.push_back(d);
  }
  if (!sort_by_stride(call, self.strides, order.begin(), order.end())) return false;
  order.append(dims.begin(), dims.end());
  Exprs strides(sizes.size(), nullptr);
  const Expr* extent = call.constant(1);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = extent;
    extent = call.mul(extent, sizes[*d]);
  }
  call.give(0, {sizes, strides, call.constant(0)});
  return true;
}

Dims dims_of(SizeCall& call) {
  Dims dims;
  for (const Expr* dim : call.numbers(1)) dims.push_back(static_cast<std::size_t>(call.plain(dim)));
  return dims;
}

bool fft_r2c(SizeCall& call) {
  const Shape self = call.shape(0);
  Dims dims = dims_of(call);
  if (dims.empty()) return false;
  Exprs sizes = self.sizes;
  const std::size_t last = dims.back();
  if (call.flag(3)) sizes[last] = call.add(call.floordiv(sizes[last], 2), call.constant(1));
  if (!sort_by_stride(call, self.strides, dims.begin(), dims.end() - 1)) return false;
  return give_transformed(call, self, sizes, dims);
}

bool fft_c2c(SizeCall& call) {
  const Shape self = call.shape(0);
  Dims dims = dims_of(call);
  if (dims.empty() || !sort_by_stride(call, self.strides, dims.begin(), dims.end())) return false;
  return give_transformed(call, self, self.sizes, dims);
}

bool fft_c2r(SizeCall& call) {
  const Shape self = call.shape(0);
  const Dims dims = dims_of(call);
  if (dims.size() != 1) return false;
  Exprs sizes = self.sizes;
  sizes[dims[0]] = call.number(3);
  call.require_at_least(sizes[dims[0]], 1);
  return give_transformed(call, self, sizes, dims);
}

// The matrices of argument 0.
struct Matrices {
  Exprs all, batch;
  const Expr *rows, *columns;
};
Matrices matrices(SizeCall& call) {
  const Exprs all = call.shape(0).sizes;
  return {all, {all.begin(), all.end() - 2}, all[all.size() - 2], all[all.size() - 1]};
}
Matrices square(SizeCall& call) {
  Matrices found = matrices(call);
  call.require_equal(found.rows, found.columns);
  return found;
}
Exprs with(Exprs batch, std::initializer_list<const Expr*> more) {
  batch.append(more.begin(), more.end());
  return batch;
}

// The matrix and, of each, whether it worked.
bool inverse(SizeCall& call) {
  const Matrices found = square(call);
  call.give(0, found.all);
  call.give(1, found.batch);
  return true;
}

// One or two numbers of each, LU, pivots.
template <std::size_t numbers>
bool determinant(SizeCall& call) {
  const Matrices found = square(call);
  for (std::size_t k = 0; k < numbers; ++k) call.give(k, found.batch);
  call.give(numbers, found.all);
  call.give(numbers + 1, with(found.batch, {found.rows}));
  return true;
}

bool lu_factor(SizeCall& call) {
  const Matrices found = matrices(call);
  call.give(0, found.all);
  call.give(1, with(found.batch, {call.min(found.rows, found.columns)}));
  call.give(2, found.batch);
  return true;
}

bool eigenvalues_of_hermitian(SizeCall& call) {
  const Matrices found = square(call);
  call.give(0, with(found.batch, {found.rows}));
  if (!call.flag(2)) return false;
  call.give(1, found.all);
  return true;
}

bool singular_values(SizeCall& call) {
  const Matrices found = matrices(call);
  const Expr* least = call.min(found.rows, found.columns);
  const bool full = call.flag(1);
  if (!call.flag(2)) {  // the values alone, between two empty tensors
    for (const std::size_t k : {0, 2}) call.give(k, call.shape_of_tensor(call.result(k)));
    call.give(1, with(found.batch, {least}));
    return true;
  }
  call.give(0, with(found.batch, {found.rows, full ? found.rows : least}));
  call.give(1, with(found.batch, {least}));
  call.give(2, with(found.batch, {full ? found.columns : least, found.columns}));
  return true;
}

bool qr(SizeCall& call) {
  const Matrices found = matrices(call);
  const std::string mode(call.arg(1).toStringView());
  if (mode == "r") return false;
  const Expr* inner = mode == "complete" ? found.rows : call.min(found.rows, found.columns);
  call.give(0, with(found.batch, {found.rows, inner}));
  call.give(1, with(found.batch, {inner, found.columns}));
  return true;
}

// A, B, left: as many matrices of either. What they solve, LU, pivots, whether it worked.
bool solved(SizeCall& call) {
  const Matrices found = square(call);
  const Exprs wanted = call.shape(1).sizes;
  const bool of_vectors = wanted.size() + 1 == found.all.size();  // one for each matrix
  if (wanted.size() != found.all.size() && !of_vectors) return false;
  for (std::size_t d = 0; d < found.batch.size(); ++d) call.require_equal(wanted[d], found.batch[d]);
  call.require_equal(wanted[wanted.size() - (call.flag(2) && !of_vectors ? 2 : 1)], found.rows);
  call.give(0, wanted);
  call.give(1, found.all);
  call.give(2, with(found.batch, {found.rows}));
  call.give(3, found.batch);
  return true;
}

constexpr SizeRow kRows[] = {
    {"_linalg_solve_ex", solved},
    {"_fft_r2c", fft_r2c},
    {"_fft_c2c", fft_c2c},
    {"_fft_c2r", fft_c2r},
    {"linalg_inv_ex", inverse},
    {"linalg_cholesky_ex", inverse},
    {"_linalg_det", determinant<1>},
    {"_linalg_slogdet", determinant<2>},
    {"linalg_lu_factor_ex", lu_factor},
    {"_linalg_eigh", eigenvalues_of_hermitian},
    {"_linalg_svd", singular_values},
    {"linalg_qr", qr},
};

}  // namespace

SizeTable linalg_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
