// What makes quantised tensors, and what operators give of them. Torch's meta kernels take none, and what the one of
// quantize_per_tensor gives has the dtype of its argument. Neither the numbers by which a tensor is quantised nor how
// decides what these give, so no fake knows them.
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// ---- what makes them

bool is_quantised_dtype(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::QInt8 || dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::QInt32;
}

// Where this does not know the call there is no other plan: what torch's meta kernel says is not what eager gives.
at::Tensor quantised(const Call& call, const at::Tensor& self, const c10::IValue& dtype, c10::MemoryFormat format) {
  const c10::ScalarType type = dtype.toScalarType();
  const bool is_taken =
      self.device().type() == c10::kCPU && self.scalar_type() == c10::ScalarType::Float && is_quantised_dtype(type);
  TORCH_CHECK_NOT_IMPLEMENTED(is_taken, "pellucid: no fake kernel for aten::", call.op.name, " of a tensor of dtype ",
                              self.scalar_type(), " on ", self.device().type(), " to ", type);
  return new_quantised_fake(call.fresh(self.sizes(), format, self.scalar_type()), static_cast<int>(type));
}
at::Tensor quantised(const Call& call, const at::Tensor& self, const c10::IValue& dtype) {
  return quantised(call, self, dtype, self.suggest_memory_format());
}

// Numbers or tensors of one element, and last the dtype. AOTAutograd takes these, as tensors of the argument's dtype:
// this does no harm as long as no other operator reads them.
bool quantize_per_tensor(Call& call) {
  call.give(quantised(call, call.tensor(0), call.arg(call.size() - 1)));
  return true;
}

// self, scales, zero_points, axis, dtype: where the zero points are floats it is contiguous.
bool quantize_per_channel(Call& call) {
  note_only_as_captured();
  if (!c10::isFloatingType(call.tensor(2).scalar_type())) return quantize_per_tensor(call);
  call.give(quantised(call, call.tensor(0), call.arg(4), c10::MemoryFormat::Contiguous));
  return true;
}

// tensors, scales, zero_points, dtype
bool quantize_tensors(Call& call) {
  note_only_as_captured();
  c10::List<at::Tensor> made;
  for (const at::Tensor& self : call.arg(0).toTensorVector()) made.push_back(quantised(call, self, call.arg(3)));
  call.give(std::move(made));
  return true;
}

// self, dtype, reduce_range: the kernel computes the numbers of what the tensor holds.
bool quantize_dynamically(Call& call) {
  note_only_as_captured();
  call.give(quantised(call, call.tensor(0), call.arg(1)));
  return true;
}

constexpr RuleRow kMaking[] = {
    {"quantize_per_tensor", quantize_per_tensor},          {"quantize_per_tensor.tensor_qparams", quantize_per_tensor},
    {"quantize_per_tensor.tensors", quantize_tensors},     {"quantize_per_channel", quantize_per_channel},
    {"quantize_per_tensor_dynamic", quantize_dynamically},
};

// ---- what is computed of them

bool dequantize(Call& call) {
  const at::Tensor self = call.tensor(0);
  call.give(call.fresh(self.sizes(), self.suggest_memory_format(), c10::ScalarType::Float));
  return true;
}

bool int_repr(Call& call) {
  const at::Tensor self = call.tensor(0);
  const c10::ScalarType dtype = c10::toUnderlying(self.scalar_type());
  if (!is_quantised_dtype(self.scalar_type())) return false;
  call.give(call.fresh(self.sizes(), self.suggest_memory_format(), dtype));
  return true;
}

constexpr RuleRow kRows[] = {
    {"dequantize.self", dequantize},
    {"int_repr", int_repr},
};

}  // namespace

RuleTable quantising_rules() { return as_table(kMaking); }

Rule find_quantised_rule(const std::string& name) { return find_in(kRows, name); }

// What kernels refuse is theirs to say when the graph runs.
void run_quantised(Call& call, c10::DispatchKeySet keys) {
  const Operator& op = call.op;
  note_only_as_captured();
  if (op.quantised_rule == nullptr && op.composite && op.plan() == Plan::Decompose)
    return op.kernel().callBoxed(call.handle, keys, &call.stack);
  const bool is_known = op.quantised_rule != nullptr && call.device.type() == c10::kCPU && op.quantised_rule(call);
  TORCH_CHECK_NOT_IMPLEMENTED(is_known, "pellucid: no fake kernel for aten::", op.name, " of a quantised tensor");
  Call::note_may_raise();
}

}  // namespace pellucid::aten
