// Normalisation: layouts and statistics as the CPU kernels give them.
#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// Half-precision input with float parameters: the statistics are float.
c10::ScalarType statistics_type(const at::Tensor& input, std::initializer_list<at::Tensor> parameters) {
  if (!at::isReducedFloatingType(input.scalar_type())) return input.scalar_type();
  for (const at::Tensor& parameter : parameters) {
    if (parameter.defined() && parameter.scalar_type() == at::kFloat) return at::kFloat;
  }
  return input.scalar_type();
}

bool native_layer_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const auto normalized = call.arg(1).toDimVector();
  const at::Tensor weight = call.maybe_tensor(2), bias = call.maybe_tensor(3);
  const c10::IntArrayRef sizes = input.sizes();
  if (normalized.empty() || sizes.size() < normalized.size()) return false;  // the reference function has the message
  const std::size_t axis = sizes.size() - normalized.size();
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    if (sizes[axis + i] != normalized[i]) return false;
  }
  for (const at::Tensor& parameter : {weight, bias}) {
    if (parameter.defined() && !parameter.sizes().equals(normalized)) return false;
  }
  const c10::ScalarType type = statistics_type(input, {weight, bias});
  at::DimVector stat(sizes.begin(), sizes.end());
  for (std::size_t i = axis; i < stat.size(); ++i) stat[i] = 1;
  call.give(call.fresh(sizes, input.scalar_type()), call.fresh(stat, type), call.fresh(stat, type));
  return true;
}

bool native_group_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor weight = call.maybe_tensor(1), bias = call.maybe_tensor(2);
  const std::int64_t batch = call.arg(3).toInt(), channels = call.arg(4).toInt(), groups = call.arg(6).toInt();
  if (groups <= 0 || channels % groups != 0 || input.numel() != batch * channels * call.arg(5).toInt()) return false;
  for (const at::Tensor& parameter : {weight, bias}) {
    if (parameter.defined() && (parameter.dim() != 1 || parameter.numel() != channels)) return false;
  }
  const c10::ScalarType type = statistics_type(input, {weight, bias});
  const std::int64_t stat[] = {batch, groups};
  call.give(call.fresh(input.sizes(), input.suggest_memory_format(), input.scalar_type()), call.fresh(stat, type),
            call.fresh(stat, type));
  return true;
}

c10::MemoryFormat contiguous_format(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return c10::MemoryFormat::Contiguous;
  return tensor.is_contiguous(c10::MemoryFormat::ChannelsLast3d) ? c10::MemoryFormat::ChannelsLast3d
                                                                 : c10::MemoryFormat::ChannelsLast;
}

struct BatchNorm {
  at::Tensor weight, bias, mean, variance;
  bool training;
};

bool batch_norm(Call& call, const BatchNorm& norm) {
  const at::Tensor& input = call.tensor(0);
  if (input.dim() < 2 || call.device.type() != c10::kCPU) return false;
  const std::int64_t channels = input.size(1);
  bool contiguous = input.is_contiguous() || input.is_contiguous(c10::MemoryFormat::ChannelsLast) ||
                    input.is_contiguous(c10::MemoryFormat::ChannelsLast3d);
  for (const at::Tensor& parameter : {norm.weight, norm.bias, norm.mean, norm.variance}) {
    if (!parameter.defined()) continue;
    TORCH_CHECK(parameter.numel() == channels, "expected ", channels, " elements in the parameters of batch_norm, got ",
                parameter.numel());
    contiguous &= parameter.is_contiguous();
  }
  TORCH_CHECK(norm.training || (norm.mean.defined() && norm.variance.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  TORCH_CHECK(!norm.training || input.numel() != 0,
              "input tensor must have at least one element, but got input_sizes = ", input.sizes());
  const c10::ScalarType type = statistics_type(input, {norm.weight, norm.bias, norm.mean, norm.variance});
  const std::int64_t stat[] = {norm.training ? channels : 0};
  const auto format = contiguous ? contiguous_format(input) : input.suggest_memory_format();
  call.give(call.fresh(input.sizes(), format, input.scalar_type()), call.fresh(stat, type), call.fresh(stat, type));
  return true;
}

bool native_batch_norm(Call& call) {
  return batch_norm(call, {call.maybe_tensor(1), call.maybe_tensor(2), call.maybe_tensor(3), call.maybe_tensor(4),
                           call.arg(5).toBool()});
}
bool native_batch_norm_no_stats(Call& call) {
  return batch_norm(call, {call.maybe_tensor(1), call.maybe_tensor(2), {}, {}, call.arg(3).toBool()});
}

bool weight_norm_interface(Call& call) {
  const at::Tensor& v = call.tensor(0);
  const at::Tensor& g = call.tensor(1);
  const c10::ScalarType norm_type = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  call.give(call.fresh(v.sizes(), v.scalar_type()), call.fresh(g.sizes(), norm_type));
  return true;
}

constexpr RuleRow kRows[] = {
    {"native_layer_norm", native_layer_norm},
    {"native_group_norm", native_group_norm},
    {"native_batch_norm", native_batch_norm},
    {"_native_batch_norm_legit", native_batch_norm},
    {"_native_batch_norm_legit.no_stats", native_batch_norm_no_stats},
    {"_weight_norm_interface", weight_norm_interface},
};

}  // namespace

RuleTable norm_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
