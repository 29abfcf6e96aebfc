#include "aten/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/PyInterpreterHooks.h>

#include <utility>

namespace pellucid::aten {
namespace {

using Functions = at::impl::PythonTorchFunctionTLS;

thread_local FunctionModesAside* innermost = nullptr;

PyObject* mode_of_thread(std::int64_t i) noexcept {
  return Functions::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter());
}

void push(PyObject* mode) {
  Functions::push_onto_stack(std::make_shared<c10::SafePyObject>(Py_NewRef(mode), c10::impl::getGlobalPyInterpreter()));
}

std::vector<py::Owned<>> taken_from_thread() {
  std::vector<py::Owned<>> modes;
  for (std::int64_t i = 0; i < Functions::stack_len(); ++i) modes.push_back(py::Owned<>::share(mode_of_thread(i)));
  while (Functions::stack_len() > 0) (void)Functions::pop_stack();
  return modes;
}

PyObject* enter(PyObject*, PyObject* mode) {
  if (innermost != nullptr) {
    innermost->modes.push_back(py::Owned<>::share(mode));
  } else {
    push(mode);
  }
  return Py_NewRef(Py_None);
}

PyObject* leave(PyObject*, PyObject* count) {
  const long left = PyLong_AsLong(count);
  if (left < 0) return nullptr;
  for (long i = 0; i < left; ++i) {
    if (innermost != nullptr && !innermost->modes.empty()) {
      innermost->modes.pop_back();
    } else if (innermost == nullptr && Functions::stack_len() > 0) {
      (void)Functions::pop_stack();
    }
  }
  return Py_NewRef(Py_None);
}

PyMethodDef kEnter = {"enter_function_mode", enter, METH_O, nullptr};
PyMethodDef kLeave = {"leave_function_modes", leave, METH_O, nullptr};

bool shows_those_aside() noexcept {
  return innermost != nullptr && innermost->state == FunctionModesAside::State::ShowsThem;
}

}  // namespace

bool asks_function_modes() noexcept {
  return Functions::get_disabled_state() != at::impl::TorchFunctionDisabledState::ALL_DISABLED;
}

bool is_device_context(PyObject* mode) noexcept {
  static PyObject* const type = [] {
    PyObject* module = py::module_if_any("torch.utils._device");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "DeviceContext") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type;
}

std::vector<py::Owned<>> function_modes() {
  std::vector<py::Owned<>> modes;
  for (std::int64_t i = 0; i < shown_function_modes(); ++i) modes.push_back(py::Owned<>::share(shown_function_mode(i)));
  return modes;
}

PyObject* function_mode_at(std::int64_t i) noexcept {
  if (innermost != nullptr) {
    const auto at = static_cast<std::size_t>(i);
    return i >= 0 && at < innermost->modes.size() ? innermost->modes[at].get() : nullptr;
  }
  return i >= 0 && i < Functions::stack_len() ? mode_of_thread(i) : nullptr;
}

std::int64_t shown_function_modes() noexcept {
  return shows_those_aside() ? static_cast<std::int64_t>(innermost->modes.size()) : Functions::stack_len();
}
PyObject* shown_function_mode(std::int64_t i) noexcept {
  return shows_those_aside() ? innermost->modes[static_cast<std::size_t>(i)].get() : mode_of_thread(i);
}

FunctionModesAside::FunctionModesAside(State state)
    : modes(taken_from_thread()), state(state), outer_(std::exchange(innermost, this)) {}

FunctionModesAside::~FunctionModesAside() {
  innermost = outer_;
  const auto entered = taken_from_thread();  // and not left
  for (const auto* all : {&std::as_const(modes), &entered}) {
    for (const auto& mode : *all) push(mode.get());
  }
}

py::Owned<> enter_function_mode() {
  static PyObject* const function = py::take(PyCFunction_New(&kEnter, nullptr)).release();
  return py::Owned<>::share(function);
}
py::Owned<> leave_function_modes() {
  static PyObject* const function = py::take(PyCFunction_New(&kLeave, nullptr)).release();
  return py::Owned<>::share(function);
}

NoTorchFunctions::NoTorchFunctions() noexcept : before_(static_cast<int>(Functions::get_disabled_state())) {
  Functions::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
}
NoTorchFunctions::~NoTorchFunctions() {
  Functions::set_disabled_state(static_cast<at::impl::TorchFunctionDisabledState>(before_));
}

}  // namespace pellucid::aten
