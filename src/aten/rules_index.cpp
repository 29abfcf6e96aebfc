// Indexing by tensors: torch's own meta kernels do the shapes; masks need values.
#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

bool is_mask(const at::Tensor& index) { return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; }

// A mask that is real (a constant of the program) becomes the indices that it stands for.
bool without_masks(Call& call) {
  const c10::IValue& list = call.arg(1);
  bool masks = false;
  for (const c10::IValue& element : list.toListRef()) masks |= element.isTensor() && element.toTensor().defined() && is_mask(element.toTensor());
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

// `x[mask] = value`: the shape of the mask alone decides, when the value is one number.
bool index_put(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const auto indices = call.arg(1).toListRef();
  if (indices.size() != 1 || !indices[0].isTensor() || !is_mask(indices[0].toTensor()) || call.tensor(2).numel() != 1) return without_masks(call);
  const at::Tensor& mask = indices[0].toTensor();
  TORCH_CHECK_INDEX(mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  for (std::int64_t i = 0; i < mask.dim(); ++i) {
    TORCH_CHECK_INDEX(mask.size(i) == self.size(i), "The shape of the mask ", mask.sizes(), " at index ", i,
                      " does not match the shape of the indexed tensor ", self.sizes(), " at index ", i);
  }
  TORCH_CHECK_INDEX(self.scalar_type() == call.tensor(2).scalar_type(), "Index put requires the source and destination dtypes match, got ",
                    self.scalar_type(), " for the destination and ", call.tensor(2).scalar_type(), " for the source.");
  const bool in_place = call.op.writes;
  call.give(in_place ? self : call.fresh(self.sizes(), self.strides(), self.scalar_type()));
  return true;
}

constexpr RuleRow kRows[] = {
    {"index.Tensor", without_masks},          {"_unsafe_index.Tensor", without_masks}, {"index_put_", index_put},
    {"index_put", index_put},                 {"_index_put_impl_", index_put},         {"_unsafe_index_put", index_put},
};

}  // namespace

RuleTable index_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
