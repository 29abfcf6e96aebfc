// Convolution, pooling, padding and interpolation.
#include <c10/core/MemoryFormat.h>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

using symbolic::Comparison;

void require_positive(SizeCall& call, const Expr* size) { call.require_at_least(size, 1); }

// One number for each dimension, of a list that may have one for all.
Exprs for_each_dim(SizeCall& call, std::size_t i, std::size_t rank) {
  Exprs numbers = call.numbers(i);
  if (numbers.size() == 1) numbers.resize(rank, numbers[0]);
  return numbers;
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
bool convolution(SizeCall& call) {
  const Exprs input = call.shape(0).sizes, weight = call.shape(1).sizes;
  const std::size_t rank = weight.size() - 2;
  if (input.size() != weight.size() || rank == 0) return false;
  const Exprs stride = for_each_dim(call, 3, rank), padding = for_each_dim(call, 4, rank),
              dilation = for_each_dim(call, 5, rank), extra = for_each_dim(call, 7, rank);
  const bool transposed = call.flag(6);
  const Expr* groups = call.number(8);
  call.require_equal(input[1], transposed ? weight[0] : call.mul(weight[1], groups));
  if (!groups->is_constant(1)) call.require_equal(call.mod(weight[0], groups), call.constant(0));
  const Expr* channels = transposed ? call.mul(weight[1], groups) : weight[0];
  if (call.has_tensor(2)) call.require_equal(call.shape(2).sizes[0], channels);
  Exprs sizes{input[0], channels};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) require_positive(call, sizes[i]);
  for (std::size_t i = 0; i < rank; ++i) {
    const Expr* kernel = call.add(call.mul(dilation[i], call.sub(weight[i + 2], 1)), 1);
    const Expr* length = input[i + 2];
    const Expr* padded = call.mul(padding[i], 2);
    require_positive(call, length);
    if (transposed) {
      const Expr* whole = call.add(call.sub(call.mul(call.sub(length, 1), stride[i]), padded), kernel);
      sizes.push_back(call.add(whole, extra[i]));
    } else {
      const Expr* room = call.sub(call.add(length, padded), kernel);
      call.require_at_least(room, 0);
      sizes.push_back(call.add(call.floordiv(room, stride[i]), 1));
    }
    require_positive(call, sizes.back());
  }
  const c10::MemoryFormat input_format = call.format_of(call.tensor(0)), weight_format = call.format_of(call.tensor(1));
  const bool contiguous =
      input_format == c10::MemoryFormat::Contiguous && weight_format == c10::MemoryFormat::Contiguous;
  if (contiguous || rank == 1) {
    call.give_contiguous(0, sizes);
    return true;
  }
  // Which kernel runs, and so the layout, may depend on how large the batch is where the kernel is 1 by 1.
  if (call.is(weight[rank], 1) && call.is(weight[rank + 1], 1)) (void)call.at_least(input[0], 16);
  call.give(0, sizes);
  return true;
}

void give_as_input(SizeCall& call, const Exprs& sizes) {
  for (std::size_t k = 0; k < call.results(); ++k) give_in_format_of(call, k, 0, sizes);
}

// The positions of the arguments; 0: no such argument.
struct Pool {
  std::size_t rank, kernel, stride, padding, dilation, ceil;
  bool fits = false;  // the kernel has to fit into what is there without padding
};

bool pool(SizeCall& call, const Pool& at) {
  const Exprs input = call.shape(0).sizes;
  const Exprs kernel = for_each_dim(call, at.kernel, at.rank), padding = for_each_dim(call, at.padding, at.rank);
  Exprs stride = for_each_dim(call, at.stride, at.rank);
  if (stride.empty()) stride = kernel;
  const Exprs dilation = at.dilation != 0 ? for_each_dim(call, at.dilation, at.rank) : Exprs(at.rank, call.constant(1));
  const bool ceil = call.flag(at.ceil);
  Exprs sizes = input;
  for (std::size_t d = 1; d < input.size(); ++d) require_positive(call, input[d]);
  for (std::size_t i = 0; i < at.rank; ++i) {
    const Expr*& size = sizes[input.size() - at.rank + i];
    if (at.fits) call.require(call.compare(Comparison::Ge, size, kernel[i]));
    const Expr* length = call.add(size, call.mul(padding[i], 2));
    const Expr* reach = call.add(call.mul(dilation[i], call.sub(kernel[i], 1)), 1);
    const Expr* room = call.sub(length, reach);
    const Expr* out = call.add(call.floordiv(ceil ? call.sub(call.add(room, stride[i]), 1) : room, stride[i]), 1);
    // The last window begins inside of the input or of its left padding.
    if (ceil &&
        call.decide(call.compare(Comparison::Ge, call.mul(call.sub(out, 1), stride[i]), call.add(size, padding[i]))))
      out = call.sub(out, 1);
    size = out;
    require_positive(call, size);
  }
  give_as_input(call, sizes);
  return true;
}

