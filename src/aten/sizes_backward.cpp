// Operators that autograd calls in backward passes: a gradient has the sizes of what it is the gradient of.
//
// What they get of the forward pass has the sizes that its rules have given, so most have nothing to require: where a
// program calls one itself with others, the kernel raises at each call.
#include <array>
#include <utility>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// grad, output, dim, dtype
bool softmax_backward(SizeCall& call) {
  const Exprs gradient = call.shape(0).sizes, output = call.shape(1).sizes;
  for (std::size_t d = 0; d < gradient.size(); ++d) call.require_equal(gradient[d], output[d]);
  return contiguous_like<0>(call);
}

template <std::size_t arg>
bool gradient_in_format(SizeCall& call) {
  if (call.results() != 1) return false;
  give_in_format_of(call, 0, arg, call.shape(arg).sizes);
  return true;
}

// Of an argument with the layout of that argument.
template <std::size_t arg>
bool dense_gradient(SizeCall& call) {
  const Shape shape = call.shape(arg);
  for (std::size_t k = 0; k < call.results(); ++k) call.give_like(k, shape);
  return true;
}

// Which of the results there are. Some kernels give them all, asked for or not.
template <std::size_t count>
std::array<bool, count> mask_of(const SizeCall& call, std::size_t arg) {
  std::array<bool, count> mask{};
  if (call.results() == count) mask.fill(true);
  const auto given = call.arg(arg).toBoolList();
  for (std::size_t i = 0; i < count && i < given.size(); ++i) mask[i] = mask[i] || given[i];
  return mask;
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
bool convolution_backward(SizeCall& call) {
  const std::array<bool, 3> mask = mask_of<3>(call, 10);
  const Exprs input = call.shape(1).sizes, weight = call.shape(2).sizes;
  const bool contiguous = call.format_of(call.tensor(1)) == c10::MemoryFormat::Contiguous &&
                          call.format_of(call.tensor(2)) == c10::MemoryFormat::Contiguous;
  std::size_t k = 0;
  for (const Exprs* sizes : {&input, &weight}) {
    if (!mask[sizes == &input ? 0 : 1]) continue;
    // Which kernel runs, and so the layout, may depend on how large the batch is where the kernel is 1 by 1.
    if (!contiguous && weight.size() == 4 && call.is(weight[2], 1) && call.is(weight[3], 1))
      (void)call.at_least(input[0], 16);
    call.give(k++, *sizes);
  }
  if (mask[2]) call.give_contiguous(k++, {call.shape(0).sizes[1]});
  return k == call.results();
}

// The gradients of weight and bias, behind the `k` results before them.
bool give_parameters(SizeCall& call, const std::array<bool, 3>& mask, std::size_t k, const Exprs& sizes) {
  for (const bool has : {mask[1], mask[2]}) {
    if (has) call.give_contiguous(k++, sizes);
  }
  return k == call.results();
}

// grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
bool layer_norm_backward(SizeCall& call) {
  const std::array<bool, 3> mask = mask_of<3>(call, 7);
  std::size_t k = 0;
  if (mask[0]) call.give_contiguous(k++, call.shape(1).sizes);
  return give_parameters(call, mask, k, call.numbers(2));
}

// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
bool batch_norm_backward(SizeCall& call) {
  const std::array<bool, 3> mask = mask_of<3>(call, 9);
  std::size_t k = 0;
  if (mask[0]) give_in_format_of(call, k++, 1, call.shape(1).sizes);
  return give_parameters(call, mask, k, {call.shape(1).sizes[1]});
}

// grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
bool group_norm_backward(SizeCall& call) {
  const std::array<bool, 3> mask = mask_of<3>(call, 9);
  std::size_t k = 0;
  if (mask[0]) give_in_format_of(call, k++, 1, call.shape(1).sizes);
  return give_parameters(call, mask, k, {call.number(6)});
}

// grad_output, indices, num_weights, …
bool embedding_backward(SizeCall& call) {
  call.give_contiguous(0, {call.number(2), call.shape(0).sizes.back()});
  return true;
}

// grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, …
bool embedding_bag_backward(SizeCall& call) {
  if (call.results() != 1) return false;
  call.give_contiguous(0, {call.number(6), call.shape(0).sizes.back()});
  return true;
}

// grad_output, output_size, input_size, …
bool upsample_backward(SizeCall& call) {
  const Exprs sizes = call.numbers(2);
  if (sizes.empty()) return false;
  give_in_format_of(call, 0, 0, sizes);
  return true;
}

// grad_output, input, grid, …, output_mask
template <std::size_t mask_at>
bool grid_sampler_backward(SizeCall& call) {
  const std::array<bool, 2> mask = mask_of<2>(call, mask_at);
  std::size_t k = 0;
  // The gradient of the grid is computed in any case.
  if (mask[0]) call.give_contiguous(k++, call.shape(1).sizes);
  call.give_contiguous(k++, call.shape(2).sizes);
  return k == call.results();
}

// grad, x1, x2, p, cdist
bool cdist_backward(SizeCall& call) {
  const Exprs sizes = call.shape(1).sizes;
  if (sizes.size() != 2) return false;
  call.give_contiguous(0, sizes);
  return true;
}

// grad_out, query, key, value, …
bool attention_backward(SizeCall& call) {
  if (call.results() != 3) return false;
  for (std::size_t k = 0; k < 3; ++k) call.give(k, call.shape(k + 1).sizes);
  return true;
}

constexpr SizeRow kRows[] = {
    {"elu_backward", broadcast_sizes},
    {"leaky_relu_backward", broadcast_sizes},
    {"softplus_backward", broadcast_sizes},
    {"hardtanh_backward", broadcast_sizes},
    {"hardswish_backward", broadcast_sizes},
    {"hardsigmoid_backward", broadcast_sizes},
    {"softshrink_backward", broadcast_sizes},
    {"hardshrink_backward", broadcast_sizes},
    {"_prelu_kernel_backward", broadcast_sizes},
    {"mse_loss_backward", broadcast_sizes},
    {"smooth_l1_loss_backward", broadcast_sizes},
    {"huber_loss_backward", broadcast_sizes},
    {"log_sigmoid_backward", dense_gradient<1>},
    {"binary_cross_entropy_backward", dense_gradient<1>},
    {"glu_backward", contiguous_like<1>},
    {"_softmax_backward_data", softmax_backward},
    {"_log_softmax_backward_data", softmax_backward},
    {"nll_loss_backward", contiguous_like<1>},
    {"nll_loss2d_backward", dense_gradient<1>},
    {"_ctc_loss_backward", contiguous_like<1>},
    {"_pdist_backward", contiguous_like<1>},
    {"_cdist_backward", cdist_backward},
    {"convolution_backward", convolution_backward},
    {"native_layer_norm_backward", layer_norm_backward},
    {"native_batch_norm_backward", batch_norm_backward},
    {"native_group_norm_backward", group_norm_backward},
    {"embedding_dense_backward", embedding_backward},
    {"_embedding_bag_backward", embedding_bag_backward},
    {"max_pool2d_with_indices_backward", gradient_in_format<1>},
    {"max_pool3d_with_indices_backward", gradient_in_format<1>},
    {"fractional_max_pool2d_backward", gradient_in_format<1>},
    {"fractional_max_pool3d_backward", gradient_in_format<1>},
    {"adaptive_max_pool2d_backward", gradient_in_format<1>},
    {"adaptive_max_pool3d_backward", gradient_in_format<1>},
    {"avg_pool2d_backward", gradient_in_format<1>},
    {"avg_pool3d_backward", gradient_in_format<1>},
    {"_adaptive_avg_pool2d_backward", gradient_in_format<1>},
    {"_adaptive_avg_pool3d_backward", gradient_in_format<1>},
    {"reflection_pad1d_backward", gradient_in_format<1>},
    {"reflection_pad2d_backward", gradient_in_format<1>},
    {"reflection_pad3d_backward", gradient_in_format<1>},
    {"replication_pad1d_backward", gradient_in_format<1>},
    {"replication_pad2d_backward", gradient_in_format<1>},
    {"replication_pad3d_backward", gradient_in_format<1>},
    {"upsample_nearest1d_backward", upsample_backward},
    {"_upsample_nearest_exact1d_backward", upsample_backward},
    {"upsample_linear1d_backward", upsample_backward},
    {"upsample_nearest2d_backward", upsample_backward},
    {"_upsample_nearest_exact2d_backward", upsample_backward},
    {"upsample_bilinear2d_backward", upsample_backward},
    {"_upsample_bilinear2d_aa_backward", upsample_backward},
    {"upsample_bicubic2d_backward", upsample_backward},
    {"_upsample_bicubic2d_aa_backward", upsample_backward},
    {"upsample_nearest3d_backward", upsample_backward},
    {"_upsample_nearest_exact3d_backward", upsample_backward},
    {"upsample_trilinear3d_backward", upsample_backward},
    {"grid_sampler_2d_backward", grid_sampler_backward<6>},
    {"grid_sampler_3d_backward", grid_sampler_backward<6>},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
};

}  // namespace

SizeTable backward_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
