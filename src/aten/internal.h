// Shared by the files of this room only. Torch types are named, never defined, so that each file includes the few torch
// headers it needs.
#pragma once
#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>

namespace at {
class Tensor;
class TensorBase;
}  // namespace at
namespace c10 {
struct StorageImpl;
struct TensorImpl;
class DispatchKeySet;
}  // namespace c10

namespace pellucid::aten {

struct SizeScope;
struct OpenShape;

// Of the region whose call of torch runs on this thread; null: none does.
std::shared_ptr<SizeScope>& scope_of_thread() noexcept;

// Every exception that says "this needs the values of a tensor" carries one of these texts.
inline constexpr char kNeedsData[] = "pellucid: this needs the values of a tensor";
inline constexpr char kInvalidStorage[] =
    "Cannot access data pointer of Storage that is invalid";  // c10::StorageImpl's own

// --- fake_tensor.cpp: the fake itself, and its twin on the meta device ---

bool is_fake(const c10::TensorImpl* impl) noexcept;
// Whether a class answers in Python what its sizes, strides, device or layout are.
bool is_laid_out_in_python(const c10::TensorImpl& impl);

// The meta tensor with the same metadata. Twins of fakes that share a storage share one, so aliasing survives a meta
// kernel.
at::Tensor meta_twin(const at::Tensor& tensor);

// A fake with the metadata of `meta` on the device of index `device_index` and type `device_type`, with its own
// storage. The storage of `meta` becomes the storage of the fake's twins.
at::Tensor fake_from_meta(const at::Tensor& meta, int device_type, int device_index);

// A fake with the metadata of `meta` that is a view of the storage of `base` (a fake).
at::Tensor fake_view_from_meta(const at::Tensor& meta, const at::Tensor& base);

// After a meta kernel wrote to the twin of a fake: sizes, strides, offset and storage size go back to the fake.
void adopt_metadata(const at::Tensor& fake, const at::Tensor& twin);

// A fake like `real` (strided, any device). `shares` (may be undefined): a fake whose storage it uses. `shape` (may be
// null): its open sizes, of the scope.
at::Tensor fake_like_real(const at::Tensor& real, const at::Tensor& shares, const std::shared_ptr<SizeScope>& scope,
                          const OpenShape* shape);

// A fake with a new storage, contiguous unless strides are given. For the rules. One of a quantised dtype is what a
// quantiser makes; whoever asks for another does not know what eager gives.
at::Tensor new_fake(const std::int64_t* sizes, std::size_t ndim, const std::int64_t* strides, int scalar_type,
                    int device_type, int device_index);
at::Tensor new_quantised_fake(const at::Tensor& plain, int scalar_type);  // with the layout of this new fake
at::Tensor view_fake(const at::Tensor& base, const std::int64_t* sizes, std::size_t ndim, const std::int64_t* strides,
                     std::int64_t offset);

// --- kernels.cpp ---
void register_kernels();

// --- python_tensor.cpp ---
c10::TensorImpl* impl_of(PyObject* tensor) noexcept;  // of an instance of torch.Tensor
bool is_leaf(PyObject* tensor) noexcept;
const at::Tensor& tensor_in(PyObject* tensor) noexcept;  // the same as torch's own object
PyObject* new_object_of(const at::Tensor& tensor);       // of Python, a new reference; the thread has the GIL
struct AutogradState {
  bool requires_grad, leaf;
};
AutogradState autograd_state(PyObject* tensor) noexcept;

}  // namespace pellucid::aten
