// Fakes of tensors without strides: sparse ones of all layouts. Only for files of this room that include torch's
// headers.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Layout.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <cstdint>
#include <optional>

namespace pellucid::aten {

// What a region knows of such a tensor besides its sizes, dtype and device. How many of its elements are specified is
// no part of it, nor where: graphs serve all of them.
struct UnstridedFacts {
  c10::Layout layout = c10::kSparse;
  std::int64_t sparse_dims = 0, dense_dims = 0;
  std::array<std::int64_t, 2> block{};    // of the layouts that have blocks
  std::optional<bool> coalesced = false;  // of COO alone; nothing: it is up to the values

  bool operator==(const UnstridedFacts&) const = default;
};

// Of a tensor that is no fake; nothing: it is of none of these layouts, or answers in Python.
std::optional<UnstridedFacts> unstrided_facts(const c10::TensorImpl& real) noexcept;

class UnstridedFake final : public c10::TensorImpl {
 public:
  UnstridedFake(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, c10::IntArrayRef sizes,
                const UnstridedFacts& facts);

  const UnstridedFacts& facts() const noexcept { return facts_; }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 protected:
  c10::Layout layout_impl() const override { return facts_.layout; }
  c10::IntArrayRef strides_custom() const override;
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;

 private:
  template <class Version>
  c10::intrusive_ptr<c10::TensorImpl> copied(Version&& version, bool allow_tensor_metadata_change) const;

  UnstridedFacts facts_;
};

// Null: it is none.
UnstridedFake* unstrided_fake(const c10::TensorImpl* impl) noexcept;

// --- fake_tensor.cpp ---
at::Tensor fake_like_unstrided(const at::Tensor& real, const UnstridedFacts& facts);
// With the memory of `like` where it `shares` it; on its device otherwise, as every result of an operator.
at::Tensor unstrided_result(const at::Tensor& like, c10::ScalarType dtype, c10::IntArrayRef sizes,
                            const UnstridedFacts& facts, bool shares);

}  // namespace pellucid::aten
