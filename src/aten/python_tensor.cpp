// The one file that knows torch's Python object (python_variable.h is the slowest header of all): unpack and wrap,
// fakes of real tensors with their autograd state, and calls under the thread-local state of a capture.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "aten/aten.h"
#include "aten/computed_before.h"
#include "aten/function_modes.h"
#include "aten/internal.h"
#include "aten/layers.h"
#include "aten/symbolic_fake.h"
#include "aten/torch_function.h"
#include "aten/unstrided_fake.h"
#include "aten/wrapper_subclass.h"
#include "py/eval_frame.h"

namespace pellucid::aten {
namespace {

namespace autograd = torch::autograd;

const at::Tensor& tensor_of(PyObject* object) noexcept { return reinterpret_cast<THPVariable*>(object)->cdata; }

void set_computed_before(const at::Tensor& fake) {
  auto node = c10::make_intrusive<ComputedBefore>();
  node->add_input_metadata(fake);
  autograd::impl::set_gradient_edge(fake, {std::move(node), 0});
}

// Says whose sizes the operators of a call are about.
class ScopeOfThread {
 public:
  explicit ScopeOfThread(std::shared_ptr<SizeScope> scope)
      : before_(std::exchange(scope_of_thread(), std::move(scope))) {}
  ~ScopeOfThread() { scope_of_thread() = std::move(before_); }
  ScopeOfThread(const ScopeOfThread&) = delete;
  ScopeOfThread& operator=(const ScopeOfThread&) = delete;

 private:
  std::shared_ptr<SizeScope> before_;
};

constexpr c10::DispatchKeySet kAskedInPython{c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot};

// Hides what would see fakes or be seen by them, for the time of one call (DESIGN 5.4, trap 2). `listener`: a function
// mode that hears of the call, or null; without one no class is asked for its __torch_function__, which capture does
// before. `hidden`: the keys of dispatch modes and of classes with a `__torch_dispatch__`, or none.
class CallState {
 public:
  explicit CallState(PyObject* listener, c10::DispatchKeySet hidden = kAskedInPython)
      : factories_(c10::DispatchKeySet(c10::DispatchKey::Fake)),
        no_modes_(hidden),
        autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
    if (at::hasCallbacks()) no_profiler_.emplace(/*is_enabled=*/false);  // costs more than an operator does
    if (autocast_cache_) at::autocast::set_autocast_cache_enabled(false);
    const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state();
    if (!hooks.stack.empty()) {
      hooks_ = hooks;
      at::SavedTensorDefaultHooks::set_tls_state({});
    }
    using Functions = at::impl::PythonTorchFunctionTLS;
    if (Functions::stack_len() > 0) hide_function_modes();
    if (listener != nullptr) {
      if (!modes_) modes_ = Functions::get_state();
      Functions::push_onto_stack(
          std::make_shared<c10::SafePyObject>(Py_NewRef(listener), c10::impl::getGlobalPyInterpreter()));
    } else if (asked_ == at::impl::TorchFunctionDisabledState::ENABLED) {
      Functions::set_disabled_state(at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED);
    }
  }
  ~CallState() {
    if (autocast_cache_) at::autocast::set_autocast_cache_enabled(true);
    if (hooks_) at::SavedTensorDefaultHooks::set_tls_state(*hooks_);
    if (modes_) at::impl::PythonTorchFunctionTLS::set_state(*modes_);
    at::impl::PythonTorchFunctionTLS::set_disabled_state(asked_);
  }
  CallState(const CallState&) = delete;
  CallState& operator=(const CallState&) = delete;

 private:
  void hide_function_modes() {
    using Modes = at::impl::PythonTorchFunctionTLS;
    modes_ = Modes::get_state();
    Modes hidden;
    const std::int64_t count = Modes::stack_len();
    std::vector<std::shared_ptr<c10::SafePyObject>> kept;
    for (std::int64_t i = 0; i < count; ++i) {
      if (is_device_context(Modes::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter())))
        kept.push_back(Modes::get_stack_at(i));
    }
    const auto disabled = Modes::get_disabled_state();
    Modes::set_state(hidden);
    Modes::set_disabled_state(disabled);
    for (auto& mode : kept) Modes::push_onto_stack(std::move(mode));
  }

