#include "aten/tensor_without_data.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace pellucid::aten {
namespace {

namespace autograd = torch::autograd;

template <c10::DeviceType kType>
void ensure_guard() {
  static const c10::impl::NoOpDeviceGuardImpl<kType> guard;
  if (!c10::impl::hasDeviceGuardImpl(kType)) const c10::impl::DeviceGuardImplRegistrar registered(kType, &guard);
}

// Autograd asks for the guard of a device, and ends the process where there is none.
void ensure_guard_of(c10::DeviceType type) {
  switch (type) {
    case c10::kCPU:
    case c10::kMeta:
      return;
    case c10::kCUDA:  // a torch that is built for it has one, which may not be asked where there is no device
      if (c10::impl::hasDeviceGuardImpl(type)) return c10::impl::ensureCUDADeviceGuardSet();
      return ensure_guard<c10::kCUDA>();
    case c10::kXPU:
      return ensure_guard<c10::kXPU>();
    case c10::kMPS:
      return ensure_guard<c10::kMPS>();
    case c10::kHPU:
      return ensure_guard<c10::kHPU>();
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "no tensor without data on ", type);
  }
}

c10::Storage storage_without_data(std::int64_t bytes, c10::Device device) {
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(nullptr, device),
                                            /*allocator=*/nullptr, /*resizable=*/false);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_("a tensor of a record has no data");
  return storage;
}

at::Tensor made(const LayoutWithoutData& layout, c10::ScalarType dtype, c10::Device device, const at::Tensor* shares) {
  ensure_guard_of(device.type());
  c10::Storage storage = shares == nullptr ? storage_without_data(layout.bytes, device) : shares->storage();
  TORCH_CHECK(storage.device() == device, "tensors of one storage are on one device");
  const c10::DispatchKeySet keys(c10::computeDispatchKey(dtype, c10::kStrided, device));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  if (shares == nullptr || !layout.is_view) return tensor;
  return autograd::make_variable_differentiable_view(tensor, autograd::ViewInfo(*shares, nullptr, nullptr),
                                                     std::nullopt, /*shared_view_info=*/true,
                                                     autograd::CreationMeta::DEFAULT);
}

}  // namespace

py::Owned<> tensor_without_data(const LayoutWithoutData& layout, PyObject* dtype, PyObject* device, PyObject* shares) {
  const bool fits =
      THPDtype_Check(dtype) && THPDevice_Check(device) && (shares == Py_None || THPVariable_Check(shares));
  if (!fits) {
    PyErr_SetString(PyExc_TypeError, "expected a dtype, a device, and a tensor or None");
    throw py::PythonError();
  }
  const auto make = [&]() -> PyObject* {
    HANDLE_TH_ERRORS
    const at::Tensor shared = shares == Py_None ? at::Tensor() : THPVariable_Unpack(shares);
    return THPVariable_Wrap(made(layout, reinterpret_cast<THPDtype*>(dtype)->scalar_type,
                                 reinterpret_cast<THPDevice*>(device)->device, shared.defined() ? &shared : nullptr));
    END_HANDLE_TH_ERRORS
  };
  return py::take(make());
}

}  // namespace pellucid::aten
