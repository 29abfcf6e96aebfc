// Normalisation, attention and losses.
#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// input, normalized_shape, weight, bias
bool layer_norm(SizeCall& call) {
  const Exprs input = call.shape(0).sizes, normalized = call.numbers(1);
  const std::size_t axis = input.size() - normalized.size();
  Exprs statistics = input;
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    call.require_equal(input[axis + i], normalized[i]);
    for (const std::size_t parameter : {2, 3}) {
      if (parameter < call.size() && call.has_tensor(parameter))
        call.require_equal(call.shape(parameter).sizes[i], normalized[i]);
    }
    statistics[axis + i] = call.constant(1);
  }
  call.give_contiguous(0, input);
  for (std::size_t k = 1; k < call.results(); ++k) call.give_contiguous(k, statistics);
  return true;
}

void require_length(SizeCall& call, std::size_t parameter, const Expr* length) {
  if (call.has_tensor(parameter)) call.require_equal(call.product(call.shape(parameter).sizes), length);
}

// input, weight, bias, N, C, HxW, group
bool group_norm(SizeCall& call) {
  const Exprs input = call.shape(0).sizes;
  const Expr *batch = call.number(3), *channels = call.number(4), *groups = call.number(6);
  call.require_equal(call.product(input), call.mul(call.mul(batch, channels), call.number(5)));
  call.require_equal(call.mod(channels, groups), call.constant(0));
  for (const std::size_t parameter : {1, 2}) require_length(call, parameter, channels);
  call.give_format(0, input, call.format_of(call.tensor(0)));
  for (std::size_t k = 1; k < call.results(); ++k) call.give_contiguous(k, {batch, groups});
  return true;
}

// input, weight, bias, and the running statistics. The results after the first are statistics of the batch: of each
// channel, or of none where nothing is trained.
template <std::size_t parameters>
bool batch_norm(SizeCall& call) {
  const Exprs input = call.shape(0).sizes;
  const Expr* channels = input[1];
  for (std::size_t i = 1; i <= parameters; ++i) require_length(call, i, channels);
  for (const Expr* size : input) call.require_at_least(size, 1);
  call.give_format(0, input, call.format_of(call.tensor(0)));
  for (std::size_t k = 1; k < call.results(); ++k) {
    const QuietScope hints;
    if (call.result(k).numel() == 0) {
      call.give_contiguous(k, {call.constant(0)});
    } else {
      call.give_contiguous(k, {channels});
    }
  }
  return true;
}

// query, key, value, dropout_p, is_causal, attn_mask: (batch, heads, length, width)
bool flash_attention_for_cpu(SizeCall& call) {
  const Shape query = call.shape(0);
  const Exprs key = call.shape(1).sizes, value = call.shape(2).sizes;
  for (const std::size_t d : {0, 3}) call.require_equal(query.sizes[d], key[d]);
  // Of grouped queries several heads share a key.
  if (!call.equal(query.sizes[1], key[1])) call.require_equal(call.mod(query.sizes[1], key[1]), call.constant(0));
  for (const std::size_t d : {0, 1, 2, 3}) call.require_equal(key[d], value[d]);
  if (call.has_tensor(5)) {
    const Exprs mask = call.shape(5).sizes;
    require_expandable(call, mask, {query.sizes[0], query.sizes[1], query.sizes[2], key[2]});
  }
  call.give_like(0, query);
  const Exprs sizes{query.sizes[0], query.sizes[1], query.sizes[2]};
  call.give(1, {sizes, call.strides_in({1, 2, 0}, sizes), call.constant(0)});
  return true;
}

// A loss is one number for all elements, or one for each of them. `target` and others take part by broadcasting.
template <std::size_t reduction>
bool loss(SizeCall& call) {
  if (call.arg(reduction).toInt() == 0) return broadcast_sizes(call);
  Exprs sizes = call.shape(0).sizes;
  for (std::size_t i = 1; i < reduction; ++i) {
    if (!call.has_tensor(i)) continue;
    const Exprs more = call.shape(i).sizes;
    const std::size_t rank = std::max(sizes.size(), more.size());
    sizes.insert(sizes.begin(), rank - sizes.size(), call.constant(1));
    for (std::size_t d = 0; d < more.size(); ++d) {
      const Expr*& size = sizes[rank - more.size() + d];
      size = broadcast(call, size, more[d]);
    }
  }
  call.give_contiguous(0, {});
  return true;
}