  // Destroyed last. A Python-level guard of torch that an exception's traceback keeps alive would hold its keys beyond
  // the call.
  struct SameKeysAfter {
    c10::impl::LocalDispatchKeySet before = c10::impl::tls_local_dispatch_key_set();
    ~SameKeysAfter() { c10::impl::_force_tls_local_dispatch_key_set(before); }
  };
  SameKeysAfter same_keys_;
  c10::impl::IncludeDispatchKeyGuard factories_;
  c10::impl::ExcludeDispatchKeyGuard no_modes_;
  std::optional<at::RecordFunctionGuard> no_profiler_;
  const bool autocast_cache_;
  std::optional<at::impl::SavedTensorDefaultHooksTLS> hooks_;
  std::optional<at::impl::PythonTorchFunctionTLS> modes_;
  const at::impl::TorchFunctionDisabledState asked_ = at::impl::PythonTorchFunctionTLS::get_disabled_state();
};

bool is_buffer_type(PyTypeObject* type) noexcept {
  static PyObject* const buffer = [] {
    PyObject* module = py::module_if_any("torch.nn");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "Buffer") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return reinterpret_cast<PyObject*>(type) == buffer;
}

template <class F>
auto with_python_errors(F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (python_error& error) {
    error.restore();
  }
  py::throw_pending();
}

}  // namespace

const at::Tensor& tensor_in(PyObject* tensor) noexcept { return tensor_of(tensor); }
PyObject* new_object_of(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }
c10::TensorImpl* impl_of(PyObject* tensor) noexcept { return tensor_of(tensor).unsafeGetTensorImpl(); }
// Both from the fields: guards ask this of every parameter at every call.
AutogradState autograd_state(PyObject* tensor) noexcept {
  const auto* meta = static_cast<autograd::AutogradMeta*>(impl_of(tensor)->autograd_meta());
  if (meta == nullptr) return {false, true};
  const bool has_function = static_cast<bool>(meta->grad_fn_);
  return {meta->is_view_ ? meta->requires_grad() : meta->requires_grad_ || has_function, !has_function};
}
bool is_leaf(PyObject* tensor) noexcept { return autograd_state(tensor).leaf; }
// Of a view the requirement is its base's.
bool is_float_with_dimensions(PyObject* tensor) noexcept {
  const c10::TensorImpl* impl = impl_of(tensor);
  return impl->dim() > 0 && c10::isFloatingType(c10::typeMetaToScalarType(impl->dtype()));
}
bool is_full_float(PyObject* tensor) noexcept {
  const auto dtype = c10::typeMetaToScalarType(impl_of(tensor)->dtype());
  return dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
}
bool is_leaf_with_grad(PyObject* tensor) noexcept {
  const auto* meta = static_cast<autograd::AutogradMeta*>(impl_of(tensor)->autograd_meta());
  return meta != nullptr && meta->requires_grad_ && !meta->grad_fn_;
}

void initialise() {
  with_python_errors([] {
    register_kernels();
    return 0;
  });
}

bool is_tensor(PyObject* object) noexcept {
  return THPVariableClass != nullptr && PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}
