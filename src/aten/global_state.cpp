// GlobalState: one row for each piece of torch state that changes what a program computes.
#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <array>
#include <utility>

#include "aten/aten.h"
#include "aten/internal.h"

namespace pellucid::aten {
namespace {

using Value = std::uint64_t;

Value mixed(Value seed, const void* pointer) { return (seed ^ reinterpret_cast<Value>(pointer)) * 0x100000001b3ULL; }

// Modes are compared by type and order: a new instance of the same class does not recompile.
Value function_modes() {
  const std::int64_t count = at::impl::PythonTorchFunctionTLS::stack_len();
  Value seed = static_cast<Value>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    seed = mixed(seed,
                 Py_TYPE(at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter())));
  }
  return seed;
}

Value dispatch_modes() {
  const std::int64_t count = c10::impl::TorchDispatchModeTLS::stack_len();
  Value seed = static_cast<Value>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    seed = mixed(seed,
                 Py_TYPE(c10::impl::TorchDispatchModeTLS::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter())));
  }
  return seed;
}

// 0 while disabled: the dtype matters only inside an autocast block.
Value autocast(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return 0;
  return 1 + static_cast<Value>(at::autocast::get_autocast_dtype(device));
}

// How many autocast blocks are open: leaving the last one drops the cache of cast weights.
Value autocast_nesting() {
  at::autocast::increment_nesting();
  return static_cast<Value>(at::autocast::decrement_nesting());
}

void set_autocast_nesting(Value wanted) {
  for (Value open = autocast_nesting(); open < wanted; ++open) at::autocast::increment_nesting();
  for (Value open = autocast_nesting(); open > wanted; --open) at::autocast::decrement_nesting();
}

Value functorch_level() {
  if (!in_function_transform()) return 0;
  // Its C++ header needs a library that torch does not ship. Only inside vmap, grad and the like, where nothing is hot.
  static PyObject* const level = py::import_attr("torch._C._functorch", "maybe_current_level").release();
  auto found = py::Owned<>::steal(PyObject_CallNoArgs(level));
  const long value = found && PyLong_Check(found.get()) ? PyLong_AsLong(found.get()) : -1;
  PyErr_Clear();
  return static_cast<Value>(value);
}

Value saved_tensor_hooks() {
  const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
  return (state.stack.size() << 1) | Value{state.disabled_error_message.has_value()};
}

Value sdpa_kernels() {
  const auto& context = at::globalContext();
  return Value{context.userEnabledFlashSDP()} | Value{context.userEnabledMemEfficientSDP()} << 1 |
         Value{context.userEnabledMathSDP()} << 2 | Value{context.userEnabledCuDNNSDP()} << 3 |
         Value{context.allowFP16BF16ReductionMathSDP()} << 4;
}

Value matmul_precision() {
  const auto& context = at::globalContext();
  return static_cast<Value>(context.float32MatmulPrecision()) |
         static_cast<Value>(context.allowFP16ReductionCuBLAS()) << 8 |
         static_cast<Value>(context.allowBF16ReductionCuBLAS()) << 16;
}

struct Field {
  const char* name;
  bool flag;  // printed as True or False
  Value (*read)();
};

c10::AutogradState& autograd() { return c10::AutogradState::get_tls_state(); }

constexpr Field kFields[] = {
    {"grad_mode", true, [] { return Value{autograd().get_grad_mode()}; }},
    {"inference_mode", true, [] { return Value{autograd().get_inference_mode()}; }},
    {"forward_grad_mode", true, [] { return Value{autograd().get_fw_grad_mode()}; }},
    {"deterministic_algorithms", true, [] { return Value{at::globalContext().deterministicAlgorithms()}; }},
    {"deterministic_algorithms_warn_only", true,
     [] { return Value{at::globalContext().deterministicAlgorithmsWarnOnly()}; }},
    {"default_dtype", false, [] { return static_cast<Value>(c10::get_default_dtype_as_scalartype()); }},
    {"torch_function_state", false,
     [] { return static_cast<Value>(at::impl::PythonTorchFunctionTLS::get_disabled_state()); }},
    {"torch_function_mode_stack", false, function_modes},
    {"torch_dispatch_mode_stack", false, dispatch_modes},
    {"autocast_cpu", false, [] { return autocast(c10::kCPU); }},
    {"autocast_cuda", false, [] { return autocast(c10::kCUDA); }},
    {"autocast_cache_enabled", true, [] { return Value{at::autocast::is_autocast_cache_enabled()}; }},
    {"autocast_nesting", false, autocast_nesting},
    {"functorch_level", false, functorch_level},
    {"saved_tensor_hooks", false, saved_tensor_hooks},
    {"sdpa_kernels", false, sdpa_kernels},
    {"matmul_precision", false, matmul_precision},
    {"mkldnn_enabled", true, [] { return Value{at::globalContext().userEnabledMkldnn()}; }},
    {"cudnn_enabled", true, [] { return Value{at::globalContext().userEnabledCuDNN()}; }},
    // The rest (autocast of other devices, functionalization, tracing, …) shows in the thread's dispatch keys.
    {"dispatch_keys_included", false, [] { return c10::impl::tls_local_dispatch_key_set().included_.raw_repr(); }},
    {"dispatch_keys_excluded", false, [] { return c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr(); }},
};
constexpr std::size_t kCount = std::size(kFields);

