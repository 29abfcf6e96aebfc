// Copies, whose result is the destination once the shapes fit; factories; and operators that only check or fill.
#include <ATen/ExpandUtils.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

bool copy_(Call& call) {
  const at::Tensor self = call.tensor(0);
  const at::Tensor& source = call.tensor(1);
  const auto shape = at::infer_size(self.sizes(), source.sizes());
  TORCH_CHECK(self.sizes().equals(shape), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              shape);
  call.give(self);
  return true;
}

// An ordinary factory: the native one makes a real tensor on the CPU without asking the dispatcher.
bool scalar_tensor(Call& call) {
  const c10::Device device = call.arg(3).isNone() ? c10::Device(c10::kCPU) : call.arg(3).toDevice();
  const auto type = call.arg(1).isNone() ? c10::get_default_dtype_as_scalartype() : call.arg(1).toScalarType();
  call.device = device;
  call.give(call.fresh({}, type));
  return true;
}

// Checks of values, and operators that write to their arguments alone: left to the run of the graph.
bool nothing(Call& call) {
  torch::jit::drop(call.stack, call.size());
  return true;
}

constexpr RuleRow kRows[] = {
    {"copy_", copy_},
    {"scalar_tensor", scalar_tensor},
    {"_linalg_check_errors", nothing},
    {"_cummax_helper", nothing},
    {"_cummin_helper", nothing},
    {"_fused_sgd_", nothing},
    {"_fused_sgd_.tensor_lr", nothing},
    {"_fused_adagrad_", nothing},
    {"_fused_adagrad_.tensor_lr", nothing},
};

}  // namespace

RuleTable copy_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
