// Convolution, attention, embedding, pooling and the like.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ConvUtils.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

using c10::MemoryFormat;

// The kernel that the CPU would choose decides the layout of the result, as in at::convolution.
MemoryFormat convolution_format(Call& call, const at::Tensor& input, const at::Tensor& weight) {
  const auto symbolic = [&](std::size_t i) {
    std::vector<c10::SymInt> out;
    for (std::int64_t value : call.arg(i).toDimVector()) out.emplace_back(value);
    if (out.size() == 1 && input.dim() > 3) out.resize(static_cast<std::size_t>(input.dim() - 2), out[0]);
    return out;
  };
  const std::optional<at::Tensor> bias = call.has_tensor(2) ? std::optional(call.tensor(2)) : std::nullopt;
  const auto backend =
      at::native::select_conv_backend(input, weight, bias, symbolic(3), symbolic(4), symbolic(5), call.arg(6).toBool(),
                                      symbolic(7), c10::SymInt(call.arg(8).toInt()), std::nullopt);
  return at::native::_determine_backend_memory_format(input, weight, backend);
}

bool convolution(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  const bool transposed = call.arg(6).toBool();
  const std::int64_t groups = call.arg(8).toInt();
  const std::int64_t rank = weight.dim() - 2;
  if (rank < 1 || input.dim() != weight.dim() || groups <= 0 || input.scalar_type() != weight.scalar_type())
    return false;
  const std::int64_t in_channels = transposed ? weight.size(0) : weight.size(1) * groups;
  if (input.size(1) != in_channels || weight.size(0) % groups != 0) return false;
  const auto stride = call.arg(3).toDimVector(), padding = call.arg(4).toDimVector(),
             dilation = call.arg(5).toDimVector(), extra = call.arg(7).toDimVector();
  const auto at = [](const at::DimVector& list, std::int64_t i) {
    return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(i)];
  };
  at::DimVector sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t kernel = at(dilation, i) * (weight.size(i + 2) - 1) + 1, length = input.size(i + 2);
    if (at(stride, i) <= 0 || at(dilation, i) <= 0 || at(padding, i) < 0) return false;
    const std::int64_t out = transposed ? (length - 1) * at(stride, i) - 2 * at(padding, i) + kernel + at(extra, i)
                                        : (length + 2 * at(padding, i) - kernel) / at(stride, i) + 1;
    if (out <= 0 || (!transposed && length + 2 * at(padding, i) < kernel))
      return false;  // the reference function has the message
    sizes.push_back(out);
  }
  if (input.numel() == 0) return false;
  const MemoryFormat format = rank == 1 ? MemoryFormat::Contiguous : convolution_format(call, input, weight);
  call.give(call.fresh(sizes, format, input.scalar_type()));
  return true;
}

bool flash_attention_for_cpu(Call& call) {
  const at::Tensor& query = call.tensor(0);
  if (query.dim() != 4) return false;
  const std::int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  const c10::ScalarType type = at::isReducedFloatingType(query.scalar_type()) ? at::kFloat : query.scalar_type();
  const std::int64_t sizes[] = {batch, heads, length};
  const std::int64_t strides[] = {heads * length, 1, heads};
  call.give(call.fresh_like(query, query.scalar_type()), call.fresh(sizes, strides, type));
  return true;
}

bool embedding(Call& call) {
  const at::Tensor& weight = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  if (weight.dim() != 2 || (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt)) return false;
  at::DimVector sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  call.give(call.fresh(sizes, weight.scalar_type()));
  return true;
}

bool adaptive_avg_pool2d(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const auto out = call.arg(1).toDimVector();
  if ((input.dim() != 3 && input.dim() != 4) || out.size() != 2 || out[0] < 0 || out[1] < 0) return false;
  for (std::int64_t i = 1; i <= 3 && i <= input.dim(); ++i) {
    if (input.size(-i) == 0) return false;
  }
  at::DimVector sizes(input.sizes().begin(), input.sizes().end() - 2);
  sizes.append(out.begin(), out.end());
  const MemoryFormat format = input.dim() == 4 ? input.suggest_memory_format() : MemoryFormat::Contiguous;
  call.give(call.fresh(sizes, format, input.scalar_type()));
  return true;
}

bool pixel_shuffle(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const std::int64_t factor = call.arg(1).toInt();
  if (input.dim() < 3 || factor <= 0 || input.size(-3) % (factor * factor) != 0) return false;
  at::DimVector sizes(input.sizes().begin(), input.sizes().end() - 3);
  for (const std::int64_t size : {input.size(-3) / (factor * factor), input.size(-2) * factor, input.size(-1) * factor})
    sizes.push_back(size);
  call.give(call.fresh(sizes, input.suggest_memory_format(), input.scalar_type()));
  return true;
}

