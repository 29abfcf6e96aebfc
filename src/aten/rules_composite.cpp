// Composite operators whose kernels in torch work with plain ints; these work with whatever the sizes are.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymFloat.h>
#include <c10/core/WrapDimMinimal.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

constexpr std::int64_t kMostSorted = 1 << 24;  // elements of which quantile() finds one

// As torch: size * factor as a double, without its fraction.
c10::SymInt scaled(const c10::SymInt& size, double factor) {
  if (factor == std::trunc(factor) && std::fabs(factor) < 1e6) return size * static_cast<std::int64_t>(factor);
  if (const auto plain = size.maybe_as_int()) return static_cast<std::int64_t>(static_cast<double>(*plain) * factor);
  const c10::SymFloat product = c10::SymFloat(size) * factor;
  return c10::SymInt(product.toSymNodeImpl()->floor());  // of a positive number
}

std::optional<c10::IValue> output_size(const at::Tensor& input, const c10::IValue& wanted,
                                       const std::vector<double>& factors) {
  const auto rank = static_cast<std::size_t>(input.dim() - 2);
  if (!wanted.isNone()) {
    if (!factors.empty() || wanted.toListRef().size() != rank) return std::nullopt;
    return wanted;
  }
  if (factors.size() != rank) return std::nullopt;
  std::vector<c10::SymInt> sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (!(factors[i] > 0)) return std::nullopt;
    sizes.push_back(scaled(input.sym_size(static_cast<std::int64_t>(i) + 2), factors[i]));
  }
  return c10::IValue(c10::SymIntArrayRef(sizes));
}

// input, output_size, [align_corners,] scale_factors -> input, output_size, [align_corners,] a factor for each
// dimension
bool upsample(Call& call) {
  const at::Tensor input = call.tensor(0);
  const c10::IValue& last = call.arg(call.size() - 1);
  const std::vector<double> factors = last.isNone() ? std::vector<double>{} : last.toDoubleVector();
  const auto size = input.dim() < 3 ? std::nullopt : output_size(input, call.arg(1), factors);
  if (!size) return false;  // the composite kernel has the message
  torch::jit::Stack arguments{input, *size};
  if (call.size() == 4) arguments.push_back(call.arg(2));
  for (std::int64_t i = 0; i + 2 < input.dim(); ++i) {
    arguments.push_back(factors.empty() ? c10::IValue() : c10::IValue(factors[static_cast<std::size_t>(i)]));
  }
  const std::string name = "aten::" + call.op.name.substr(0, call.op.name.find('.'));
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(arguments);
  call.give(arguments.back());
  return true;
}

// self, chunks, dim: for the gates of recurrent cells.
bool unsafe_chunk(Call& call) {
  const at::Tensor self = call.tensor(0);
  const std::int64_t chunks = call.arg(1).toInt();
  if (self.dim() == 0 || chunks <= 0) return false;
  const std::int64_t dim = c10::maybe_wrap_dim(call.arg(2).toInt(), self.dim());
  const c10::SymInt piece = (self.sym_size(dim) + (chunks - 1)) / chunks;
  if (piece == 0) return false;
  static const auto split = c10::Dispatcher::singleton().findSchemaOrThrow("aten::unsafe_split", "Tensor");
  torch::jit::Stack arguments{self, piece, dim};
  split.callBoxed(arguments);
  call.give(arguments.back());
  return true;
}

// A, check_errors: the second result, which says of each matrix whether it worked, is not asked for.
bool inverse(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (self.dim() < 2) return false;
  call.give(std::get<0>(at::linalg_inv_ex(self, false)));
  Call::note_may_raise();
  return true;
}

// A, B, left[, check_errors]
template <bool with_info>
bool solve(Call& call) {
  const at::Tensor matrices = call.tensor(0), wanted = call.tensor(1);
  if (matrices.dim() < 2) return false;
  const auto [result, lu, pivots, info] = at::_linalg_solve_ex(matrices, wanted, call.arg(2).toBool(), false);
  if (with_info) {
    call.give(result, info);
  } else {
    call.give(result);
  }
  Call::note_may_raise();
  return true;
}

// self, correction, fweights, aweights: rows are variables, columns observations.
bool covariance(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (self.dim() > 2 || self.scalar_type() == at::kBool || call.has_tensor(2) || call.has_tensor(3)) return false;
  const at::Tensor all = self.dim() < 2 ? self.view({1, -1}) : self;
  const c10::SymInt observations = all.sym_size(1);
  if (observations - call.arg(1).toInt() < 1) return false;  // the kernel warns
  const at::Tensor count = at::ones({}, all.options().dtype(at::kLong));
  const at::Tensor centred = all - (all.sum(1) / count).unsqueeze(1);
  call.give(at::true_divide(at::mm(centred, centred.t().conj()), count).squeeze());
  return true;
}

