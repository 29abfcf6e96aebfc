// gcc takes the inline storage of torch's SmallVector, in the functions of c10/core/Contiguity.h, for something read.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "aten/symbolic_fake.h"

#include <c10/core/Contiguity.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "aten/internal.h"
#include "symbolic/integers.h"

namespace pellucid::aten {

using symbolic::Value;

int& QuietScope::depth() noexcept {
  thread_local int depth = 0;
  return depth;
}

SymbolicFake::SymbolicFake(c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype,
                           std::shared_ptr<SizeScope> scope, const Shape& shape)
    : TensorImpl(VIEW, std::move(storage), keys, dtype), scope_(std::move(scope)) {
  set_shape(shape);
}

void SymbolicFake::set_shape(const Shape& shape) {
  c10::SmallVector<c10::SymInt, 5> sizes, strides;
  hints_ = {};
  for (const Expr* size : shape.sizes) {
    sizes.push_back(symint_of(scope_, size));
    hints_.sizes.push_back(size->hint.i);
    hints_.numel *= size->hint.i;
  }
  for (const Expr* stride : shape.strides) {
    strides.push_back(symint_of(scope_, stride));
    hints_.strides.push_back(stride->hint.i);
  }
  hints_.offset = shape.offset->hint.i;
  set_sizes_and_strides(sizes, strides, symint_of(scope_, shape.offset));
}

Shape SymbolicFake::shape() const {
  Shape shape;
  for (const c10::SymInt& size : sym_sizes_default()) shape.sizes.push_back(expr_of(*scope_, size));
  for (const c10::SymInt& stride : sym_strides_default()) shape.strides.push_back(expr_of(*scope_, stride));
  shape.offset = expr_of(*scope_, sym_storage_offset_default());
  return shape;
}

const SymbolicFake::Hints& SymbolicFake::plain() const {
  if (QuietScope::is_active()) return hints_;
  const Shape shape = this->shape();
  const auto fix = [&](const Expr* number) {
    if (number->is_constant()) return;
    TORCH_CHECK(scope_->decider != nullptr, "pellucid: a symbolic tensor outlived its region");
    scope_->decider->fix(number, "code that reads plain sizes");
  };
  std::ranges::for_each(shape.sizes, fix);
  std::ranges::for_each(shape.strides, fix);
  fix(shape.offset);
  return hints_;
}

c10::IntArrayRef SymbolicFake::sizes_custom() const { return plain().sizes; }
c10::IntArrayRef SymbolicFake::strides_custom() const { return plain().strides; }
std::int64_t SymbolicFake::numel_custom() const { return plain().numel; }
std::int64_t SymbolicFake::storage_offset_custom() const { return plain().offset; }

namespace {

template <class T>
bool is_contiguous_as(at::MemoryFormat format, c10::ArrayRef<T> sizes, c10::ArrayRef<T> strides, const T& numel) {
  switch (format) {
    case at::MemoryFormat::ChannelsLast:
      return c10::_compute_channels_last_contiguous_2d<T>(sizes, strides);
    case at::MemoryFormat::ChannelsLast3d:
      return c10::_compute_channels_last_contiguous_3d<T>(sizes, strides);
    default:
      return c10::_compute_contiguous<T>(sizes, strides, numel);
  }
}

template <class T>
bool strides_are_like(at::MemoryFormat format, c10::ArrayRef<T> sizes, c10::ArrayRef<T> strides) {
  switch (format) {
    case at::MemoryFormat::ChannelsLast:
      return c10::is_channels_last_strides_2d<T>(sizes, strides);
    case at::MemoryFormat::ChannelsLast3d:
      return c10::is_channels_last_strides_3d<T>(sizes, strides);
    default:
      return false;
  }
}

}  // namespace

// torch's own algorithms, at the hints or by decisions about the expressions.
c10::SymBool SymbolicFake::sym_is_contiguous_custom(at::MemoryFormat format) const {
  if (QuietScope::is_active()) {
    return is_contiguous_as<std::int64_t>(format, hints_.sizes, hints_.strides, hints_.numel);
  }
  return is_contiguous_as<c10::SymInt>(format, sym_sizes_default(), sym_strides_default(), sym_numel_default());
}
bool SymbolicFake::is_strides_like_custom(at::MemoryFormat format) const {
  if (QuietScope::is_active()) return strides_are_like<std::int64_t>(format, hints_.sizes, hints_.strides);
  return strides_are_like<c10::SymInt>(format, sym_sizes_default(), sym_strides_default());
}
c10::SymBool SymbolicFake::sym_is_non_overlapping_and_dense_custom() const {
  if (QuietScope::is_active())
    return c10::_compute_non_overlapping_and_dense<std::int64_t>(hints_.sizes, hints_.strides);
  return c10::_compute_non_overlapping_and_dense<c10::SymInt>(sym_sizes_default(), sym_strides_default());
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> SymbolicFake::copied(Version&& version, bool allow_tensor_metadata_change) const {
  auto made = c10::make_intrusive<SymbolicFake>(c10::Storage(unsafe_storage()), key_set(), dtype(), scope_, shape());
  copy_tensor_metadata(this, made.get(), std::forward<Version>(version), allow_tensor_metadata_change);
  return made;
}
c10::intrusive_ptr<c10::TensorImpl> SymbolicFake::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                          bool allow_tensor_metadata_change) const {
  return copied(version, allow_tensor_metadata_change);
}
c10::intrusive_ptr<c10::TensorImpl> SymbolicFake::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                          bool allow_tensor_metadata_change) const {
  return copied(std::move(version), allow_tensor_metadata_change);
}
void SymbolicFake::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  const auto* other = dynamic_cast<const SymbolicFake*>(impl.get());
  TORCH_CHECK_NOT_IMPLEMENTED(other != nullptr, "pellucid: a tensor with open sizes gets the data of one without");
  copy_tensor_metadata(impl.get(), this, version_counter(), allow_tensor_metadata_change());
  scope_ = other->scope_;
  hints_ = other->hints_;
}