bool pixel_unshuffle(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const std::int64_t factor = call.arg(1).toInt();
  if (input.dim() < 3 || factor <= 0 || input.size(-2) % factor != 0 || input.size(-1) % factor != 0) return false;
  if (input.numel() == 0) {  // torch gives a copy, of the same sizes
    call.give(call.fresh_like(input, input.scalar_type()));
    return true;
  }
  at::DimVector sizes(input.sizes().begin(), input.sizes().end() - 3);
  for (const std::int64_t size : {input.size(-3) * factor * factor, input.size(-2) / factor, input.size(-1) / factor})
    sizes.push_back(size);
  call.give(call.fresh(sizes, input.suggest_memory_format(), input.scalar_type()));
  return true;
}

// The CPU's kernels keep channels_last, which torch's meta functions do not say.
template <bool kReflects>
bool pad_in_format(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const auto pads = call.arg(1).toDimVector();
  const MemoryFormat format = input.suggest_memory_format();
  const std::size_t sides = pads.size() / 2;
  if (!call.device.is_cpu() || format == MemoryFormat::Contiguous || input.numel() == 0 ||
      input.dim() != static_cast<std::int64_t>(sides) + 2)
    return false;
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  for (std::size_t i = 0; i < sides; ++i) {
    std::int64_t& size = sizes[sizes.size() - 1 - i];
    if (kReflects && (pads[2 * i] >= size || pads[2 * i + 1] >= size)) return false;  // an error, in its own words
    size += pads[2 * i] + pads[2 * i + 1];
    if (size < 1) return false;
  }
  call.give(call.fresh(sizes, format, input.scalar_type()));
  return true;
}

bool channel_shuffle(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const MemoryFormat format = input.suggest_memory_format();
  const std::int64_t groups = call.arg(1).toInt();
  if (!call.device.is_cpu() || input.dim() < 3 || input.numel() == 0) return false;
  if (groups <= 0 || input.size(1) % groups != 0) return false;
  call.give(call.fresh(input.sizes(), format, input.scalar_type()));
  return true;
}

// (input, kernel, dilation, padding, stride)
bool im2col(Call& call) {
  const at::Tensor& input = call.tensor(0);
  if ((input.dim() != 3 && input.dim() != 4) || input.numel() == 0) return false;
  std::int64_t channels = input.size(-3), places = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    at::DimVector given;  // kernel, dilation, padding, stride of this side
    for (std::size_t argument = 1; argument <= 4; ++argument) {
      const auto sides = call.arg(argument).toDimVector();
      if (sides.size() != 2) return false;
      given.push_back(sides[i]);
    }
    if (given[0] < 1 || given[1] < 1 || given[2] < 0 || given[3] < 1) return false;
    const std::int64_t room =
        input.size(static_cast<std::int64_t>(i) - 2) + 2 * given[2] - given[1] * (given[0] - 1) - 1;
    if (room < 0) return false;
    channels *= given[0];
    places *= room / given[3] + 1;
  }
  at::DimVector sizes(input.sizes().begin(), input.sizes().end() - 3);
  sizes.push_back(channels);
  sizes.push_back(places);
  call.give(call.fresh(sizes, input.scalar_type()));
  return true;
}

// With a number of classes given, the range check that reads the values is left to the run of the graph.
bool one_hot(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const std::int64_t classes = call.arg(1).toInt();
  TORCH_CHECK(input.scalar_type() == at::kLong, "one_hot is only applicable to index tensor of type LongTensor.");
  if (classes == -1) call.needs_data();
  TORCH_CHECK(classes > 0 || input.numel() > 0, "Can not infer total number of classes from empty tensor.");
  TORCH_CHECK(classes > 0, "Class values must be smaller than num_classes.");
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  sizes.push_back(classes);
  call.give(call.fresh(sizes, at::kLong));
  return true;
}

// Without gradients the composite kernel reads the data itself; the other path is the same function.
bool max_pool1d(Call& call) {
  static const auto with_indices = c10::Dispatcher::singleton().findSchemaOrThrow("aten::max_pool1d_with_indices", "");
  with_indices.callBoxed(call.stack);
  torch::jit::drop(call.stack, 1);
  return true;
}

// Without weights (10: whether they are wanted) there is no second result, which torch's meta function does not say.
bool attention_of_heads(Call& call) {
  const at::Tensor query = call.tensor(0);
  if (query.dim() != 3 || call.arg(10).toBool()) return false;
  call.give(call.fresh(query.sizes(), query.scalar_type()), at::Tensor());
  return true;
}

constexpr RuleRow kRows[] = {
    {"_native_multi_head_attention", attention_of_heads},
    {"max_pool1d", max_pool1d},
    {"convolution", convolution},
    {"_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"embedding", embedding},
    {"_adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"pixel_shuffle", pixel_shuffle},
    {"pixel_unshuffle", pixel_unshuffle},
    {"one_hot", one_hot},
    {"reflection_pad2d", pad_in_format<true>},
    {"reflection_pad3d", pad_in_format<true>},
    {"replication_pad2d", pad_in_format<false>},
    {"replication_pad3d", pad_in_format<false>},
    {"channel_shuffle", channel_shuffle},
    {"native_channel_shuffle", channel_shuffle},
    {"im2col", im2col},
};

}  // namespace

RuleTable nn_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
