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
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/aten.h"
#include "aten/function_modes.h"
#include "aten/internal.h"
#include "aten/layers.h"
#include "aten/world.h"

namespace pellucid::aten {
namespace {

using Value = std::uint64_t;

Value mixed(Value seed, const void* pointer) { return (seed ^ reinterpret_cast<Value>(pointer)) * 0x100000001b3ULL; }

// Modes are compared by type and order: a new instance of the same class does not recompile.
Value function_modes() {
  const std::int64_t count = shown_function_modes();
  Value seed = static_cast<Value>(count);
  for (std::int64_t i = 0; i < count; ++i) seed = mixed(seed, Py_TYPE(shown_function_mode(i)));
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

// The dtype while it is disabled too: an autocast block that names none takes it.
Value autocast(c10::DeviceType device) {
  return Value{at::autocast::is_autocast_enabled(device)} | static_cast<Value>(at::autocast::get_autocast_dtype(device))
                                                                << 1;
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

// Functions are called while the graph runs, whatever they are. Others may be graphs (torch.fx.GraphModule), which
// AOTAutograd makes part of its own.
bool may_be_graph(PyObject* hook) noexcept {
  return !PyFunction_Check(hook) && !PyMethod_Check(hook) && !PyCFunction_Check(hook);
}

Value saved_tensor_hooks() {
  const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
  const bool counts = !state.stack.empty() && may_be_graph(pack_hook());
  return (counts ? state.stack.size() << 1 : 0) | Value{state.disabled_error_message.has_value()};
}

Value autograd_modes() {
  const c10::AutogradState& state = c10::AutogradState::get_tls_state();
  return Value{state.get_grad_mode()} | Value{state.get_inference_mode()} << 1 | Value{state.get_fw_grad_mode()} << 2;
}

Value switches() {
  const auto& context = at::globalContext();
  return Value{context.deterministicAlgorithms()} | Value{context.deterministicAlgorithmsWarnOnly()} << 1 |
         Value{context.userEnabledMkldnn()} << 2 | Value{context.userEnabledCuDNN()} << 3 |
         Value{torch::autograd::AnomalyMode::is_enabled()} << 4 |
         Value{torch::autograd::AnomalyMode::should_check_nan()} << 5 | Value{context.userEnabledFlashSDP()} << 8 |
         Value{context.userEnabledMemEfficientSDP()} << 9 | Value{context.userEnabledMathSDP()} << 10 |
         Value{context.userEnabledCuDNNSDP()} << 11 | Value{context.allowFP16BF16ReductionMathSDP()} << 12;
}

Value matmul_precision() {
  const auto& context = at::globalContext();
  return static_cast<Value>(context.float32MatmulPrecision()) |
         static_cast<Value>(context.allowFP16ReductionCuBLAS()) << 8 |
         static_cast<Value>(context.allowBF16ReductionCuBLAS()) << 16;
}

// Without Dense, which every tensor with memory has and every other key comes before: torch leaves it behind when an
// operator of a wrapper subclass changes its shape in place.
Value included_keys() {
  return c10::impl::tls_local_dispatch_key_set().included_.remove(c10::DispatchKey::Dense).raw_repr();
}

// Values as the user sets them: "torch.float64", not a number.
std::string flag_text(Value value) { return value != 0 ? "on" : "off"; }
std::string number_text(Value value) { return std::to_string(value); }
std::string dtype_text(Value value) {
  const auto dtype = static_cast<c10::ScalarType>(value);
  return std::string("torch.").append(c10::getDtypeNames(dtype).first);
}
// `usual`: what torch begins with.
template <c10::ScalarType usual>
std::string autocast_text(Value value) {
  if ((value & 1) != 0) return "on with " + dtype_text(value >> 1);
  return value >> 1 == static_cast<Value>(usual) ? "off" : "off, with " + dtype_text(value >> 1);
}
std::string anomaly_text(Value value) {
  if ((value & 1) == 0) return "off";
  return (value & 2) != 0 ? "on" : "on, without a look for NaN";
}
std::string function_state_text(Value value) {
  if (value == at::impl::TorchFunctionDisabledState::ENABLED) return "on";
  return value == at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED ? "off for subclasses" : "off";
}
std::string changed_text(Value) { return "others"; }  // a number that stands for a stack of types
std::string hooks_text(Value value) {
  const std::string refused = (value & 1) != 0 ? ", and no more allowed" : "";
  return std::to_string(value >> 1) + refused;
}
std::string kernels_text(Value value) {
  constexpr const char* kNames[] = {"flash", "efficient", "math", "cudnn", "reduced precision in math"};
  std::string text;
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if ((value >> i & 1) != 0) text.append(text.empty() ? "" : " + ").append(kNames[i]);
  }
  return text.empty() ? "none" : text;
}
std::string precision_text(Value value) {
  constexpr const char* kNames[] = {"highest", "high", "medium"};
  const std::size_t precision = value & 0xFF;
  std::string text = precision < std::size(kNames) ? kNames[precision] : std::to_string(precision);
  const auto sums = [&](unsigned shift, const char* dtype) {
    constexpr const char* kRefused[] = {"", ", no reduced sums of ", ", no reduced or split sums of "};
    const Value refused = std::min<Value>(value >> shift & 0xFF, std::size(kRefused) - 1);
    if (refused != 0) text.append(kRefused[refused]).append(dtype);
  };
  sums(8, "float16");
  sums(16, "bfloat16");
  return text;
}
std::string keys_text(Value value) {
  std::string text;
  for (unsigned i = 1; i < static_cast<unsigned>(c10::DispatchKey::EndOfFunctionalityKeys); ++i) {
    if ((value >> (c10::num_backends + i - 1) & 1) == 0) continue;
    text.append(text.empty() ? "" : " + ").append(c10::toString(static_cast<c10::DispatchKey>(i)));
  }
  return text.empty() ? "none of them" : text;
}

// Read at every check of a capture: what torch keeps in one place is one word.
enum Word : std::uint8_t {
  kAutograd,
  kSwitches,
  kPrecision,
  kDefaultDtype,
  kFunctionState,
  kFunctionModes,
  kDispatchModes,
  kAutocastCpu,
  kAutocastCuda,
  kAutocastCache,
  kAutocastNesting,
  kLevel,
  kHooks,
  kIncluded,
  kExcluded,
  kCount,
};
constexpr Value (*kWords[])() = {
    autograd_modes,
    switches,
    matmul_precision,
    [] { return static_cast<Value>(c10::get_default_dtype_as_scalartype()); },
    [] { return static_cast<Value>(at::impl::PythonTorchFunctionTLS::get_disabled_state()); },
    function_modes,
    dispatch_modes,
    [] { return autocast(c10::kCPU); },
    [] { return autocast(c10::kCUDA); },
    [] { return Value{at::autocast::is_autocast_cache_enabled()}; },
    autocast_nesting,
    functorch_level,
    saved_tensor_hooks,
    included_keys,
    [] { return c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr(); },
};
static_assert(std::size(kWords) == kCount);

struct Field {
  const char* name;  // as the user calls it; pellucid._advice knows what to do about it
  std::string (*text)(Value);
  Word word;
  int shift = 0, width = 64;      // the bits of the word
  const char* follows = nullptr;  // from another field whose name begins so, if that one differs as well
  Value in(const Value* words) const {
    return words[word] >> shift & (width == 64 ? ~Value{0} : (Value{1} << width) - 1);
  }
};

constexpr Field kFields[] = {
    {"grad mode", flag_text, kAutograd, 0, 1},
    {"inference mode", flag_text, kAutograd, 1, 1},
    {"forward grad mode", flag_text, kAutograd, 2, 1, "inference mode"},
    {"deterministic algorithms", flag_text, kSwitches, 0, 1},
    {"deterministic algorithms that only warn", flag_text, kSwitches, 1, 1},
    {"anomaly detection", anomaly_text, kSwitches, 4, 2},
    {"default dtype", dtype_text, kDefaultDtype},
    {"__torch_function__", function_state_text, kFunctionState},
    {"torch function modes", changed_text, kFunctionModes},
    {"torch dispatch modes", changed_text, kDispatchModes},
    {"autocast for cpu", autocast_text<c10::ScalarType::BFloat16>, kAutocastCpu},
    {"autocast for cuda", autocast_text<c10::ScalarType::Half>, kAutocastCuda},
    {"the cache of autocast", flag_text, kAutocastCache},
    {"open autocast blocks", number_text, kAutocastNesting, 0, 64, "autocast"},
    {"level of functorch", number_text, kLevel},
    {"saved tensor hooks", hooks_text, kHooks},
    {"kernels of attention", kernels_text, kSwitches, 8, 5},
    {"float32 matmul precision", precision_text, kPrecision},
    {"mkldnn", flag_text, kSwitches, 2, 1},
    {"cudnn", flag_text, kSwitches, 3, 1},
    // The rest (autocast of other devices, functionalization, tracing, …) shows in the thread's dispatch keys.
    {"dispatch keys included", keys_text, kIncluded, 0, 64, ""},
    {"dispatch keys excluded", keys_text, kExcluded, 0, 64, ""},
};

template <std::size_t... I>
void read_all(Value* values, std::index_sequence<I...>) noexcept {
  ((values[I] = kWords[I]()), ...);
}

// The device of the innermost DeviceContext.
py::Owned<> default_device() noexcept {
  for (std::int64_t i = shown_function_modes(); i-- > 0;) {
    PyObject* mode = shown_function_mode(i);
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

}  // namespace

bool in_function_transform() noexcept {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

bool in_autocast() noexcept { return at::autocast::is_autocast_enabled(c10::kCPU); }
// The tracer of torch.jit is no mode, but sees the operators in the same way.
bool in_dispatch_mode() noexcept {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer);
}

bool in_function_mode_of_user() noexcept {
  for (std::int64_t i = shown_function_modes(); i-- > 0;) {
    if (!is_device_context(shown_function_mode(i))) return true;
  }
  return false;
}

bool in_mode_of_user() noexcept { return in_dispatch_mode() || in_function_mode_of_user(); }

PyObject* pack_hook() noexcept {
  const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state().stack;
  return hooks.empty() ? nullptr : hooks.top().first.ptr(c10::impl::getGlobalPyInterpreter());
}

std::size_t saved_tensor_hook_count() noexcept {
  const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state().stack;
  return hooks.empty() ? 0 : hooks.size();  // the size of a deque takes longer
}

namespace {

// Of the process, with the class that torch.Storage names. What waits to be raised still waits behind this.
void restore_default_dtype(c10::ScalarType wanted) noexcept {
  if (c10::get_default_dtype_as_scalartype() == wanted) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const auto torch = py::Owned<>::steal(PyImport_ImportModule("torch"));
  const std::string name(c10::getDtypeNames(wanted).first);
  const auto dtype = torch ? py::Owned<>::steal(PyObject_GetAttrString(torch.get(), name.c_str())) : py::Owned<>();
  const auto core = dtype ? py::Owned<>::steal(PyObject_GetAttrString(torch.get(), "_C")) : py::Owned<>();
  const auto done = core ? py::Owned<>::steal(PyObject_CallMethod(core.get(), "_set_default_dtype", "O", dtype.get()))
                         : py::Owned<>();
  if (!done) PyErr_WriteUnraisable(nullptr);
  PyErr_Restore(type, value, traceback);
}

}  // namespace

struct GlobalState::Data {
  std::array<Value, kCount> values{};
  py::Owned<> device;
  c10::AutogradState autograd = c10::AutogradState::get_tls_state();
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  c10::ScalarType default_dtype = c10::get_default_dtype_as_scalartype();
  c10::ScalarType autocast_cpu = at::autocast::get_autocast_dtype(c10::kCPU);
  c10::ScalarType autocast_cuda = at::autocast::get_autocast_dtype(c10::kCUDA);
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  Value nesting = autocast_nesting();
  at::impl::TorchFunctionDisabledState functions = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  std::optional<std::string> hooks_refused = at::SavedTensorDefaultHooks::get_tls_state().disabled_error_message;
  Levels levels = Levels::now();
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

// What only follows from something else that differs is left away.
std::string GlobalState::mismatch() const {
  std::string all;
  const auto add = [&](const char* name, const std::string& expected, const std::string& found) {
    all.append(all.empty() ? "" : "; ").append(name).append(": expected ").append(expected).append(", found ");
    all.append(found);
  };
  std::vector<const Field*> differing;
  std::array<Value, kCount> now{};
  read_all(now.data(), std::make_index_sequence<kCount>());
  const Value* const then = data_->values.data();
  for (const Field& field : kFields) {
    if (field.in(now.data()) != field.in(then)) differing.push_back(&field);
  }
  const auto leads = [](const Field& other, const Field& field) {
    return other.follows == nullptr && std::string_view(other.name).starts_with(field.follows);
  };
  const auto follows = [&](const Field& field) {
    return field.follows != nullptr &&
           std::ranges::any_of(differing, [&](const Field* other) { return leads(*other, field); });
  };
  for (const Field* field : differing) {
    if (follows(*field)) continue;
    const Value expected = field->in(then), found = field->in(now.data());
    const Value both = field->text == keys_text ? expected & found : 0;
    add(field->name, field->text == changed_text ? "as before" : field->text(expected ^ both),
        field->text(found ^ both));
  }
  if (!same_device(data_->device.get(), default_device().get()))
    add("default device", py::repr_of(data_->device.get()), py::repr_of(default_device().get()));
  return all;
}

bool GlobalState::has_open_levels() const noexcept {
  const Levels now = Levels::now();
  return now.depth != data_->levels.depth || now.dual != data_->levels.dual ||
         at::SavedTensorDefaultHooks::get_tls_state().disabled_error_message != data_->hooks_refused;
}

void GlobalState::restore() const {
  data_->levels.restore();  // first: a level that ends puts grad mode and keys back to what it has found
  c10::AutogradState::set_tls_state(data_->autograd);
  c10::impl::_force_tls_local_dispatch_key_set(data_->keys);
  restore_default_dtype(data_->default_dtype);
  at::autocast::set_autocast_dtype(c10::kCPU, data_->autocast_cpu);
  at::autocast::set_autocast_dtype(c10::kCUDA, data_->autocast_cuda);
  at::autocast::set_autocast_cache_enabled(data_->autocast_cache);
  set_autocast_nesting(data_->nesting);
  at::impl::PythonTorchFunctionTLS::set_disabled_state(data_->functions);
  auto hooks = at::SavedTensorDefaultHooks::get_tls_state();
  if (hooks.disabled_error_message == data_->hooks_refused) return;
  hooks.disabled_error_message = data_->hooks_refused;
  at::SavedTensorDefaultHooks::set_tls_state(hooks);
}

std::string state_text() {
  const bool has_objects =
      shown_function_modes() != 0 || dispatch_modes() != 0 || saved_tensor_hooks() != 0 || in_function_transform();
  if (has_objects) return "";
  std::string text;
  for (const auto& read : kWords) text.append(std::to_string(read())).append(" ");
  return text;
}

}  // namespace pellucid::aten