Layout layout_kind(PyObject* tensor) noexcept {
  const c10::TensorImpl& impl = *impl_of(tensor);
  if (impl.is_sparse()) return Layout::SparseCoo;
  // Quantised tensors, and bytes that a view gives the dtype of such.
  const bool is_quantised = c10::isQIntType(c10::typeMetaToScalarType(impl.dtype()));
  return impl.is_sparse_compressed() || impl.is_mkldnn() || is_quantised ? Layout::Other : Layout::Strided;
}
py::Owned<> scalar_tensor(double number) {
  return with_python_errors([&] { return py::take(THPVariable_Wrap(c10::scalar_to_tensor(number))); });
}
bool is_plain_tensor_type(PyTypeObject* type) noexcept {
  return THPVariable_CheckTypeExact(type) || is_buffer_type(type);
}
bool is_plain_tensor(PyObject* object) noexcept { return is_plain_tensor_type(Py_TYPE(object)); }
bool is_parameter(PyObject* tensor) noexcept {
  return Py_TYPE(tensor) == reinterpret_cast<PyTypeObject*>(ParameterClass);
}

OpenLayout layout_of(PyObject* tensor) {
  const c10::TensorImpl& impl = *impl_of(tensor);
  OpenLayout layout;
  if (impl.layout() != c10::kStrided || impl.is_nested() || impl.has_symbolic_sizes_strides()) return layout;
  for (const int inner : inner_dims(impl.sizes(), impl.strides())) {
    OpenLayout::Dim dim;
    dim.inner = inner;
    layout.dims.push_back(dim);
  }
  return layout;
}

bool is_fake(PyObject* object) noexcept {
  if (!is_tensor(object) || !tensor_of(object).defined()) return false;
  if (!is_wrapper(object)) return is_fake(impl_of(object));
  const auto at_bottom = innermost(object);
  return at_bottom && is_fake(impl_of(at_bottom.get()));
}

// --- fakes of real tensors ---

namespace {

void fix(SizeScope& scope, const OpenShape& shape) {
  for (const auto* exprs : {&shape.sizes, &shape.strides}) {
    for (const symbolic::Expr* expr : *exprs) {
      if (!expr->is_constant()) scope.decider->fix(expr, "a base that is met behind its view");
    }
  }
}

struct Fakes {
  std::unordered_map<const c10::TensorImpl*, at::Tensor> fakes;      // by real tensor
  std::unordered_map<const c10::StorageImpl*, at::Tensor> storages;  // by real storage: a fake that has its twin
  std::vector<at::Tensor> reals;  // keeps the keys above alive, so that no address is used twice

  std::shared_ptr<SizeScope> sizes;

  at::Tensor fake_of(const at::Tensor& real, const OpenShape* shape = nullptr);
  at::Tensor build(const at::Tensor& real, const OpenShape* shape);
};

at::Tensor Fakes::fake_of(const at::Tensor& real, const OpenShape* shape) {
  if (is_fake(real.unsafeGetTensorImpl())) return real;
  const auto found = fakes.find(real.unsafeGetTensorImpl());
  if (found != fakes.end()) {
    // A base that was made for a view which was met before it has plain sizes.
    if (shape != nullptr && symbolic_fake(found->second) == nullptr) fix(*sizes, *shape);
    return found->second;
  }
  at::Tensor fake = build(real, shape);
  reals.push_back(real);
  fakes.emplace(real.unsafeGetTensorImpl(), fake);
  return fake;
}

at::Tensor as_autograd_has_it(at::Tensor fake, const at::Tensor& real) {
  if (!real.requires_grad()) return fake;
  if (autograd::impl::grad_fn_unsafe(real) != nullptr) {
    set_computed_before(fake);
  } else {
    fake.unsafeGetTensorImpl()->set_requires_grad(true);
  }
  return fake;
}

at::Tensor Fakes::build(const at::Tensor& real, const OpenShape* shape) {
  c10::TensorImpl& impl = *real.unsafeGetTensorImpl();
  if (const auto facts = unstrided_facts(impl)) return as_autograd_has_it(fake_like_unstrided(real, *facts), real);
  auto* view = autograd::impl::get_view_autograd_meta(real);
  const bool is_view = view != nullptr && view->has_bw_view();
  at::Tensor base = is_view ? view->get_backward_view().base_ : at::Tensor();
  TORCH_CHECK_NOT_IMPLEMENTED(!is_view || !unstrided_facts(*base.unsafeGetTensorImpl()),
                              "pellucid: no fake of a part of a sparse tensor");
  if (is_view) base = fake_of(base);
  const c10::StorageImpl* storage = impl.has_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
  const auto shared = storages.find(storage);
  at::Tensor fake = fake_like_real(real, shared != storages.end() ? shared->second : at::Tensor(), sizes, shape);
  const bool is_first = shared == storages.end();
  // What stays with the storage when the program gives the tensor another one.
  const auto keep_place = [&](const at::Tensor& twin) { storages[storage] = twin.tensor_data(); };
  if (is_first) keep_place(fake);
  if (is_view) {
    fake = autograd::make_variable_differentiable_view(fake, autograd::ViewInfo(base, nullptr, nullptr), std::nullopt,
                                                       /*shared_view_info=*/true, view->get_creation_meta());
    if (is_first) keep_place(base);
  } else if (!impl.is_inference()) {
    fake.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(impl.version_counter().current_version()));
  }
  return as_autograd_has_it(std::move(fake), real);
}

}  // namespace