template <std::size_t... I>
void read_all(Value* values, std::index_sequence<I...>) noexcept {
  ((values[I] = kFields[I].read()), ...);
}

// torch.set_default_device and `with torch.device(...)` are function modes.
bool is_device_context(PyObject* mode) noexcept {
  static PyObject* const type = [] {
    PyObject* module = py::module_if_any("torch.utils._device");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "DeviceContext") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type;
}

PyObject* function_mode_at(std::int64_t i) noexcept {  // borrowed
  return at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter());
}

// The device of the innermost DeviceContext.
py::Owned<> default_device() noexcept {
  for (std::int64_t i = at::impl::PythonTorchFunctionTLS::stack_len(); i-- > 0;) {
    PyObject* mode = function_mode_at(i);
    if (!is_device_context(mode)) continue;
    auto device = py::Owned<>::steal(PyObject_GetAttrString(mode, "device"));
    if (device) return device;
    PyErr_Clear();
  }
  return py::Owned<>::share(Py_None);
}

bool same_device(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

std::string shown(const Field& field, Value value) {
  if (field.flag) return value != 0 ? "True" : "False";
  return std::to_string(value);
}

}  // namespace

bool in_function_transform() noexcept {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

bool in_dispatch_mode() noexcept { return c10::impl::TorchDispatchModeTLS::any_modes_set(); }

bool in_mode_of_user() noexcept {
  if (in_dispatch_mode()) return true;
  for (std::int64_t i = at::impl::PythonTorchFunctionTLS::stack_len(); i-- > 0;) {
    if (!is_device_context(function_mode_at(i))) return true;
  }
  return false;
}

PyObject* pack_hook() noexcept {
  const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state().stack;
  return hooks.empty() ? nullptr : hooks.top().first.ptr(c10::impl::getGlobalPyInterpreter());
}

struct GlobalState::Data {
  std::array<Value, kCount> values{};
  py::Owned<> device;
  c10::AutogradState autograd = c10::AutogradState::get_tls_state();
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  c10::ScalarType autocast_cpu = at::autocast::get_autocast_dtype(c10::kCPU);
  c10::ScalarType autocast_cuda = at::autocast::get_autocast_dtype(c10::kCUDA);
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  Value nesting = autocast_nesting();
};

GlobalState::GlobalState() : data_(std::make_unique<Data>()) {}
GlobalState::~GlobalState() = default;

std::unique_ptr<GlobalState> GlobalState::now() {
  std::unique_ptr<GlobalState> state(new GlobalState);
  read_all(state->data_->values.data(), std::make_index_sequence<kCount>());
  state->data_->device = default_device();
  return state;
}

bool GlobalState::matches() const noexcept {
  Reading reading;
  return matches(reading);
}

bool GlobalState::matches(Reading& reading) const noexcept {
  static_assert(kCount <= Reading::kMost);
  if (!reading.is_read_) {
    read_all(reading.values_, std::make_index_sequence<kCount>());
    reading.is_read_ = true;
  }
  if (!std::equal(data_->values.begin(), data_->values.end(), reading.values_)) return false;
  return same_device(data_->device.get(), default_device().get());
}

bool GlobalState::equals(const GlobalState& that) const noexcept {
  return data_->values == that.data_->values && same_device(data_->device.get(), that.data_->device.get());
}

std::string GlobalState::mismatch() const {
  std::string all;
  const auto add = [&](const char* name, const std::string& expected, const std::string& found) {
    all.append(all.empty() ? "" : "; ").append(name).append(": expected ").append(expected).append(", found ");
    all.append(found);
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    const Value found = kFields[i].read();
    if (data_->values[i] != found) add(kFields[i].name, shown(kFields[i], data_->values[i]), shown(kFields[i], found));
  }
  if (!same_device(data_->device.get(), default_device().get()))
    add("default_device", py::repr_of(data_->device.get()), py::repr_of(default_device().get()));
  return all;
}

void GlobalState::restore() const {
  c10::AutogradState::set_tls_state(data_->autograd);
  c10::impl::_force_tls_local_dispatch_key_set(data_->keys);
  at::autocast::set_autocast_dtype(c10::kCPU, data_->autocast_cpu);
  at::autocast::set_autocast_dtype(c10::kCUDA, data_->autocast_cuda);
  at::autocast::set_autocast_cache_enabled(data_->autocast_cache);
  set_autocast_nesting(data_->nesting);
}

}  // namespace pellucid::aten
