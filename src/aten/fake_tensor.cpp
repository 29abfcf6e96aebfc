// The fake: an ordinary TensorImpl on the key PrivateUse3, with a storage that has the real device and no data.
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <atomic>

#include "aten/aten.h"
#include "aten/internal.h"
#include "aten/symbolic_fake.h"
#include "aten/unstrided_fake.h"

namespace pellucid::aten {
namespace {

std::atomic<std::int64_t> live_storages{0};

// Its twin on the meta device is made when a meta kernel first needs it, and is shared by the twins of all views.
struct FakeStorage final : c10::StorageImpl {
  FakeStorage(std::int64_t nbytes, c10::Device device, c10::Allocator* allocator)
      : StorageImpl(use_byte_size_t(), nbytes, c10::DataPtr(nullptr, device), allocator, /*resizable=*/true) {
    release_data_and_set_meta_custom_data_ptr_error_msg_(std::nullopt);  // every access of the data throws
    live_storages.fetch_add(1, std::memory_order_relaxed);
  }
  ~FakeStorage() override { live_storages.fetch_sub(1, std::memory_order_relaxed); }

  c10::intrusive_ptr<c10::StorageImpl> twin;
};

// Never asked for memory: it is here because a resizable storage must name an allocator.
struct NoMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t) override { return {nullptr, c10::Device(c10::kCPU)}; }
  void copy_data(void*, const void*, std::size_t) const override {}
};
NoMemory no_memory;

constexpr c10::DispatchKeySet kViewBits{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                        c10::DispatchKey::ZeroTensor};
const c10::DispatchKeySet kAutogradKeys{c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutogradPrivateUse3};

c10::DispatchKeySet autocast_keys(c10::DeviceType device) {
  switch (device) {
    case c10::kCPU:
      return c10::DispatchKeySet(c10::DispatchKey::AutocastCPU);
    case c10::kCUDA:
      return c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA);
    case c10::kXPU:
      return c10::DispatchKeySet(c10::DispatchKey::AutocastXPU);
    case c10::kMPS:
      return c10::DispatchKeySet(c10::DispatchKey::AutocastMPS);
    default:
      return {};
  }
}

c10::DispatchKeySet fake_keys(c10::DeviceType device, bool inference,
                              c10::DispatchKey key = c10::DispatchKey::PrivateUse3) {
  auto keys = c10::DispatchKeySet(key) | autocast_keys(device);
  return inference ? keys : keys | kAutogradKeys;
}

c10::DispatchKeySet unstrided_keys(c10::DeviceType device, c10::Layout layout, bool inference) {
  using c10::DispatchKey;
  const bool is_coo = layout == c10::kSparse;
  return fake_keys(device, inference, is_coo ? DispatchKey::SparsePrivateUse3 : DispatchKey::SparseCsrPrivateUse3);
}

c10::intrusive_ptr<c10::StorageImpl> new_storage(std::int64_t nbytes, c10::Device device) {
  return c10::make_intrusive<FakeStorage>(nbytes, device, &no_memory);
}

FakeStorage& storage_of(const c10::TensorImpl& fake) {
  return *static_cast<FakeStorage*>(fake.unsafe_storage().unsafeGetStorageImpl());
}

// The VIEW constructor takes the key set as it is: inference mode has been decided by whoever built the keys.
at::Tensor make(c10::intrusive_ptr<c10::StorageImpl> storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype,
                c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset) {
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(std::move(storage)), keys, dtype);
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

c10::intrusive_ptr<c10::StorageImpl> meta_storage(std::int64_t nbytes) {
  static c10::Allocator* const allocator = c10::GetAllocator(c10::kMeta);
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                               c10::DataPtr(nullptr, c10::Device(c10::kMeta)), allocator,
                                               /*resizable=*/true);
}

void check_strided(const c10::TensorImpl& impl, bool may_be_quantised = false) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      impl.layout() == c10::kStrided && impl.has_storage() && !impl.is_nested() &&
          !impl.key_set().has(c10::DispatchKey::Python) && (may_be_quantised || !impl.is_quantized()),
      "pellucid: no fake of a tensor with layout ", impl.layout(), " and keys ", impl.key_set());
  TORCH_CHECK_NOT_IMPLEMENTED(!impl.has_symbolic_sizes_strides(), "pellucid: no fake of a tensor with symbolic sizes");
}