std::shared_ptr<SizeScope>& scope_of_thread() noexcept {
  thread_local std::shared_ptr<SizeScope> scope;
  return scope;
}

struct FakeScope::Data : Fakes {};

FakeScope::FakeScope(std::shared_ptr<SizeScope> sizes) : data_(std::make_unique<Data>()) {
  data_->sizes = std::move(sizes);
}
FakeScope::~FakeScope() { (void)take_facts(); }  // they hold storages

py::Owned<> FakeScope::fake_of(PyObject* real, const OpenShape* shape) {
  return with_python_errors([&] { return py::take(THPVariable_Wrap(data_->fake_of(tensor_of(real), shape))); });
}

py::Owned<> FakeScope::number_of(const symbolic::Expr* expr) {
  return with_python_errors([&] {
    const c10::SymNode node = c10::make_intrusive<SizeNode>(data_->sizes, expr);
    pybind11::handle made;
    switch (expr->type) {
      case symbolic::Type::Int:
        made = pybind11::cast(c10::SymInt(node)).release();
        break;
      case symbolic::Type::Float:
        made = pybind11::cast(c10::SymFloat(node)).release();
        break;
      case symbolic::Type::Bool:
        made = pybind11::cast(c10::SymBool(node)).release();
        break;
    }
    return py::take(made.ptr());
  });
}

bool FakeScope::has_shape(PyObject* fake, const OpenShape& shape) const {
  const Shape now = shape_of(*data_->sizes, tensor_of(fake));
  return std::ranges::equal(now.sizes, shape.sizes) && std::ranges::equal(now.strides, shape.strides);
}

OpenShape FakeScope::open_shape(PyObject* fake) const {
  const at::Tensor& tensor = tensor_of(fake);
  if (symbolic_fake(tensor) == nullptr && !is_symbolic_wrapper(tensor)) return {};
  const Shape shape = shape_of(*data_->sizes, tensor);
  return {{shape.sizes.begin(), shape.sizes.end()}, {shape.strides.begin(), shape.strides.end()}};
}

const symbolic::Expr* FakeScope::expr_of(PyObject* number) const {
  if (!torch::is_symint(pybind11::handle(number)) && !torch::is_symfloat(pybind11::handle(number)) &&
      !torch::is_symbool(pybind11::handle(number)))
    return nullptr;
  return with_python_errors([&]() -> const symbolic::Expr* {
    const auto held = pybind11::handle(number).attr("node");
    if (!pybind11::isinstance<c10::SymNodeImpl>(held)) return nullptr;
    const auto node = held.cast<c10::SymNode>();
    const auto* own = dynamic_cast<const SizeNode*>(node.get());
    return own != nullptr && own->scope() == data_->sizes ? own->expr() : nullptr;
  });
}