// Of binary cross entropy: no broadcasting but of the weight, which does not change the sizes.
bool binary_cross_entropy(SizeCall& call) {
  const Shape self = call.shape(0);
  const Exprs target = call.shape(1).sizes;
  if (target.size() != self.sizes.size()) return false;
  for (std::size_t d = 0; d < target.size(); ++d) call.require_equal(self.sizes[d], target[d]);
  if (call.has_tensor(2)) require_expandable(call, call.shape(2).sizes, self.sizes);
  if (call.arg(3).toInt() == 0) {
    call.give_like(0, self);
  } else {
    call.give_contiguous(0, {});
  }
  return true;
}

// self, target, weight, reduction: classes in the second dimension, or in the only one.
bool nll_loss(SizeCall& call) {
  const Exprs self = call.shape(0).sizes, target = call.shape(1).sizes;
  if (self.size() == 2 && target.size() == 1) call.require_equal(self[0], target[0]);
  if (self.size() == 4) {
    for (const std::size_t d : {0, 1, 2}) call.require_equal(self[d == 0 ? 0 : d + 1], target[d]);
  }
  require_length(call, 2, self[self.size() == 1 ? 0 : 1]);
  const bool each = call.arg(3).toInt() == 0 && self.size() > 1;
  call.give_contiguous(0, each ? target : Exprs{});
  call.give_contiguous(1, {});
  return true;
}

// A number for each row of a matrix, or one for all.
void give_loss(SizeCall& call, const Exprs& self, std::size_t reduction) {
  const bool each = call.arg(reduction).toInt() == 0 && self.size() == 2;
  call.give_contiguous(0, each ? Exprs{self[0]} : Exprs{});
}

// self, target, p, margin, weight, reduction: a class for each row.
bool multi_margin_loss(SizeCall& call) {
  const Exprs self = call.shape(0).sizes, target = call.shape(1).sizes;
  if (self.size() != 2 || target.size() != 1) return false;
  call.require_equal(self[0], target[0]);
  for (const Expr* size : self) call.require_at_least(size, 1);
  require_length(call, 4, self[1]);
  give_loss(call, self, 5);
  return true;
}

// self, target, reduction: the loss, and which classes are among the targets.
bool multilabel_margin_loss(SizeCall& call) {
  const Exprs self = call.shape(0).sizes, target = call.shape(1).sizes;
  if (self.size() != 2 || target.size() != 2) return false;
  for (const std::size_t d : {0, 1}) {
    call.require_equal(self[d], target[d]);
    call.require_at_least(self[d], 1);
  }
  give_loss(call, self, 2);
  call.give_contiguous(1, target);
  return true;
}

