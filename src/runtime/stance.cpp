#include "runtime/stance.h"

#include <array>
#include <utility>

#include "py/native_lookup.h"

namespace pellucid::runtime {

StanceState& stance_state = *new StanceState;

namespace {

// In the order of the enum.
constexpr std::array kNames = {
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile",
};

// False: a name that is none.
bool read_name(PyObject* name, Stance* out) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (PyUnicode_CheckExact(name) && PyUnicode_CompareWithASCIIString(name, kNames[i]) == 0) {
      *out = static_cast<Stance>(i);
      return true;
    }
  }
  return false;
}

PyObject* attribute(PyObject* object, const char* name) noexcept {  // borrowed; null: there is none
  auto text = py::Owned<>::steal(PyUnicode_FromString(name));
  if (!text) PyErr_Clear();
  return text ? py::native_instance_attr(object, text.get()) : nullptr;
}

// What torch.compiler.set_stance has set: the object `_stance` of the module, whose attributes are plain values.
StanceNow stance_of_torch(PyObject* names) noexcept {
  StanceNow now;
  PyObject* set = names == nullptr ? nullptr : PyDict_GetItemString(names, "_stance");
  if (set == nullptr) return now;
  PyObject* name = attribute(set, "stance");
  if (name == nullptr || !read_name(name, &now.stance)) return now;
  now.skips_guards = attribute(set, "skip_guard_eval_unsafe") == Py_True;
  PyObject* backend = attribute(set, "backend");
  if (backend != nullptr && backend != Py_None) now.backend = py::Owned<>::share(backend);
  return now;
}

}  // namespace

void WatchedDict::watch(PyObject* dict) noexcept {
  version_ = dict == nullptr ? 0 : py::dict_version(dict);
  if (dict_.get() == dict) return;
  const auto old = std::exchange(dict_, dict == nullptr ? py::Owned<>() : py::Owned<>::share(dict));
}

void StanceState::refresh() noexcept {
  modules.watch(modules.get());
  PyObject* module =
      modules.get() == nullptr ? nullptr : PyDict_GetItemString(modules.get(), "torch._dynamo.eval_frame");
  PyObject* names = module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
  namespace_of_torch.watch(names);
  const auto old = std::exchange(torch, stance_of_torch(names));
  is_plain = stance_now().is_plain() && !observer;
}

py::Owned<> set_own_stance(PyObject* name, bool skips_guards, PyObject* backend) {
  StanceNow wanted;
  if (!read_name(name, &wanted.stance)) {
    PyErr_Format(PyExc_ValueError, "unknown stance %R", name);
    py::throw_pending();
  }
  wanted.skips_guards = skips_guards;
  if (backend != Py_None) wanted.backend = py::Owned<>::share(backend);
  const StanceNow old = std::exchange(stance_state.own, std::move(wanted));
  stance_state.refresh();
  return py::take(Py_BuildValue("(sOO)", kNames[static_cast<std::size_t>(old.stance)],
                                old.skips_guards ? Py_True : Py_False, old.backend ? old.backend.get() : Py_None));
}

void set_call_observer(PyObject* observer) {
  const auto old =
      std::exchange(stance_state.observer, observer == Py_None ? py::Owned<>() : py::Owned<>::share(observer));
  stance_state.refresh();
}

void initialise_stance() {
  stance_state.modules.watch(PyImport_GetModuleDict());
  stance_state.refresh();
}

}  // namespace pellucid::runtime
