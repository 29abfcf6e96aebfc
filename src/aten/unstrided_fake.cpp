#include "aten/unstrided_fake.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

#include "aten/internal.h"

namespace pellucid::aten {
namespace {

constexpr char kNoStrides[] = "pellucid: this asks for the strides of a tensor that has none";

}  // namespace

// By class: tensors around others have their keys.
std::optional<UnstridedFacts> unstrided_facts(const c10::TensorImpl& real) noexcept {
  if (real.key_set().has(c10::DispatchKey::Python)) return std::nullopt;
  UnstridedFacts facts;
  if (const auto* coo = dynamic_cast<const at::SparseTensorImpl*>(&real)) {
    facts.sparse_dims = coo->sparse_dim();
    facts.dense_dims = coo->dense_dim();
    facts.coalesced = coo->coalesced();
    return facts;
  }
  const auto* compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(&real);
  if (compressed == nullptr) return std::nullopt;
  facts.layout = real.layout();
  facts.dense_dims = compressed->dense_dim();
  facts.sparse_dims = 2;
  facts.coalesced = std::nullopt;
  if (facts.layout == c10::kSparseBsr || facts.layout == c10::kSparseBsc) {
    auto& parts = const_cast<at::SparseCsrTensorImpl&>(*compressed);   // its questions are not const
    const auto sizes = parts.values().unsafeGetTensorImpl()->sizes();  // batches, elements, the block, dense dims
    const auto block = static_cast<std::int64_t>(sizes.size()) - facts.dense_dims - 2;
    if (block < 0) return std::nullopt;
    facts.block = {sizes[static_cast<std::size_t>(block)], sizes[static_cast<std::size_t>(block) + 1]};
  }
  return facts;
}

UnstridedFake::UnstridedFake(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype,
                             c10::IntArrayRef sizes, const UnstridedFacts& facts)
    : TensorImpl(VIEW, std::move(storage), keys, dtype), facts_(facts) {
  sizes_and_strides_.set_sizes(sizes);
  refresh_numel();
  is_non_overlapping_and_dense_ = false;
  set_storage_access_should_throw();
  set_custom_sizes_strides(SizesStridesPolicy::CustomStrides);
}

c10::IntArrayRef UnstridedFake::strides_custom() const { TORCH_CHECK_NOT_IMPLEMENTED(false, kNoStrides); }
c10::SymIntArrayRef UnstridedFake::sym_strides_custom() const { TORCH_CHECK_NOT_IMPLEMENTED(false, kNoStrides); }
c10::SymBool UnstridedFake::sym_is_contiguous_custom(at::MemoryFormat /*format*/) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, kNoStrides);
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> UnstridedFake::copied(Version&& version, bool allow_tensor_metadata_change) const {
  auto made =
      c10::make_intrusive<UnstridedFake>(c10::Storage(unsafe_storage()), key_set(), dtype(), sizes_default(), facts_);
  copy_tensor_metadata(this, made.get(), std::forward<Version>(version), allow_tensor_metadata_change);
  return made;
}
c10::intrusive_ptr<c10::TensorImpl> UnstridedFake::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                           bool allow_tensor_metadata_change) const {
  return copied(version, allow_tensor_metadata_change);
}
c10::intrusive_ptr<c10::TensorImpl> UnstridedFake::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                           bool allow_tensor_metadata_change) const {
  return copied(std::move(version), allow_tensor_metadata_change);
}
void UnstridedFake::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& /*impl*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "pellucid: a sparse tensor gets the data of another");
}

UnstridedFake* unstrided_fake(const c10::TensorImpl* impl) noexcept {
  if (!is_fake(impl) || (!impl->is_sparse() && !impl->is_sparse_compressed())) return nullptr;
  return dynamic_cast<UnstridedFake*>(const_cast<c10::TensorImpl*>(impl));
}

}  // namespace pellucid::aten