// data, reduce, lengths, indices, offsets, axis: a value for each segment of the axis.
bool segment_reduce(SizeCall& call) {
  const Exprs data = call.shape(0).sizes;
  const bool has_lengths = call.has_tensor(2);
  if (has_lengths == call.has_tensor(4)) return false;
  Exprs sizes = call.shape(has_lengths ? 2 : 4).sizes;
  const std::size_t axis = call.dim(5, data.size());
  if (sizes.size() != axis + 1) return false;
  for (std::size_t d = 0; d < axis; ++d) call.require_equal(sizes[d], data[d]);
  if (!has_lengths) {
    call.require_at_least(sizes[axis], 1);
    sizes[axis] = call.sub(sizes[axis], 1);
  }
  sizes.append(data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  call.give_contiguous(0, sizes);
  return true;
}

bool glu(SizeCall& call) {
  Exprs sizes = call.shape(0).sizes;
  const Expr*& size = sizes[call.dim(1, sizes.size())];
  call.require_equal(call.mod(size, call.constant(2)), call.constant(0));
  size = call.floordiv(size, 2);
  call.give_contiguous(0, sizes);
  return true;
}

// v and g as they are.
bool weight_norm(SizeCall& call) {
  call.give_contiguous(0, call.shape(0).sizes);
  call.give_contiguous(1, call.shape(1).sizes);
  return true;
}

// query, key, value; at 9 a mask; at 10 and 11 whether the weights are wanted, and of all heads together.
bool attention_of_heads(SizeCall& call) {
  const Exprs query = call.shape(0).sizes, key = call.shape(1).sizes, value = call.shape(2).sizes;
  if (query.size() != 3 || key.size() != 3 || value.size() != 3 || call.has_tensor(9)) return false;
  for (const std::size_t d : {0, 1, 2}) call.require_equal(key[d], value[d]);
  for (const std::size_t d : {0, 2}) call.require_equal(query[d], key[d]);
  call.give_contiguous(0, query);
  if (call.results() == 1) return true;
  const Expr* heads = call.number(4);
  call.give_contiguous(
      1, call.flag(10) && call.flag(11) ? Exprs{query[0], query[1], key[1]} : Exprs{query[0], heads, query[1], key[1]});
  return true;
}

// src; at 18 a mask.
bool encoder_layer(SizeCall& call) {
  const Shape source = call.shape(0);
  if (source.sizes.size() != 3 || call.has_tensor(18) || !call.is_contiguous(source)) return false;
  call.give_contiguous(0, source.sizes);
  return true;
}

// weight, indices, offsets; at 7 whether the last offset is the end. The bags, and what the backward pass needs.
bool embedding_bag(SizeCall& call) {
  const Exprs weight = call.shape(0).sizes, indices = call.shape(1).sizes, offsets = call.shape(2).sizes;
  if (indices.size() != 1 || offsets.size() != 1) return false;
  const bool has_end = call.flag(7);
  if (has_end) call.require_at_least(offsets[0], 1);
  if (call.has_tensor(6)) call.require_equal(call.shape(6).sizes[0], indices[0]);
  const Expr* bags = has_end ? call.sub(offsets[0], 1) : offsets[0];
  call.give_contiguous(0, {bags, weight[1]});
  for (const std::size_t k : {1, 2, 3}) {
    const at::Tensor& result = call.result(k);
    if (result.dim() == 2) {
      call.give_contiguous(k, {bags, weight[1]});
    } else if (result.numel() == 0) {
      call.give_contiguous(k, {call.constant(0)});
    } else {
      call.give_contiguous(k, {k == 1 ? indices[0] : result.size(0) == offsets[0]->hint.i ? offsets[0] : bags});
    }
  }
  return true;
}

constexpr SizeRow kRows[] = {
    {"_native_multi_head_attention", attention_of_heads},
    {"_transformer_encoder_layer_fwd", encoder_layer},
    {"_embedding_bag", embedding_bag},
    {"_embedding_bag_forward_only", embedding_bag},
    {"native_layer_norm", layer_norm},
    {"_fused_rms_norm", layer_norm},
    {"native_group_norm", group_norm},
    {"native_batch_norm", batch_norm<4>},
    {"_native_batch_norm_legit", batch_norm<4>},
    {"_native_batch_norm_legit.no_stats", batch_norm<2>},
    {"_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"mse_loss", loss<2>},
    {"smooth_l1_loss", loss<2>},
    {"huber_loss", loss<2>},
    {"soft_margin_loss", loss<2>},
    {"binary_cross_entropy", binary_cross_entropy},
    {"nll_loss_forward", nll_loss},
    {"nll_loss2d_forward", nll_loss},
    {"multi_margin_loss", multi_margin_loss},
    {"multilabel_margin_loss_forward", multilabel_margin_loss},
    {"segment_reduce", segment_reduce},
    {"glu", glu},
    {"_weight_norm_interface", weight_norm},
};

}  // namespace

SizeTable nn_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
