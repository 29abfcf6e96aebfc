// Reductions without a C++ meta kernel. Their results are contiguous.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// `dims` None or empty: all of them.
at::DimVector reduced_sizes(const at::Tensor& self, const c10::IValue& dims, bool keep) {
  std::bitset<at::dim_bitset_size> reduced;
  const auto list = dims.isNone() ? at::DimVector{} : dims.toDimVector();
  if (list.empty()) {
    reduced.flip();
  } else {
    reduced = at::dim_list_to_bitset(list, self.dim());
  }
  at::DimVector sizes;
  for (std::int64_t i = 0; i < self.dim(); ++i) {
    if (!reduced[static_cast<std::size_t>(i)]) {
      sizes.push_back(self.size(i));
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

c10::ScalarType sum_type(const at::Tensor& self, const c10::IValue& dtype) {
  if (!dtype.isNone()) return dtype.toScalarType();
  return c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

bool deviation(Call& call, bool with_mean) {
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
              "std and var only support floating point and complex dtypes");
  const auto sizes = reduced_sizes(self, call.arg(1), call.arg(3).toBool());
  const at::Tensor spread = call.fresh(sizes, c10::toRealValueType(self.scalar_type()));
  if (with_mean) {
    call.give(spread, call.fresh(sizes, self.scalar_type()));
  } else {
    call.give(spread);
  }
  return true;
}
bool deviation_only(Call& call) { return deviation(call, false); }
bool deviation_and_mean(Call& call) { return deviation(call, true); }

bool prod(Call& call) {
  call.give(call.fresh({}, sum_type(call.tensor(0), call.arg(1))));
  return true;
}

bool nansum(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (at::isComplexType(self.scalar_type())) return false;
  call.give(call.fresh(reduced_sizes(self, call.arg(1), call.arg(2).toBool()), sum_type(self, call.arg(3))));
  return true;
}

bool extreme(Call& call) {  // max, min and median of everything
  const at::Tensor& self = call.tensor(0);
  TORCH_CHECK(self.numel() > 0 || call.op.name.find("median") != std::string::npos, call.op.name,
              "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
              "'dim' argument.");
  call.give(call.fresh({}, self.scalar_type()));
  return true;
}

bool count_nonzero(Call& call) {
  const at::Tensor& self = call.tensor(0);
  call.give(call.fresh(reduced_sizes(self, call.arg(1), false), at::kLong));
  return true;
}

bool dot(Call& call) {
  const at::Tensor& a = call.tensor(0);
  const at::Tensor& b = call.tensor(1);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  call.give(call.fresh({}, a.scalar_type()));
  return true;
}

bool trace(Call& call) {
  TORCH_CHECK(call.tensor(0).dim() == 2, "trace: expected a matrix, but got tensor with dim ", call.tensor(0).dim());
  call.give(call.fresh({}, sum_type(call.tensor(0), c10::IValue())));
  return true;
}

bool as_contiguous(Call& call) {  // cumulative: a new contiguous tensor like self
  call.give(call.fresh(call.tensor(0).sizes(), call.tensor(0).scalar_type()));
  return true;
}

bool histc(Call& call) {
  const std::int64_t bins = call.arg(1).toInt();
  if (!call.tensor(0).is_floating_point() || bins <= 0) return false;
  call.give(call.fresh({bins}, call.tensor(0).scalar_type()));
  return true;
}

constexpr RuleRow kRows[] = {
    {"histc", histc},
    {"_logcumsumexp", as_contiguous},
    {"std.correction", deviation_only},
    {"var.correction", deviation_only},
    {"std_mean.correction", deviation_and_mean},
    {"var_mean.correction", deviation_and_mean},
    {"prod", prod},
    {"nansum", nansum},
    {"max", extreme},
    {"min", extreme},
    {"median", extreme},
    {"nanmedian", extreme},
    {"count_nonzero.dim_IntList", count_nonzero},
    {"dot", dot},
    {"vdot", dot},
    {"trace", trace},
};

}  // namespace

RuleTable reduce_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