namespace {

// The frames of a failed call hold torch's Python-level guards. They go while the call's own state is still there, so
// that what those guards put back is not the state of the middle of a call.
void drop_frames(PyObject* exception) {
  for (PyObject* value = exception; value != nullptr;) {
    PyException_SetTraceback(value, Py_None);
    auto context = py::Owned<>::steal(PyException_GetContext(value));
    value = context.get() == exception ? nullptr : context.get();  // borrowed: the chain holds it
  }
}

}  // namespace

py::Owned<> FakeScope::call(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames,
                            PyObject* listener) {
  const CallState state(listener);
  return call_here(callable, args, nargs, kwnames);
}

py::Owned<> FakeScope::call_classes(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames) {
  const CallState state(nullptr, {});
  return call_here(callable, args, nargs, kwnames);
}

py::Owned<> FakeScope::call_here(PyObject* callable, PyObject* const* args, std::size_t nargs, PyObject* kwnames) {
  const ScopeOfThread scope(data_->sizes);
  const py::InterpreterMark mark;
  PyObject* result = nullptr;
  try {
    result = PyObject_Vectorcall(callable, args, nargs, kwnames);
  } catch (const c10::Error& error) {
    mark.drop_frames();
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
  if (result != nullptr) return py::Owned<>::steal(result);
  py::PythonError error;
  drop_frames(error.value());
  throw error;
}

namespace {

std::string message_of(PyObject* exception) {
  if (!PyErr_GivenExceptionMatches(exception, PyExc_RuntimeError)) return {};  // NotImplementedError is one
  auto text = py::Owned<>::steal(PyObject_Str(exception));
  if (!text) PyErr_Clear();
  return text ? py::text_of(text.get()) : std::string();
}

}  // namespace

bool FakeScope::is_data_dependent(PyObject* exception) {
  const std::string message = message_of(exception);
  return message.find(kNeedsData) != std::string::npos || message.find(kInvalidStorage) != std::string::npos;
}

py::Owned<> fake_like(PyObject* like) {
  return with_python_errors([&] {
    Fakes fakes;
    return py::take(THPVariable_Wrap(fakes.fake_of(tensor_of(like))));
  });
}

PyTypeObject* tensor_type() noexcept { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }

bool asks_torch_functions() noexcept {
  return at::impl::PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
}

py::Owned<> plain_alias(PyObject* tensor) {
  return with_python_errors([&] {
    const c10::AutoGradMode gradients(true);  // whether they go through it is up to what uses it
    return py::take(THPVariable_Wrap(at::alias(tensor_of(tensor))));
  });
}

// --- wrapper subclasses ---

namespace {

struct Policy : c10::TensorImpl {  // who says sizes and strides is for derived classes to know
  static bool is_in_python(const c10::TensorImpl& impl) {
    return (impl.*(&Policy::matches_python_custom))(SizesStridesPolicy::CustomStrides) ||
           (impl.*(&Policy::matches_policy))(SizesStridesPolicy::CustomStrides) ||
           static_cast<const Policy&>(impl).device_policy_ || static_cast<const Policy&>(impl).layout_policy_;
  }
};

}  // namespace

bool is_laid_out_in_python(const c10::TensorImpl& impl) { return Policy::is_in_python(impl); }

constexpr c10::DispatchKeySet kJaggedKeys{c10::DispatchKey::NestedTensor, c10::DispatchKey::Python};

bool is_view(PyObject* tensor) {
  auto* view = autograd::impl::get_view_autograd_meta(tensor_of(tensor));
  return view != nullptr && (view->has_bw_view() || view->has_fw_view());
}

bool has_own_layout(PyObject* tensor) {
  const c10::TensorImpl& impl = *impl_of(tensor);
  return impl.layout() == c10::kStrided && !impl.is_nested() && !impl.has_symbolic_sizes_strides() &&
         !is_laid_out_in_python(impl) && !is_view(tensor);
}

bool has_open_layout(PyObject* tensor) {
  const c10::TensorImpl& impl = *impl_of(tensor);
  return impl.layout() == c10::kStrided && !impl.is_nested() && impl.has_symbolic_sizes_strides() &&
         !impl.key_set().has_all(kJaggedKeys) && !is_view(tensor);
}

bool has_open_sizes(PyObject* tensor) noexcept { return impl_of(tensor)->has_symbolic_sizes_strides(); }

bool is_jagged(PyObject* tensor) noexcept {
  const c10::TensorImpl& impl = *impl_of(tensor);
  return impl.key_set().has_all(kJaggedKeys) && impl.has_symbolic_sizes_strides();
}

bool make_alike(PyObject* fake, PyObject* real) {
  c10::TensorImpl& made = *impl_of(fake);
  c10::TensorImpl& like = *impl_of(real);
  const auto has_its_layout = [&] {
    if (has_open_layout(fake)) {
      const Meta now = meta_of(fake), before = meta_of(real);
      return now.sizes == before.sizes && now.strides == before.strides && now.storage_offset == before.storage_offset;
    }
    return has_own_layout(fake) && made.sizes() == like.sizes() && made.strides() == like.strides() &&
           made.storage_offset() == like.storage_offset();
  };
  const bool is_alike = is_jagged(real) ? is_jagged(fake) && made.key_set() == like.key_set() : has_its_layout();
  if (!is_alike || made.dtype() != like.dtype() || made.device() != like.device() ||
      made.is_inference() != like.is_inference())
    return false;
  const AutogradState state = autograd_state(real), now = autograd_state(fake);
  if (!now.leaf || (now.requires_grad && !state.requires_grad)) return false;
  if (!state.requires_grad) return true;
  return with_python_errors([&] {
    if (state.leaf) {
      made.set_requires_grad(true);
    } else {
      made.set_requires_grad(false);
      set_computed_before(tensor_of(fake));
    }
    return true;
  });
}

// --- metadata ---

namespace {

std::int64_t hint_of(const c10::SymInt& number) {
  const SizeNode* node = size_node(number);
  return node != nullptr ? node->expr()->hint.i : number.guard_int(__FILE__, __LINE__);
}

// Of a wrapper the one at the bottom.
const void* storage_of(PyObject* tensor) {
  const auto with_memory = innermost(tensor);
  const c10::TensorImpl* memory = with_memory ? impl_of(with_memory.get()) : nullptr;
  return memory != nullptr && memory->has_storage() ? memory->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

Meta meta_of(PyObject* tensor) {
  return with_python_errors([&] {
    const QuietScope hints;
    const at::Tensor& t = tensor_of(tensor);
    c10::TensorImpl& impl = *t.unsafeGetTensorImpl();
    Meta meta;
    meta.requires_grad = impl.requires_grad();
    meta.is_leaf = is_leaf(tensor);
    meta.version = version_of(tensor);
    if (is_jagged(tensor)) return meta;  // sizes, strides and memory are those of its parts
    if (is_symbolic_wrapper(t)) {
      for (const c10::SymInt& size : impl.sym_sizes_default()) meta.sizes.push_back(hint_of(size));
      for (const c10::SymInt& stride : impl.sym_strides_default()) meta.strides.push_back(hint_of(stride));
      meta.storage_offset = hint_of(impl.sym_storage_offset_default());
      meta.storage = storage_of(tensor);
      return meta;
    }
    meta.sizes.assign(impl.sizes().begin(), impl.sizes().end());
    if (impl.layout() == c10::kStrided) {
      meta.strides.assign(impl.strides().begin(), impl.strides().end());
      meta.storage_offset = impl.storage_offset();
    }
    meta.storage = storage_of(tensor);
    return meta;
  });
}

std::uint32_t version_of(PyObject* tensor) noexcept {
  std::uint32_t version = 0;
  each_layer(tensor, [&](PyObject* layer) {
    c10::TensorImpl& impl = *impl_of(layer);
    if (!impl.is_inference()) version += impl.version_counter().current_version();
  });
  return version;
}

}  // namespace pellucid::aten
