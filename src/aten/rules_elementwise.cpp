// Elementwise operators without a C++ meta kernel: torch's own iterator does shapes, strides and overlap checks.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// TensorIterator, stopped before it looks for data; its outputs are fakes.
class FakeIterator final : public at::TensorIteratorBase {
 public:
  explicit FakeIterator(const Call& call) : call_(call) { is_meta_ = true; }

  const at::Tensor& maybe_get_output(std::int64_t) override { return result; }
  void set_output_raw_strided(std::int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              at::TensorOptions options) override {
    auto& operand = operands_[static_cast<std::size_t>(index)];
    if (!operand.tensor_base().defined()) {
      const c10::ScalarType type = c10::typeMetaToScalarType(options.dtype());
      result = strides.empty() ? call_.fresh(sizes, format_of(options), type) : call_.fresh(sizes, strides, type);
      operand.tensor(c10::MaybeOwned<at::TensorBase>::borrowed(result));
    } else if (operand.will_resize) {
      result = operand.tensor();
      result.resize_(sizes, format_of(options));
      if (!strides.empty()) result.as_strided_(sizes, strides);
    }
    operand.current_dtype = operand.target_dtype;
  }

  at::Tensor result;

 private:
  // Where all inputs are in channels_last there is that instead of strides.
  static c10::MemoryFormat format_of(const at::TensorOptions& options) {
    return options.memory_format_opt().value_or(c10::MemoryFormat::Contiguous);
  }

  const Call& call_;
};

// The argument that the operator writes (out= or self of the in-place form), or an undefined tensor.
at::Tensor destination(const Call& call) {
  for (std::size_t i = call.size(); i-- > 0;) {
    if (call.op.args[i].written) return call.tensor(i);
  }
  return {};
}

// TensorIterator's own check asks the storages for their data; the twins' storages have an address to compare.
void check_overlap(const at::Tensor& out, const at::Tensor& input) {
  if (out.is_same(input) || out.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() !=
                                input.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) {
    return;
  }
  at::assert_no_partial_overlap(meta_twin(out), meta_twin(input));
}

bool elementwise(Call& call, std::initializer_list<at::Tensor> inputs, c10::ScalarType type) {
  const at::Tensor out = destination(call);
  TORCH_CHECK(!out.defined() || c10::canCast(type, out.scalar_type()), "result type ", type,
              " can't be cast to the desired output type ", out.defined() ? out.scalar_type() : type);
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).allow_cpu_scalars(true).check_all_same_device(false).set_check_mem_overlap(false);
  if (out.defined()) at::assert_no_internal_overlap(out);
  config.add_owned_output(out);
  bool in_place = false;
  for (const at::Tensor& input : inputs) {
    config.add_owned_const_input(input);
    if (out.defined()) check_overlap(out, input);
    in_place |= out.defined() && input.is_same(out);
  }
  if (in_place) config.resize_outputs(false);
  if (!out.defined()) config.declare_static_dtype_and_device(type, call.device);
  FakeIterator iterator(call);
  iterator.build(config);
  call.give(out.defined() ? out : iterator.result);
  return true;
}

c10::ScalarType common_type(const at::Tensor& a, const at::Tensor& b) {
  return at::native::result_type(at::native::update_result_type_state(b, at::native::update_result_type_state(a, {})));
}

bool same_type(Call& call) { return elementwise(call, {call.tensor(0)}, call.tensor(0).scalar_type()); }
// Kernels that make the result with empty_like before the iterator runs.
bool like_first(Call& call) {
  call.give(call.fresh_like(call.tensor(0), call.tensor(0).scalar_type()));
  return true;
}
bool real_type(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.is_complex() && !destination(call).defined()) {
    call.give(call.fresh_like(self, c10::toRealValueType(self.scalar_type())));
    return true;
  }
  return elementwise(call, {call.tensor(0)}, c10::toRealValueType(call.tensor(0).scalar_type()));
}
bool float_type(Call& call) {
  const c10::ScalarType type = call.tensor(0).scalar_type();
  if (c10::isComplexType(type) && !destination(call).defined()) {  // a copy of the real part
    call.give(call.fresh(call.tensor(0).sizes(), c10::toRealValueType(type)));
    return true;
  }
  if (c10::isComplexType(type)) return real_type(call);
  return elementwise(call, {call.tensor(0)},
                     c10::isIntegralType(type, true) ? c10::get_default_dtype_as_scalartype() : type);
}
bool to_bool(Call& call) { return elementwise(call, {call.tensor(0)}, at::kBool); }
bool two_to_bool(Call& call) { return elementwise(call, {call.tensor(0), call.tensor(1)}, at::kBool); }
bool two_common(Call& call) {
  return elementwise(call, {call.tensor(0), call.tensor(1)}, common_type(call.tensor(0), call.tensor(1)));
}

