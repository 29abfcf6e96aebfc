// A fake with sizes that may be others at the next call. Only for files of this room that include torch's headers.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>

#include "aten/size_node.h"

namespace pellucid::aten {

using symbolic::Expr;

using Exprs = c10::SmallVector<const Expr*, 5>;

// The layout of a tensor as expressions of its capture.
struct Shape {
  Exprs sizes, strides;
  const Expr* offset = nullptr;
};

// While one lives on this thread, symbolic fakes show the sizes of the capture as plain numbers and nothing is
// recorded: for kernels whose results a size rule generalises. Outside, code that reads plain sizes makes them
// constants.
class QuietScope {
 public:
  QuietScope() noexcept { ++depth(); }
  ~QuietScope() { --depth(); }
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;
  static bool is_active() noexcept { return depth() > 0; }

 private:
  static int& depth() noexcept;
};

class SymbolicFake final : public c10::TensorImpl {
 public:
  SymbolicFake(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype,
               std::shared_ptr<SizeScope> scope, const Shape& shape);

  const std::shared_ptr<SizeScope>& scope() const noexcept { return scope_; }
  Shape shape() const;
  void set_shape(const Shape& shape);

 protected:
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  std::int64_t numel_custom() const override;
  std::int64_t storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;

 public:
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 private:
  // The layout at the hints.
  struct Hints {
    c10::SmallVector<std::int64_t, 5> sizes, strides;
    std::int64_t offset = 0, numel = 1;
  };
  const Hints& plain() const;  // asked for outside of a QuietScope: all of it is constant from now on
  template <class Version>
  c10::intrusive_ptr<c10::TensorImpl> copied(Version&& version, bool allow_tensor_metadata_change) const;

  std::shared_ptr<SizeScope> scope_;
  Hints hints_;
};

// Null: its sizes are plain.
SymbolicFake* symbolic_fake(const at::Tensor& tensor) noexcept;
// The wrapper of a level of torch.func around one, whose sizes torch keeps.
bool is_symbolic_wrapper(const at::Tensor& tensor) noexcept;
// Of any strided tensor; what is plain is constant.
Shape shape_of(SizeScope& scope, const at::Tensor& tensor);
bool is_constant(const Shape& shape) noexcept;
// The same fake with another layout, which is its own at the hints. Shares its storage.
at::Tensor with_shape(const at::Tensor& fake, const std::shared_ptr<SizeScope>& scope, const Shape& shape);

// The same fake with its sizes at the hints, for a kernel that refuses others. Shares its storage.
at::Tensor with_hints(const at::Tensor& fake);

// For each dimension the one below it: its stride is size times stride of that. -1: nothing says what its stride is.
using InnerDims = c10::SmallVector<int, 5>;
InnerDims inner_dims(c10::IntArrayRef sizes, c10::IntArrayRef strides);

// Strides of a tensor without gaps, in the order of dimensions that the strides at the hints have; nothing when those
// have gaps.
std::optional<Exprs> dense_strides(symbolic::Space& space, const Exprs& sizes, c10::IntArrayRef at_hints);

}  // namespace pellucid::aten