// An operator that no rule knows gave a quantised tensor, or one that only has the dtype of such.
void check_not_quantised(caffe2::TypeMeta dtype) {
  const c10::ScalarType type = c10::typeMetaToScalarType(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(type), "pellucid: no fake of a new tensor of dtype ", type);
}

std::vector<std::int64_t> contiguous_strides(const std::int64_t* sizes, std::size_t ndim) {
  std::vector<std::int64_t> strides(ndim);
  std::int64_t extent = 1;
  for (std::size_t i = ndim; i-- > 0;) {
    strides[i] = extent;
    extent *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

}  // namespace

bool is_fake(const c10::TensorImpl* impl) noexcept {
  return impl->key_set().has_backend(c10::BackendComponent::PrivateUse3Bit);
}

std::int64_t live_fakes() noexcept { return live_storages.load(std::memory_order_relaxed); }

at::Tensor meta_twin(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::intrusive_ptr<c10::StorageImpl> storage;
  if (is_fake(&impl)) {
    TORCH_CHECK_NOT_IMPLEMENTED(unstrided_fake(&impl) == nullptr && !impl.is_quantized(),
                                "pellucid: no meta kernel takes sparse and quantised tensors");
    FakeStorage& own = storage_of(impl);
    if (!own.twin) own.twin = meta_storage(static_cast<std::int64_t>(own.nbytes()));
    storage = own.twin;
  } else {
    check_strided(impl);
    storage = meta_storage(static_cast<std::int64_t>(impl.storage().nbytes()));
  }
  auto keys = c10::DispatchKeySet(c10::DispatchKey::Meta) | (impl.key_set() & kViewBits);
  at::Tensor twin = make(std::move(storage), keys, impl.dtype(), impl.sizes(), impl.strides(), impl.storage_offset());
  if (impl.is_wrapped_number()) twin.unsafeGetTensorImpl()->set_wrapped_number(true);
  return twin;
}

at::Tensor fake_from_meta(const at::Tensor& meta, int device_type, int device_index) {
  const c10::TensorImpl& impl = *meta.unsafeGetTensorImpl();
  check_strided(impl);
  check_not_quantised(impl.dtype());
  const c10::Device device(static_cast<c10::DeviceType>(device_type), static_cast<c10::DeviceIndex>(device_index));
  auto storage = new_storage(static_cast<std::int64_t>(impl.unsafe_storage().nbytes()), device);
  static_cast<FakeStorage&>(*storage).twin =
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl.unsafe_storage().unsafeGetStorageImpl());
  auto keys = fake_keys(device.type(), c10::InferenceMode::is_enabled()) | (impl.key_set() & kViewBits);
  return make(std::move(storage), keys, impl.dtype(), impl.sizes(), impl.strides(), impl.storage_offset());
}

at::Tensor fake_view_from_meta(const at::Tensor& meta, const at::Tensor& base) {
  const c10::TensorImpl& impl = *meta.unsafeGetTensorImpl();
  const c10::TensorImpl& from = *base.unsafeGetTensorImpl();
  check_not_quantised(impl.dtype());
  auto keys = (from.key_set() - kViewBits) | (impl.key_set() & kViewBits);
  auto storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(from.unsafe_storage().unsafeGetStorageImpl());
  return make(std::move(storage), keys, impl.dtype(), impl.sizes(), impl.strides(), impl.storage_offset());
}

void adopt_metadata(const at::Tensor& fake, const at::Tensor& twin) {
  c10::TensorImpl& to = *fake.unsafeGetTensorImpl();
  const c10::TensorImpl& from = *twin.unsafeGetTensorImpl();
  FakeStorage& storage = storage_of(to);
  const auto* from_storage = from.unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(storage.twin.get() == from_storage,
                              "pellucid: an operator replaced the storage of a tensor");
  if (storage.nbytes() != from_storage->nbytes()) storage.set_nbytes(from_storage->nbytes());
  if (to.sizes() != from.sizes() || to.strides() != from.strides() || to.storage_offset() != from.storage_offset()) {
    if (SymbolicFake* open = symbolic_fake(fake)) {
      open->set_shape(shape_of(*open->scope(), twin));  // the operator has fixed what it reshapes
    } else {
      to.set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
    }
  }
}