bool complex_of_two(Call& call) {
  if (call.tensor(0).scalar_type() != call.tensor(1).scalar_type() || !call.tensor(0).is_floating_point()) return false;
  return elementwise(call, {call.tensor(0), call.tensor(1)}, c10::toComplexType(call.tensor(0).scalar_type()));
}

bool where(Call& call) {
  const at::Tensor& condition = call.tensor(0);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  return elementwise(call, {condition, call.tensor(1), call.tensor(2)}, common_type(call.tensor(1), call.tensor(2)));
}

bool log_sigmoid_forward(Call& call) {
  if (destination(call).defined()) return false;
  const at::Tensor input = call.tensor(0);
  const c10::ScalarType type = input.scalar_type();
  // The CPU makes the input contiguous, and keeps a buffer for the backward pass.
  if (call.device.is_cpu())
    call.give(call.fresh(input.sizes(), type), call.fresh(input.sizes(), type));
  else
    call.give(call.fresh_like(input, type), call.fresh_like(input, type));
  return true;
}

// The CPU goes over the input made contiguous.
bool rrelu_with_noise(Call& call) {
  const at::Tensor& input = call.tensor(0);
  if (!call.device.is_cpu() || !input.sizes().equals(call.tensor(1).sizes())) return false;
  call.give(call.fresh(input.sizes(), input.scalar_type()));
  return true;
}

bool prelu_kernel(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.scalar_type() != call.tensor(1).scalar_type() || !at::is_expandable_to(call.tensor(1).sizes(), self.sizes()))
    return false;
  return like_first(call);
}

bool fits_self(Call& call) {  // masked_fill_ and masked_scatter_: the mask must broadcast to self
  const at::Tensor self = call.tensor(0);
  const at::Tensor& mask = call.tensor(1);
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_fill_ and masked_scatter_ only support boolean masks, but got dtype ", mask.scalar_type());
  const auto shape = at::infer_size(self.sizes(), mask.sizes());
  TORCH_CHECK(self.sizes().equals(shape), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              shape);
  at::assert_no_internal_overlap(self);
  call.give(self);
  return true;
}

bool masked_fill_tensor(Call& call) {
  TORCH_CHECK(call.tensor(2).dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", call.tensor(2).dim(),
              " dimension(s).");
  return fits_self(call);
}

// The shape is said by torch's iterator, which does not look at the text.
bool approximate(Call& call) {
  const std::string& text = call.arg(1).toStringRef();
  if (text != "none" && text != "tanh") ask_kernel(call);
  return false;
}

constexpr RuleRow kRows[] = {
    {"gelu", approximate},
    {"masked_fill_.Scalar", fits_self},
    {"masked_fill_.Tensor", masked_fill_tensor},
    {"complex", complex_of_two},
    {"polar", complex_of_two},
    {"where.self", where},
    {"where.self_out", where},
    {"abs", real_type},
    {"abs.out", real_type},
    {"angle", float_type},
    {"angle.out", float_type},
    {"logical_not", to_bool},
    {"logical_not.out", to_bool},
    {"logical_and", two_to_bool},
    {"logical_and.out", two_to_bool},
    {"logical_or", two_to_bool},
    {"logical_or.out", two_to_bool},
    {"logical_xor", two_to_bool},
    {"logical_xor.out", two_to_bool},
    {"nan_to_num", like_first},
    {"nan_to_num.out", same_type},
    {"conj_physical.out", same_type},
    {"hardswish", same_type},
    {"hardswish_", same_type},
    {"floor_divide", two_common},
    {"floor_divide.out", two_common},
    {"floor_divide_.Tensor", two_common},
    {"_prelu_kernel", prelu_kernel},
    {"rrelu_with_noise", rrelu_with_noise},
    {"log_sigmoid_forward", log_sigmoid_forward},
};

}  // namespace

RuleTable elementwise_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
