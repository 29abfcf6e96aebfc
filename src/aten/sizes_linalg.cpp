// Fourier transforms and decompositions of matrices.
#include <algorithm>
#include <numeric>
#include <optional>
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
std::optional<Shape> transformed(SizeCall& call, const Shape& self, const Exprs& sizes, const Dims& dims) {
  Dims order;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) order.push_back(d);
  }
  if (!sort_by_stride(call, self.strides, order.begin(), order.end())) return std::nullopt;
  order.append(dims.begin(), dims.end());
  Exprs strides(sizes.size(), nullptr);
  const Expr* extent = call.constant(1);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = extent;
    extent = call.mul(extent, sizes[*d]);
  }
  return Shape{sizes, strides, call.constant(0)};
}

bool give_transformed(SizeCall& call, const Shape& self, const Exprs& sizes, const Dims& dims) {
  const auto shape = transformed(call, self, sizes, dims);
  if (shape) call.give(0, *shape);
  return shape.has_value();
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
  Shape self = call.shape(0);
  Dims others = dims_of(call);
  if (others.empty()) return false;
  const std::size_t last = others.back();
  others.pop_back();
  Exprs sizes = self.sizes;
  sizes[last] = call.number(3);
  call.require_at_least(sizes[last], 1);
  if (!others.empty()) {  // a complex transform comes first, whose layout the real one starts from
    if (!sort_by_stride(call, self.strides, others.begin(), others.end())) return false;
    const auto between = transformed(call, self, self.sizes, others);
    if (!between) return false;
    self = *between;
  }
  return give_transformed(call, self, sizes, {last});
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
  if (call.flag(2)) {
    call.give(1, found.all);
  } else {
    call.give(1, call.shape_of_tensor(call.result(1)));  // an empty tensor
  }
  return true;
}

// And the vectors, where they are asked for.
bool eigenvalues(SizeCall& call) {
  const Matrices found = square(call);
  call.give(0, with(found.batch, {found.rows}));
  if (call.results() > 1) call.give(1, found.all);
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
  const Expr* inner = mode == "complete" ? found.rows : call.min(found.rows, found.columns);
  if (mode == "r") {
    call.give(0, call.shape_of_tensor(call.result(0)));  // an empty tensor
  } else {
    call.give(0, with(found.batch, {found.rows, inner}));
  }
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

// Square matrices (argument `of`) and, as many, those that they are applied to (argument `to`) from the left or the
// right. False: one batch is expanded to the other.
bool require_applied(SizeCall& call, std::size_t of, std::size_t to, bool left = true) {
  const Exprs matrices = call.shape(of).sizes, others = call.shape(to).sizes;
  const std::size_t rank = matrices.size();
  if (others.size() != rank || rank < 2) return false;
  for (std::size_t d = 0; d + 2 < rank; ++d) call.require_equal(others[d], matrices[d]);
  call.require_equal(matrices[rank - 2], matrices[rank - 1]);
  call.require_equal(others[rank - (left ? 2 : 1)], matrices[rank - 1]);
  return true;
}

// self, A, upper: A is a factor.
bool solved_by_factor(SizeCall& call) {
  if (!require_applied(call, 1, 0)) return false;
  call.give(0, call.shape(0).sizes);
  return true;
}

// A, B, upper, left: columns lie together, unless A can be used as it is.
bool solved_triangular(SizeCall& call) {
  if (call.tensor(0).is_conj() || !require_applied(call, 0, 1, call.flag(3))) return false;
  call.give(0, call.shape(1).sizes);
  return true;
}

// B, A: the solution, and a copy of A.
bool solved_triangular_with_copy(SizeCall& call) {
  if (!require_applied(call, 1, 0)) return false;
  call.give(0, call.shape(0).sizes);
  call.give(1, call.shape(1).sizes);
  return true;
}

// LU, pivots, B, left
bool solved_by_lu(SizeCall& call) {
  if (!require_applied(call, 0, 2, call.flag(3))) return false;
  const Exprs pivots = call.shape(1).sizes, sizes = call.shape(0).sizes;
  for (std::size_t d = 0; d < pivots.size(); ++d) call.require_equal(pivots[d], sizes[d]);
  call.give(0, call.shape(2).sizes);
  return true;
}

// A, pivot: P, L, U
bool lu(SizeCall& call) {
  if (!call.flag(1)) return false;
  const Matrices found = matrices(call);
  const Expr* least = call.min(found.rows, found.columns);
  call.give(0, with(found.batch, {found.rows, found.rows}));
  call.give(1, with(found.batch, {found.rows, least}));
  call.give(2, with(found.batch, {least, found.columns}));
  return true;
}

// LD, pivots, and whether it worked.
bool ldl_factor(SizeCall& call) {
  const Matrices found = square(call);
  call.give(0, found.all);
  call.give(1, with(found.batch, {found.rows}));
  call.give(2, found.batch);
  return true;
}

bool matrix_exp(SizeCall& call) {
  const Matrices found = square(call);
  call.require_at_least(found.rows, 2);  // a single number takes another way
  call.give_contiguous(0, found.all);
  return true;
}

// Reflections of argument 0, as many as there are numbers in argument 1. False: not as many batches.
bool require_reflections(SizeCall& call) {
  const Matrices found = matrices(call);
  const Exprs numbers = call.shape(1).sizes;
  if (numbers.size() + 1 != found.all.size()) return false;
  for (std::size_t d = 0; d < found.batch.size(); ++d) call.require_equal(numbers[d], found.batch[d]);
  call.require(call.compare(symbolic::Comparison::Le, numbers.back(), found.columns));
  return true;
}

bool householder_product(SizeCall& call) {
  const Matrices found = matrices(call);
  if (!require_reflections(call)) return false;
  call.require(call.compare(symbolic::Comparison::Ge, found.rows, found.columns));
  call.give(0, found.all);
  return true;
}

// self, tau, other, left
bool ormqr(SizeCall& call) {
  const Matrices found = matrices(call);
  const Exprs other = call.shape(2).sizes;
  if (other.size() != found.all.size() || !require_reflections(call)) return false;
  for (std::size_t d = 0; d < found.batch.size(); ++d) call.require_equal(other[d], found.batch[d]);
  call.require_equal(other[other.size() - (call.flag(3) ? 2 : 1)], found.rows);
  call.require(call.compare(symbolic::Comparison::Le, call.shape(1).sizes.back(), found.rows));
  call.give(0, other);
  return true;
}

bool inverse_of_factor(SizeCall& call) {
  call.give(0, square(call).all);
  return true;
}

constexpr SizeRow kRows[] = {
    {"cholesky_inverse", inverse_of_factor},
    {"_cholesky_solve_helper", solved_by_factor},
    {"cholesky_solve", solved_by_factor},
    {"linalg_solve_triangular", solved_triangular},
    {"triangular_solve", solved_triangular_with_copy},
    {"linalg_lu_solve", solved_by_lu},
    {"linalg_lu", lu},
    {"linalg_ldl_factor_ex", ldl_factor},
    {"linalg_matrix_exp", matrix_exp},
    {"linalg_householder_product", householder_product},
    {"ormqr", ormqr},
    {"_linalg_eigvals", eigenvalues},
    {"linalg_eig", eigenvalues},
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