bool max_pool2d(SizeCall& call) { return pool(call, {2, 1, 2, 3, 4, 5}); }
bool max_pool3d(SizeCall& call) { return pool(call, {3, 1, 2, 3, 4, 5}); }
bool avg_pool2d(SizeCall& call) { return pool(call, {2, 1, 2, 3, 0, 4}); }
bool avg_pool3d(SizeCall& call) { return pool(call, {3, 1, 2, 3, 0, 4, true}); }

// The first result has the sizes of the input, but for the last ones.
bool give_last_sizes(SizeCall& call, Exprs& sizes, const Exprs& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sizes[sizes.size() - wanted.size() + i] = wanted[i];
    require_positive(call, wanted[i]);
  }
  give_as_input(call, sizes);
  return true;
}

// Argument 1 says the last sizes.
template <std::size_t rank>
bool to_size(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Exprs wanted = for_each_dim(call, 1, rank);
  for (std::size_t d = 1; d < sizes.size(); ++d) require_positive(call, sizes[d]);
  return give_last_sizes(call, sizes, wanted);
}

// self, indices, output_size: a place in the output for each element.
template <std::size_t rank>
bool max_unpool(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Exprs indices = call.shape(1).sizes, wanted = for_each_dim(call, 2, rank);
  if (indices.size() != sizes.size() || wanted.size() != rank) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) call.require_equal(indices[d], sizes[d]);
  for (const Expr* size : sizes) require_positive(call, size);
  return give_last_sizes(call, sizes, wanted);
}

// self, kernel_size, output_size, random_samples: where the windows lie is drawn, for each batch and channel.
template <std::size_t rank>
bool fractional_max_pool(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Exprs kernel = for_each_dim(call, 1, rank), wanted = for_each_dim(call, 2, rank), samples = call.shape(3).sizes;
  if (sizes.size() != rank + 2 || samples.size() != 3) return false;
  for (const std::size_t d : {0, 1}) call.require_equal(samples[d], sizes[d]);
  call.require_equal(samples[2], call.constant(static_cast<std::int64_t>(rank)));
  for (const Expr* size : sizes) require_positive(call, size);
  for (std::size_t i = 0; i < rank; ++i) {
    const Expr*& size = sizes[2 + i];
    require_positive(call, wanted[i]);
    call.require(call.compare(Comparison::Le, call.sub(call.add(wanted[i], kernel[i]), 1), size));
    size = wanted[i];
  }
  for (std::size_t k = 0; k < call.results(); ++k) call.give_contiguous(k, sizes);
  return true;
}

// Pairs of the last dimension, then of the one before, and so on. What is reflected has to be there.
bool pad(SizeCall& call, bool reflects) {
  Exprs sizes = call.shape(0).sizes;
  const Exprs pads = call.numbers(1);
  for (std::size_t d = 1; d < sizes.size(); ++d) require_positive(call, sizes[d]);
  for (std::size_t i = 0; i < pads.size(); i += 2) {
    const Expr*& size = sizes[sizes.size() - 1 - i / 2];
    for (const Expr* pad : {pads[i], pads[i + 1]}) {
      if (reflects) call.require(call.compare(Comparison::Lt, pad, size));
    }
    size = call.add(call.add(size, pads[i]), pads[i + 1]);
    require_positive(call, size);
  }
  give_as_input(call, sizes);
  return true;
}
bool reflection_pad(SizeCall& call) { return pad(call, true); }
bool replication_pad(SizeCall& call) { return pad(call, false); }

bool pixel_shuffle(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const std::size_t rank = sizes.size();
  const Expr* factor = call.number(1);
  const Expr* area = call.mul(factor, factor);
  call.require_equal(call.mod(sizes[rank - 3], area), call.constant(0));
  sizes[rank - 3] = call.floordiv(sizes[rank - 3], area);
  sizes[rank - 2] = call.mul(sizes[rank - 2], factor);
  sizes[rank - 1] = call.mul(sizes[rank - 1], factor);
  give_as_input(call, sizes);
  return true;
}

bool pixel_unshuffle(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const std::size_t rank = sizes.size();
  const Expr* factor = call.number(1);
  sizes[rank - 3] = call.mul(sizes[rank - 3], call.mul(factor, factor));
  for (const std::size_t d : {rank - 2, rank - 1}) {
    call.require_equal(call.mod(sizes[d], factor), call.constant(0));
    sizes[d] = call.floordiv(sizes[d], factor);
  }
  give_as_input(call, sizes);
  return true;
}

