// Operators whose results have the shape of an argument.
#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "aten/operators.h"
#include "aten/sizes.h"

namespace pellucid::aten {
namespace {

// All results have the layout of the argument, without gaps.
bool dense_like(SizeCall& call) {
  const Shape shape = call.shape(0);
  call.require_written(shape.sizes);
  for (std::size_t k = 0; k < call.results(); ++k) call.give_like(k, shape);
  return true;
}

// The last argument says which memory format, if any.
bool in_format(SizeCall& call) {
  const c10::IValue& format = call.arg(call.size() - 1);
  const auto wanted = format.isNone() ? c10::MemoryFormat::Preserve : format.toMemoryFormat();
  if (wanted == c10::MemoryFormat::Preserve) return dense_like(call);
  for (std::size_t k = 0; k < call.results(); ++k) call.give_format(k, call.shape(0).sizes, wanted);
  return true;
}

// Of a tensor, in the format (contiguous or channels_last) that it suggests.
bool in_suggested_format(SizeCall& call) {
  if (!call.has_tensor(0)) return false;
  const c10::MemoryFormat format = call.format_of(call.tensor(0));
  for (std::size_t k = 0; k < call.results(); ++k) call.give_format(k, call.shape(0).sizes, format);
  return true;
}

// self, groups
bool channel_shuffle(SizeCall& call) {
  const Expr* channels = call.shape(0).sizes[1];
  call.require_equal(call.mod(channels, call.number(1)), call.constant(0));
  return in_suggested_format(call);
}

// self, scales, zero_points, axis, dtype
bool quantize_per_channel(SizeCall& call) {
  return c10::isFloatingType(call.tensor(2).scalar_type()) ? contiguous_like<0>(call) : in_suggested_format(call);
}

// In place, whatever self is.
bool keeps_self(SizeCall& call) { return call.results() == 0; }

bool copy_in_place(SizeCall& call) {
  require_expandable(call, call.shape(1).sizes, call.shape(0).sizes);
  return true;
}

// self, shifts, dims: joined again from two parts of self, as cat does; without dimensions, of all elements in a row.
bool roll(SizeCall& call) {
  const Exprs sizes = call.shape(0).sizes;
  const bool flat = call.arg(2).toIntVector().empty();
  call.give_format(0, sizes, flat ? c10::MemoryFormat::Contiguous : call.format_of(call.tensor(0)));
  return true;
}

// self, other, dim: vectors of three.
bool cross(SizeCall& call) {
  const Exprs sizes = call.shape(0).sizes;
  call.require_equal(sizes[call.dim(2, sizes.size())], call.constant(3));
  return broadcast_sizes(call);
}

// self, mask, source: self and the mask broadcast to each other.
bool masked_scatter(SizeCall& call) {
  const Exprs self = call.shape(0).sizes, mask = call.shape(1).sizes;
  Exprs sizes(std::max(self.size(), mask.size()), call.constant(1));
  for (const Exprs* operand : {&self, &mask}) {
    for (std::size_t d = 0; d < operand->size(); ++d) {
      const Expr*& size = sizes[sizes.size() - operand->size() + d];
      size = broadcast(call, size, (*operand)[d]);
    }
  }
  call.give_contiguous(0, sizes);
  return true;
}

// self, index, source: a value for each index, wherever it points to.
bool put_in_place(SizeCall& call) {
  call.require_equal(call.product(call.shape(1).sizes), call.product(call.shape(2).sizes));
  return call.results() == 0;
}

constexpr SizeRow kRows[] = {
    {"softmax", contiguous_like<0>},
    {"_softmax", contiguous_like<0>},
    {"log_softmax", contiguous_like<0>},
    {"_log_softmax", contiguous_like<0>},
    {"cumsum", contiguous_like<0>},
    {"cumprod", contiguous_like<0>},
    {"_logcumsumexp", contiguous_like<0>},
    {"cummax", contiguous_like<0>},
    {"cummin", contiguous_like<0>},
    {"_cummax_helper", keeps_self},
    {"_cummin_helper", keeps_self},
    {"sort", dense_like},
    {"flip", dense_like},
    {"roll", roll},
    {"renorm", contiguous_like<0>},
    {"tril", contiguous_like<0>},
    {"triu", contiguous_like<0>},
    {"bucketize.Tensor", contiguous_like<0>},
    {"take", contiguous_like<1>},
    {"native_dropout", dense_like},
    {"log_sigmoid_forward", dense_like},
    {"clone", in_format},
    {"_to_copy", in_format},
    {"empty_like", in_format},
    {"channel_shuffle", channel_shuffle},
    {"quantize_per_tensor", in_suggested_format},
    {"quantize_per_channel", quantize_per_channel},
    {"quantize_per_tensor_dynamic", in_suggested_format},
    {"dequantize", in_suggested_format},
    {"int_repr", in_suggested_format},
    {"copy_", copy_in_place},
    {"fill_", keeps_self},
    {"zero_", keeps_self},
    {"put_", put_in_place},
    {"embedding_renorm_", keeps_self},
    {"uniform_", keeps_self},
    {"normal_", keeps_self},
    {"random_", keeps_self},
    {"exponential_", keeps_self},
    {"geometric_", keeps_self},
    {"cauchy_", keeps_self},
    {"log_normal_", keeps_self},
    {"bernoulli_.float", keeps_self},
    {"bernoulli", contiguous_like<0>},
    {"poisson", contiguous_like<0>},
    {"normal.Tensor_float", contiguous_like<0>},
    {"normal.float_Tensor", contiguous_like<1>},
    {"rrelu_with_noise", contiguous_like<0>},
    {"bernoulli.p", dense_like},
    {"masked_scatter", masked_scatter},
    {"_prelu_kernel", broadcast_sizes},
    {"hardswish", broadcast_sizes},
    {"floor_divide", broadcast_sizes},
    {"masked_fill", broadcast_sizes},
    {"complex", broadcast_sizes},
    {"polar", broadcast_sizes},
    {"where", broadcast_sizes},
    {"linalg_cross", cross},
    {"isin.Tensor_Tensor", contiguous_like<0>},
    {"isin.Tensor_Scalar", contiguous_like<0>},
};

}  // namespace

SizeTable like_sizes() { return as_table(kRows); }

}  // namespace pellucid::aten
