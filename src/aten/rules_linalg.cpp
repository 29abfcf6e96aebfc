// Fourier transforms and decompositions whose results have strides of their own on the CPU.
#include <numeric>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// The CPU transforms a copy with the batch dimensions first, in stride order, and gives the result that copy's layout.
at::DimVector transformed_strides(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef dims) {
  const std::size_t ndim = static_cast<std::size_t>(self.dim());
  at::DimVector order(ndim), strides(ndim);
  std::vector<bool> is_transformed(ndim);
  std::iota(order.begin(), order.end(), 0);
  for (const std::int64_t d : dims) is_transformed[static_cast<std::size_t>(d)] = true;
  const auto batch_end = std::partition(order.begin(), order.end(),
                                        [&](std::int64_t d) { return !is_transformed[static_cast<std::size_t>(d)]; });
  std::sort(order.begin(), batch_end, [&](std::int64_t a, std::int64_t b) { return self.stride(a) > self.stride(b); });
  std::copy(dims.begin(), dims.end(), batch_end);
  std::int64_t extent = 1;
  for (std::size_t i = ndim; i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    strides[d] = extent;
    extent *= sizes[d];
  }
  return strides;
}

// `exclude_last`: the last dimension stays last, as the halved one of a real transform must.
at::DimVector sorted_dims(const at::Tensor& self, c10::IntArrayRef dims, bool exclude_last) {
  at::DimVector sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end() - (exclude_last ? 1 : 0),
            [&](std::int64_t a, std::int64_t b) { return self.stride(a) > self.stride(b); });
  return sorted;
}

bool fft_r2c(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!self.is_floating_point() || call.device.type() != c10::kCPU) return false;
  const auto dims = call.arg(1).toDimVector();
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  const auto last = static_cast<std::size_t>(dims.back());
  const bool onesided = call.arg(3).toBool();
  if (onesided) sizes[last] = sizes[last] / 2 + 1;
  const auto strides = transformed_strides(self, sizes, sorted_dims(self, dims, /*exclude_last=*/true));
  call.give(call.fresh(sizes, strides, c10::toComplexType(self.scalar_type())));
  return true;
}

bool fft_c2c(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!self.is_complex() || call.device.type() != c10::kCPU) return false;
  const auto dims = call.arg(1).toDimVector();
  const auto strides = dims.empty()
                           ? at::DimVector(self.strides().begin(), self.strides().end())
                           : transformed_strides(self, self.sizes(), sorted_dims(self, dims, /*exclude_last=*/false));
  if (dims.empty()) return false;
  call.give(call.fresh(self.sizes(), strides, self.scalar_type()));
  return true;
}

bool fft_c2r(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!self.is_complex() || call.device.type() != c10::kCPU) return false;
  const auto dims = call.arg(1).toDimVector();
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<std::size_t>(dims.back())] = call.arg(3).toInt();
  const c10::ScalarType type = c10::toRealValueType(self.scalar_type());
  if (dims.size() == 1) {
    call.give(call.fresh(sizes, transformed_strides(self, sizes, dims), type));
    return true;
  }
  // Several dimensions: first a complex transform of all but the last, whose layout the real one starts from.
  const at::IntArrayRef others(dims.data(), dims.size() - 1);
  const at::Tensor between = call.fresh(
      self.sizes(), transformed_strides(self, self.sizes(), sorted_dims(self, others, false)), self.scalar_type());
  call.give(call.fresh(sizes, transformed_strides(between, sizes, at::IntArrayRef(&dims.back(), 1)), type));
  return true;
}

bool linalg_eig(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.dim() < 2 || self.size(-1) != self.size(-2) || !(self.is_floating_point() || self.is_complex()))
    return false;
  const c10::ScalarType type = c10::toComplexType(self.scalar_type());
  at::DimVector strides(static_cast<std::size_t>(self.dim()));
  const std::int64_t n = self.size(-1);
  std::int64_t extent = std::max<std::int64_t>(n, 1) * std::max<std::int64_t>(n, 1);
  for (std::size_t i = strides.size() - 2; i-- > 0;) {
    strides[i] = extent;
    extent *= std::max<std::int64_t>(self.size(static_cast<std::int64_t>(i)), 1);
  }
  strides[strides.size() - 2] = 1;
  strides[strides.size() - 1] = std::max<std::int64_t>(n, 1);
  call.give(call.fresh(self.sizes().slice(0, self.sizes().size() - 1), type), call.fresh(self.sizes(), strides, type));
  return true;
}

constexpr RuleRow kRows[] = {
    {"_fft_r2c", fft_r2c}, {"_fft_c2c", fft_c2c}, {"_fft_c2r", fft_c2r}, {"linalg_eig", linalg_eig}};

}  // namespace

RuleTable linalg_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