// self, kernel_size, dilation, padding, stride: each window is a column.
bool im2col(SizeCall& call) {
  const Exprs input = call.shape(0).sizes;
  const Exprs kernel = for_each_dim(call, 1, 2), dilation = for_each_dim(call, 2, 2),
              padding = for_each_dim(call, 3, 2), stride = for_each_dim(call, 4, 2);
  const std::size_t rank = input.size();
  const Expr* windows = call.constant(1);
  for (std::size_t i = 0; i < 2; ++i) {
    const Expr* reach = call.add(call.mul(dilation[i], call.sub(kernel[i], 1)), 1);
    const Expr* room = call.sub(call.add(input[rank - 2 + i], call.mul(padding[i], 2)), reach);
    call.require_at_least(room, 0);
    windows = call.mul(windows, call.add(call.floordiv(room, stride[i]), 1));
  }
  Exprs sizes(input.begin(), input.end() - 2);
  sizes.back() = call.mul(sizes.back(), call.mul(kernel[0], kernel[1]));
  sizes.push_back(windows);
  for (const Expr* size : sizes) require_positive(call, size);
  call.give_contiguous(0, sizes);
  return true;
}

// self, output_size, kernel_size, dilation, padding, stride: the columns are added up in windows.
bool col2im(SizeCall& call) {
  const Exprs input = call.shape(0).sizes;
  const Exprs output = for_each_dim(call, 1, 2), kernel = for_each_dim(call, 2, 2), dilation = for_each_dim(call, 3, 2),
              padding = for_each_dim(call, 4, 2), stride = for_each_dim(call, 5, 2);
  const Expr* windows = call.constant(1);
  for (std::size_t i = 0; i < 2; ++i) {
    const Expr* reach = call.add(call.mul(dilation[i], call.sub(kernel[i], 1)), 1);
    const Expr* room = call.sub(call.add(output[i], call.mul(padding[i], 2)), reach);
    call.require_at_least(room, 0);
    windows = call.mul(windows, call.add(call.floordiv(room, stride[i]), 1));
  }
  const Expr *columns = input[input.size() - 2], *of_one = call.mul(kernel[0], kernel[1]);
  call.require_equal(input.back(), windows);
  call.require_equal(call.mod(columns, of_one), call.constant(0));
  Exprs sizes(input.begin(), input.end() - 2);
  sizes.push_back(call.floordiv(columns, of_one));
  sizes.append(output.begin(), output.end());
  for (const Expr* size : sizes) require_positive(call, size);
  call.give_contiguous(0, sizes);
  return true;
}

// input, grid: a value of the input for each place in the grid.
bool grid_sampler(SizeCall& call) {
  const Exprs input = call.shape(0).sizes, grid = call.shape(1).sizes;
  call.require_equal(input[0], grid[0]);
  call.require_equal(grid.back(), call.constant(static_cast<std::int64_t>(input.size()) - 2));
  for (std::size_t d = 1; d < input.size(); ++d) require_positive(call, input[d]);
  Exprs sizes{input[0], input[1]};
  for (std::size_t d = 1; d + 1 < grid.size(); ++d) sizes.push_back(grid[d]);
  call.give(0, sizes);
  return call.format_of(call.tensor(0)) == c10::MemoryFormat::Contiguous;
}

constexpr SizeRow kRows[] = {
    {"convolution", convolution},
    {"convolution_overrideable", convolution},
    {"max_pool2d_with_indices", max_pool2d},
    {"max_pool3d_with_indices", max_pool3d},
    {"avg_pool2d", avg_pool2d},
    {"avg_pool3d", avg_pool3d},
    {"_adaptive_avg_pool2d", to_size<2>},
    {"_adaptive_avg_pool3d", to_size<3>},
    {"adaptive_max_pool2d", to_size<2>},
    {"adaptive_max_pool3d", to_size<3>},
    {"max_unpool2d", max_unpool<2>},
    {"max_unpool3d", max_unpool<3>},
    {"fractional_max_pool2d", fractional_max_pool<2>},
    {"fractional_max_pool3d", fractional_max_pool<3>},
    {"upsample_nearest1d", to_size<1>},
    {"_upsample_nearest_exact1d", to_size<1>},
    {"upsample_linear1d", to_size<1>},
    {"upsample_nearest2d", to_size<2>},
    {"_upsample_nearest_exact2d", to_size<2>},
    {"upsample_bilinear2d", to_size<2>},
    {"_upsample_bilinear2d_aa", to_size<2>},
    {"upsample_bicubic2d", to_size<2>},
    {"_upsample_bicubic2d_aa", to_size<2>},
    {"upsample_nearest3d", to_size<3>},
    {"_upsample_nearest_exact3d", to_size<3>},
    {"upsample_trilinear3d", to_size<3>},
    {"reflection_pad1d", reflection_pad},
    {"reflection_pad2d", reflection_pad},
    {"reflection_pad3d", reflection_pad},
    {"replication_pad1d", replication_pad},
    {"replication_pad2d", replication_pad},
    {"replication_pad3d", replication_pad},
    {"pixel_shuffle", pixel_shuffle},
    {"pixel_unshuffle", pixel_unshuffle},
    {"im2col", im2col},
    {"col2im", col2im},
    {"grid_sampler_2d", grid_sampler},
    {"grid_sampler_3d", grid_sampler},
};

}  // namespace

SizeTable window_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
