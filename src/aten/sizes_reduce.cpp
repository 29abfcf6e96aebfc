// Reductions. Their results are contiguous.
#include <vector>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

constexpr int kNone = -1;  // no such argument

// Which dimensions the argument names: all of them where it is missing, None or empty.
std::vector<bool> named_dims(const SizeCall& call, int argument, std::size_t rank) {
  std::vector<bool> named(rank, true);
  if (argument == kNone || call.is_none(static_cast<std::size_t>(argument))) return named;
  const c10::IValue& value = call.arg(static_cast<std::size_t>(argument));
  const std::vector<std::int64_t> dims = value.isInt() ? std::vector{value.toInt()} : value.toIntVector();
  if (dims.empty()) return named;
  named.assign(rank, false);
  for (const std::int64_t d : dims) {
    if (rank != 0) named[static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(rank) : d)] = true;
  }
  return named;
}

// `dims` and `keep`: positions of the arguments. `choose`: the result is one of the elements, so there has to be one.
template <int dims, int keep, bool choose = false>
bool reduce(SizeCall& call) {
  const Exprs from = call.shape(0).sizes;
  const std::vector<bool> reduced = named_dims(call, dims, from.size());
  const bool keeps = keep != kNone && call.flag(static_cast<std::size_t>(keep));
  Exprs sizes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (!reduced[d]) {
      sizes.push_back(from[d]);
    } else {
      if (choose && from[d]->hint.i >= 1) call.require_at_least(from[d], 1);
      if (keeps) sizes.push_back(call.constant(1));
    }
  }
  for (std::size_t k = 0; k < call.results(); ++k) call.give_contiguous(k, sizes);
  return true;
}

// aminmax without a dimension keeps none, whatever keepdim says.
bool aminmax(SizeCall& call) {
  if (!call.is_none(1)) return reduce<1, 2, true>(call);
  return !call.flag(2) && reduce<kNone, kNone, true>(call);
}

bool argument_of_extreme(SizeCall& call) {
  if (!call.is_none(1)) return reduce<1, 2, true>(call);
  return reduce<kNone, 2, true>(call);
}

// The k-th of a dimension.
bool kthvalue(SizeCall& call) {
  const Exprs sizes = call.shape(0).sizes;
  if (sizes.empty()) return false;
  const Expr* k = call.number(1);
  call.require_at_least(k, 1);
  call.require(call.compare(symbolic::Comparison::Le, k, sizes[call.dim(2, sizes.size())]));
  return reduce<2, 3, true>(call);
}

bool topk(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Expr* k = call.number(1);
  call.require_at_least(k, 0);
  if (!sizes.empty()) {
    const std::size_t d = call.dim(2, sizes.size());
    call.require(call.compare(symbolic::Comparison::Le, k, sizes[d]));
    sizes[d] = k;
  }
  for (std::size_t i = 0; i < call.results(); ++i) call.give_contiguous(i, sizes);
  return true;
}

bool multinomial(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Expr* samples = call.number(1);
  call.require_at_least(samples, 1);
  call.require_at_least(sizes.back(), 1);
  if (!call.flag(2)) call.require(call.compare(symbolic::Comparison::Le, samples, sizes.back()));
  sizes.back() = samples;
  call.give_contiguous(0, sizes);
  return true;
}

// One count for each bin, however many elements are counted.
bool histogram(SizeCall& call) {
  const Expr* bins = call.number(1);
  call.require_at_least(bins, 1);
  call.give_contiguous(0, {bins});
  return true;
}

constexpr SizeRow kRows[] = {
    {"sum.dim_IntList", reduce<1, 2>},
    {"nansum", reduce<1, 2>},
    {"mean.dim", reduce<1, 2>},
    {"prod", reduce<kNone, kNone>},
    {"prod.dim_int", reduce<1, 2>},
    {"amax", reduce<1, 2, true>},
    {"amin", reduce<1, 2, true>},
    {"histc", histogram},
    {"argmax", argument_of_extreme},
    {"argmin", argument_of_extreme},
    {"max", reduce<kNone, kNone, true>},
    {"max.dim", reduce<1, 2, true>},
    {"min", reduce<kNone, kNone, true>},
    {"min.dim", reduce<1, 2, true>},
    {"aminmax", aminmax},
    {"median", reduce<kNone, kNone>},
    {"nanmedian", reduce<kNone, kNone>},
    {"median.dim", reduce<1, 2, true>},
    {"nanmedian.dim", reduce<1, 2, true>},
    {"mode", reduce<1, 2, true>},
    {"kthvalue", kthvalue},
    {"topk", topk},
    {"multinomial", multinomial},
    {"all", reduce<kNone, kNone>},
    {"all.dim", reduce<1, 2>},
    {"all.dims", reduce<1, 2>},
    {"any", reduce<kNone, kNone>},
    {"any.dim", reduce<1, 2>},
    {"any.dims", reduce<1, 2>},
    {"_is_all_true", reduce<kNone, kNone>},
    {"_is_any_true", reduce<kNone, kNone>},
    {"var.correction", reduce<1, 3>},
    {"std.correction", reduce<1, 3>},
    {"var_mean.correction", reduce<1, 3>},
    {"std_mean.correction", reduce<1, 3>},
    {"logsumexp", reduce<1, 2>},
    {"linalg_vector_norm", reduce<2, 3, true>},
    {"norm.Scalar", reduce<kNone, kNone>},
    {"norm.ScalarOpt_dtype", reduce<kNone, kNone>},
    {"norm.ScalarOpt_dim", reduce<2, 3, true>},
    {"norm.ScalarOpt_dim_dtype", reduce<2, 3, true>},
    {"count_nonzero", reduce<1, kNone>},
    {"count_nonzero.dim_IntList", reduce<1, kNone>},
    {"trace", reduce<kNone, kNone>},
};

}  // namespace

SizeTable reduce_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