// self, fill_value, wrap: of a matrix that is no longer than wide, so that there is nothing to wrap.
bool fill_diagonal(Call& call) {
  const at::Tensor self = call.tensor(0);
  if (self.dim() != 2 || (call.arg(2).toBool() && self.sym_size(0) > self.sym_size(1) + 1)) return false;
  const c10::SymInt length = self.sym_size(0) < self.sym_size(1) ? self.sym_size(0) : self.sym_size(1);
  const at::Tensor diagonal = self.as_strided_symint({length}, {self.sym_stride(0) + self.sym_stride(1)});
  diagonal.fill_(call.arg(1).toScalar());
  call.give(self);
  return true;
}

// log_probs, targets, input_lengths, target_lengths, blank, reduction: a number for each sequence, or one. What the
// lengths have to be is checked by the operator, as it depends on values.
bool ctc_loss(Call& call) {
  const at::Tensor log_probs = call.tensor(0);
  if (log_probs.dim() != 3 || !log_probs.is_floating_point() || at::autocast::is_autocast_enabled(call.device.type()))
    return false;
  const at::Tensor each = log_probs.sum({0, 2});
  Call::note_may_raise();
  call.give(call.arg(5).toInt() == 0 ? each : each.sum());
  return true;
}

bool is_interpolation(std::string_view text) {
  return text == "linear" || text == "lower" || text == "higher" || text == "midpoint" || text == "nearest";
}

// self, q, dim, keepdim, interpolation: `q` is one number, or a tensor of one or several, between 0 and 1.
bool quantile(Call& call) {
  at::Tensor self = call.tensor(0);
  const bool is_tensor = call.arg(1).isTensor();
  const auto is_number = [&](const at::Tensor& of) {
    return of.scalar_type() == at::kFloat || of.scalar_type() == at::kDouble;
  };
  // What is no argument for it has a message, and dimensions that are kept have strides of their own.
  if (!is_number(self) || call.arg(3).toBool() || !is_interpolation(call.arg(4).toStringView()) ||
      self.sym_numel() == 0 || self.sym_numel() > kMostSorted)
    return false;
  if (is_tensor) {
    const at::Tensor& q = call.tensor(1);
    if (q.dim() > 1 || q.scalar_type() != self.scalar_type() || q.device() != self.device()) return false;
    Call::note_may_raise();  // where one is not between 0 and 1
  } else if (const double q = call.arg(1).toDouble(); !(q >= 0 && q <= 1)) {
    return false;
  }
  if (self.dim() == 0) self = self.unsqueeze(0);
  const at::Tensor one = call.arg(2).isNone() ? at::amax(self.flatten(), 0) : at::amax(self, call.arg(2).toInt());
  if (!is_tensor || call.tensor(1).dim() == 0) {
    call.give(one);
    return true;
  }
  at::Tensor all = one.unsqueeze(-1) * call.tensor(1);
  all.unsqueeze_(0).transpose_(0, -1).squeeze_(-1);
  call.give(all);
  return true;
}

constexpr RuleRow kRows[] = {
    {"ctc_loss.IntList", ctc_loss},
    {"ctc_loss.Tensor", ctc_loss},
    {"quantile", quantile},
    {"quantile.scalar", quantile},
    {"nanquantile", quantile},
    {"nanquantile.scalar", quantile},
    {"cov", covariance},
    {"fill_diagonal_", fill_diagonal},
    {"linalg_inv", inverse},
    {"linalg_solve", solve<false>},
    {"linalg_solve_ex", solve<true>},
    {"unsafe_chunk", unsafe_chunk},
    {"upsample_nearest1d.vec", upsample},
    {"_upsample_nearest_exact1d.vec", upsample},
    {"upsample_nearest2d.vec", upsample},
    {"_upsample_nearest_exact2d.vec", upsample},
    {"upsample_nearest3d.vec", upsample},
    {"_upsample_nearest_exact3d.vec", upsample},
    {"upsample_linear1d.vec", upsample},
    {"upsample_bilinear2d.vec", upsample},
    {"_upsample_bilinear2d_aa.vec", upsample},
    {"upsample_bicubic2d.vec", upsample},
    {"_upsample_bicubic2d_aa.vec", upsample},
    {"upsample_trilinear3d.vec", upsample},
};

}  // namespace

RuleTable composite_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