at::Tensor fake_like_real(const at::Tensor& real, const at::Tensor& shares, const std::shared_ptr<SizeScope>& scope,
                          const OpenShape* open) {
  c10::TensorImpl& impl = *real.unsafeGetTensorImpl();
  check_strided(impl, /*may_be_quantised=*/true);
  auto storage = shares.defined() ? c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                                        shares.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl())
                                  : new_storage(static_cast<std::int64_t>(impl.storage().nbytes()), impl.device());
  const auto key = impl.is_quantized() ? c10::DispatchKey::QuantizedPrivateUse3 : c10::DispatchKey::PrivateUse3;
  auto keys = fake_keys(impl.device().type(), impl.is_inference(), key) | (impl.key_set() & kViewBits);
  at::Tensor fake = make(std::move(storage), keys, impl.dtype(), impl.sizes(), impl.strides(), impl.storage_offset());
  if (open != nullptr) {
    const Shape shape{Exprs(open->sizes.begin(), open->sizes.end()), Exprs(open->strides.begin(), open->strides.end()),
                      scope->space.constant(symbolic::Value::of(impl.storage_offset()))};
    fake = with_shape(fake, scope, shape);
  }
  if (impl.is_wrapped_number()) fake.unsafeGetTensorImpl()->set_wrapped_number(true);
  return fake;
}

at::Tensor fake_like_unstrided(const at::Tensor& real, const UnstridedFacts& facts) {
  c10::TensorImpl& impl = *real.unsafeGetTensorImpl();
  const auto keys = unstrided_keys(impl.device().type(), facts.layout, impl.is_inference());
  return at::Tensor(c10::make_intrusive<UnstridedFake>(c10::Storage(new_storage(0, impl.device())), keys, impl.dtype(),
                                                       impl.sizes(), facts));
}

at::Tensor unstrided_result(const at::Tensor& like, c10::ScalarType dtype, c10::IntArrayRef sizes,
                            const UnstridedFacts& facts, bool shares) {
  const c10::TensorImpl& from = *like.unsafeGetTensorImpl();
  auto storage = shares ? c10::Storage(from.unsafe_storage()) : c10::Storage(new_storage(0, from.device()));
  const auto keys = unstrided_keys(from.device().type(), facts.layout, c10::InferenceMode::is_enabled());
  return at::Tensor(
      c10::make_intrusive<UnstridedFake>(std::move(storage), keys, c10::scalarTypeToTypeMeta(dtype), sizes, facts));
}

at::Tensor new_fake(const std::int64_t* sizes, std::size_t ndim, const std::int64_t* strides, int scalar_type,
                    int device_type, int device_index) {
  const c10::Device device(static_cast<c10::DeviceType>(device_type), static_cast<c10::DeviceIndex>(device_index));
  const auto dtype = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(scalar_type));
  check_not_quantised(dtype);
  std::vector<std::int64_t> dense;
  if (strides == nullptr) {
    dense = contiguous_strides(sizes, ndim);
    strides = dense.data();
  }
  std::int64_t last = 1;
  for (std::size_t i = 0; i < ndim; ++i) last = sizes[i] == 0 || last == 0 ? 0 : last + (sizes[i] - 1) * strides[i];
  auto storage = new_storage(last * static_cast<std::int64_t>(dtype.itemsize()), device);
  return make(std::move(storage), fake_keys(device.type(), c10::InferenceMode::is_enabled()), dtype, {sizes, ndim},
              {strides, ndim}, 0);
}

at::Tensor new_quantised_fake(const at::Tensor& plain, int scalar_type) {
  const c10::TensorImpl& like = *plain.unsafeGetTensorImpl();
  const auto dtype = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(scalar_type));
  const auto keys =
      fake_keys(like.device().type(), c10::InferenceMode::is_enabled(), c10::DispatchKey::QuantizedPrivateUse3);
  auto storage = new_storage(like.numel() * static_cast<std::int64_t>(dtype.itemsize()), like.device());
  return make(std::move(storage), keys, dtype, like.sizes(), like.strides(), 0);
}

at::Tensor view_fake(const at::Tensor& base, const std::int64_t* sizes, std::size_t ndim, const std::int64_t* strides,
                     std::int64_t offset) {
  const c10::TensorImpl& from = *base.unsafeGetTensorImpl();
  auto storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(from.unsafe_storage().unsafeGetStorageImpl());
  return make(std::move(storage), from.key_set(), from.dtype(), {sizes, ndim}, {strides, ndim}, offset);
}

}  // namespace pellucid::aten