SymbolicFake* symbolic_fake(const at::Tensor& tensor) noexcept {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->has_symbolic_sizes_strides() && is_fake(impl) ? static_cast<SymbolicFake*>(impl) : nullptr;
}

bool is_symbolic_wrapper(const at::Tensor& tensor) noexcept {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->has_symbolic_sizes_strides() && !is_fake(impl);
}

namespace {

Shape shape_of_wrapper(SizeScope& scope, const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  Shape shape;
  for (const c10::SymInt& size : impl.sym_sizes_default()) shape.sizes.push_back(expr_of(scope, size));
  for (const c10::SymInt& stride : impl.sym_strides_default()) shape.strides.push_back(expr_of(scope, stride));
  shape.offset = expr_of(scope, impl.sym_storage_offset_default());
  return shape;
}

}  // namespace

Shape shape_of(SizeScope& scope, const at::Tensor& tensor) {
  if (const SymbolicFake* fake = symbolic_fake(tensor)) return fake->shape();
  if (is_symbolic_wrapper(tensor)) return shape_of_wrapper(scope, tensor);
  const auto constant = [&](std::int64_t number) { return scope.space.constant(Value::of(number)); };
  Shape shape;
  for (const std::int64_t size : tensor.sizes()) shape.sizes.push_back(constant(size));
  for (const std::int64_t stride : tensor.strides()) shape.strides.push_back(constant(stride));
  shape.offset = constant(tensor.storage_offset());
  return shape;
}

bool is_constant(const Shape& shape) noexcept {
  const auto constant = [](const Expr* number) { return number->is_constant(); };
  return std::ranges::all_of(shape.sizes, constant) && std::ranges::all_of(shape.strides, constant) &&
         constant(shape.offset);
}

at::Tensor with_shape(const at::Tensor& fake, const std::shared_ptr<SizeScope>& scope, const Shape& shape) {
  const c10::TensorImpl& impl = *fake.unsafeGetTensorImpl();
  auto made = c10::make_intrusive<SymbolicFake>(c10::Storage(impl.unsafe_storage()), impl.key_set(), impl.dtype(),
                                                scope, shape);
  if (impl.is_wrapped_number()) made->set_wrapped_number(true);
  return at::Tensor(std::move(made));
}

at::Tensor with_hints(const at::Tensor& fake) {
  const QuietScope hints;
  const c10::TensorImpl& impl = *fake.unsafeGetTensorImpl();
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(impl.unsafe_storage()),
                                                   impl.key_set(), impl.dtype());
  made->set_sizes_and_strides(impl.sizes(), impl.strides(), impl.storage_offset());
  if (impl.is_wrapped_number()) made->set_wrapped_number(true);
  return at::Tensor(std::move(made));
}

InnerDims inner_dims(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});  // of equal strides the last dimension is the inner one
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (strides[a] != strides[b]) return strides[a] < strides[b];
    return sizes[a] == 1 && sizes[b] != 1;  // beside one that reaches further
  });
  InnerDims inner(sizes.size(), -1);
  int last = -1;
  for (const std::size_t i : order) {
    if (strides[i] == 0 && sizes[i] != 1) continue;  // expanded: it says nothing of the next one
    const auto at = static_cast<std::size_t>(last);
    if (last >= 0 && std::max<std::int64_t>(sizes[at], 1) * strides[at] == strides[i]) inner[i] = last;
    last = static_cast<int>(i);
  }
  return inner;
}

std::optional<Exprs> dense_strides(symbolic::Space& space, const Exprs& sizes, c10::IntArrayRef like) {
  c10::SmallVector<std::int64_t, 5> hints;
  for (const Expr* size : sizes) hints.push_back(size->hint.i);
  const InnerDims inner = inner_dims(hints, like);
  Exprs strides(sizes.size(), nullptr);
  for (std::size_t i = 0; i < sizes.size(); ++i) {  // each is reached from its inner ones, which may stand behind it
    c10::SmallVector<std::size_t, 5> chain;
    for (auto at = static_cast<int>(i); at >= 0 && strides[static_cast<std::size_t>(at)] == nullptr;
         at = inner[static_cast<std::size_t>(at)])
      chain.push_back(static_cast<std::size_t>(at));
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      if (inner[*at] < 0) {
        if (like[*at] != 1) return std::nullopt;
        strides[*at] = space.constant(Value::of(1));
        continue;
      }
      const auto next = static_cast<std::size_t>(inner[*at]);
      strides[*at] =
          sizes[next]->is_constant(0) ? strides[next] : symbolic::product_of(space.nodes(), sizes[next], strides[next]);
      if (strides[*at] == nullptr) return std::nullopt;
    }
  }
  return strides;
}

}  // namespace pellucid::aten
