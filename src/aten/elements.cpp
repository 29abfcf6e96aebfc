#include "aten/elements.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "aten/aten.h"
#include "aten/internal.h"

namespace pellucid::aten {
namespace {

const c10::TensorImpl* of_plain_memory(PyObject* object) noexcept {
  if (!is_plain_tensor(object) || is_fake(object)) return nullptr;
  const c10::TensorImpl* impl = impl_of(object);
  const c10::ScalarType dtype = c10::typeMetaToScalarType(impl->dtype());
  const bool holds_numbers = c10::isIntegralType(dtype, /*includeBool=*/true) && !impl->requires_grad();
  const bool is_dense = impl->layout() == c10::kStrided && impl->device().is_cpu();
  return holds_numbers && is_dense && impl->is_contiguous() ? impl : nullptr;
}

std::size_t bytes_of(const c10::TensorImpl* impl) noexcept {
  return static_cast<std::size_t>(impl->numel()) * impl->itemsize();
}

}  // namespace

py::Owned<> elements_of(PyObject* tensor) {
  const c10::TensorImpl* impl = of_plain_memory(tensor);
  if (impl == nullptr) return {};
  return py::take(
      PyBytes_FromStringAndSize(static_cast<const char*>(impl->data()), static_cast<Py_ssize_t>(bytes_of(impl))));
}

bool has_elements(PyObject* tensor, PyObject* bytes) noexcept {
  const c10::TensorImpl* impl = of_plain_memory(tensor);
  if (impl == nullptr || static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)) != bytes_of(impl)) return false;
  return bytes_of(impl) == 0 || std::memcmp(impl->data(), PyBytes_AS_STRING(bytes), bytes_of(impl)) == 0;
}

struct WithData::State {
  std::shared_ptr<SizeScope> scope = std::exchange(scope_of_thread(), nullptr);
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  at::impl::TorchFunctionDisabledState functions = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  c10::AutoGradMode no_gradients{false};
  at::RecordFunctionGuard no_profiler{false};
};

WithData::WithData() : state_(std::make_unique<State>()) {
  // A thread that has just begun has no keys but torch's own.
  c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{}));
  at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
}

WithData::~WithData() {
  at::impl::PythonTorchFunctionTLS::set_disabled_state(state_->functions);
  c10::impl::_force_tls_local_dispatch_key_set(state_->keys);
  scope_of_thread() = std::move(state_->scope);
}

}  // namespace pellucid::aten
