// Indexing by tensors: torch's own meta kernels do the shapes; masks need values.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/BucketizationUtils.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

bool is_mask(const at::Tensor& index) { return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; }

// A mask that is real (a constant of the program) becomes the indices that it stands for.
bool without_masks(Call& call) {
  const c10::IValue& list = call.arg(1);
  bool masks = false;
  for (const c10::IValue& element : list.toListRef())
    masks |= element.isTensor() && element.toTensor().defined() && is_mask(element.toTensor());
  if (!masks) return false;
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue& element : list.toListRef()) {
    if (!element.isTensor() || !element.toTensor().defined()) {
      indices.push_back(std::nullopt);
    } else if (!is_mask(element.toTensor())) {
      indices.push_back(element.toTensor());
    } else if (is_fake(element.toTensor().unsafeGetTensorImpl())) {
      call.needs_data();
    } else {
      for (at::Tensor& column : element.toTensor().nonzero().unbind(1)) indices.push_back(std::move(column));
    }
  }
  call.replace_arg(1, std::move(indices));
  return false;
}

void check_masks(const at::Tensor& self, c10::ArrayRef<c10::IValue> indices) {
  std::int64_t dim = 0;
  for (const c10::IValue& element : indices) {
    if (!element.isTensor() || !element.toTensor().defined() || !is_mask(element.toTensor())) {
      ++dim;
      continue;
    }
    const at::Tensor& mask = element.toTensor();
    TORCH_CHECK_INDEX(dim + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    for (std::int64_t i = 0; i < mask.dim(); ++i, ++dim) {
      TORCH_CHECK_INDEX(mask.size(i) == self.size(dim), "The shape of the mask ", mask.sizes(), " at index ", i,
                        " does not match the shape of the indexed tensor ", self.sizes(), " at index ", dim);
    }
  }
}

// `x[mask] = value`: the result is as self, whatever the mask selects. That the number of values fits is checked by the
// run of the graph.
bool index_put(Call& call) {
  const at::Tensor& self = call.tensor(0);
  bool masks = false;
  for (const c10::IValue& element : call.arg(1).toListRef()) {
    masks |= element.isTensor() && element.toTensor().defined() && is_mask(element.toTensor()) &&
             is_fake(element.toTensor().unsafeGetTensorImpl());
  }
  if (!masks) return without_masks(call);
  check_masks(self, call.arg(1).toListRef());
  TORCH_CHECK_INDEX(self.scalar_type() == call.tensor(2).scalar_type(),
                    "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                    " for the destination and ", call.tensor(2).scalar_type(), " for the source.");
  const bool in_place = call.op.writes;
  call.give(in_place ? self : call.fresh_like(self, self.scalar_type()));
  return true;
}

bool index_select(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  const std::int64_t dim = at::maybe_wrap_dim(call.arg(1).toInt(), self.dim());
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  if (!sizes.empty()) sizes[static_cast<std::size_t>(dim)] = index.numel();
  call.give(call.fresh(sizes, self.scalar_type()));
  return true;
}

bool flip(Call& call) {
  const at::Tensor& self = call.tensor(0);
  at::dim_list_to_bitset(call.arg(1).toDimVector(), self.dim());  // raises on repeated or unknown dimensions
  call.give(call.fresh_like(self, self.scalar_type()));
  return true;
}

bool repeat(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const auto repeats = call.arg(1).toDimVector();
  const std::int64_t more = static_cast<std::int64_t>(repeats.size()) - self.dim();
  TORCH_CHECK(more >= 0, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  at::DimVector sizes(repeats.begin(), repeats.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    TORCH_CHECK(repeats[i] >= 0, "Trying to create tensor with negative dimension ", repeats[i]);
    if (static_cast<std::int64_t>(i) >= more) sizes[i] *= self.size(static_cast<std::int64_t>(i) - more);
  }
  call.give(call.fresh(sizes, self.scalar_type()));
  return true;
}

bool search(Call& call, const at::Tensor& values, bool int32) {
  call.give(call.fresh(values.sizes(), int32 ? at::kInt : at::kLong));
  return true;
}
bool bucketize(Call& call) { return search(call, call.tensor(0), call.arg(2).toBool()); }

// A sorter is looked at by torch's check, values and all.
bool searchsorted(Call& call) {
  if (call.has_tensor(5)) return false;
  const at::Tensor& sequence = call.tensor(0);
  const at::Tensor& values = call.tensor(1);
  const bool int32 = call.arg(2).toBool(), right = call.arg(3).toBool();
  const auto side = call.arg(4).isString() ? std::optional(call.arg(4).toStringView()) : std::nullopt;
  const at::Tensor result = call.fresh(values.sizes(), int32 ? at::kInt : at::kLong);
  at::native::searchsorted_pre_check(sequence, values, result, int32, right, side, at::Tensor());
  call.give(result);
  return true;
}

bool take(Call& call) {
  TORCH_CHECK(call.tensor(1).scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              call.tensor(1).scalar_type());
  call.give(call.fresh(call.tensor(1).sizes(), call.tensor(0).scalar_type()));
  return true;
}

bool is_set_to(Call& call) {
  const at::Tensor &a = call.tensor(0), &b = call.tensor(1);
  const bool alias = a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
                     b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  call.give(alias && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides());
  return true;
}

// Of how many values, the offsets say where no number does.
bool to_jagged(Call& call) {
  const at::Tensor& dense = call.tensor(0);
  if (call.arg(2).isNone() || dense.dim() != 3) return false;
  call.give(call.fresh({call.arg(2).toInt(), dense.size(2)}, dense.scalar_type()));
  return true;
}

constexpr RuleRow kRows[] = {
    {"_padded_dense_to_jagged_forward", to_jagged},
    {"index_select", index_select},
    {"flip", flip},
    {"repeat", repeat},
    {"bucketize.Tensor", bucketize},
    {"searchsorted.Tensor", searchsorted},
    {"take", take},
    {"is_set_to", is_set_to},
    {"index.Tensor", without_masks},
    {"_unsafe_index.Tensor", without_masks},
    {"index_put_", index_put},
    {"index_put", index_put},
    {"_index_put_impl_", index_put},
    {"_unsafe_index_put", index_put},
};

}  // namespace

RuleTable index_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
