#include "frames/finalizers.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/small_vector.h"
#include "bytecode/exception_table.h"
#include "frames/generators.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::frames {
namespace {

constexpr std::size_t kMostObjects = 20'000;

// What a weakref.finalize calls; anything else is itself. Empty: it is over, and calls nothing.
py::Owned<> called_by(PyObject* callback) noexcept {
  static PyObject* const finalize = py::import_attr("weakref", "finalize").release();
  static PyObject* const registry = PyObject_GetAttrString(finalize, "_registry");
  if (reinterpret_cast<PyObject*>(Py_TYPE(callback)) != finalize) return py::Owned<>::share(callback);
  PyObject* info = registry == nullptr ? nullptr : PyDict_GetItemWithError(registry, callback);
  auto function = py::Owned<>::steal(info == nullptr ? nullptr : PyObject_GetAttrString(info, "func"));
  static PyObject* const partial = py::import_attr("functools", "partial").release();
  if (function && reinterpret_cast<PyObject*>(Py_TYPE(function.get())) == partial)
    function = py::Owned<>::steal(PyObject_GetAttrString(function.get(), "func"));
  PyErr_Clear();
  if (function && PyMethod_Check(function.get())) return py::Owned<>::share(PyMethod_GET_FUNCTION(function.get()));
  return function;
}

// It takes an entry out of a container of torch's own or of pellucid's, where no program looks.
bool is_housekeeping(PyObject* registered) noexcept {
  const auto held = called_by(registered);
  PyObject* callback = held.get();
  if (callback == nullptr) return true;
  if (!PyFunction_Check(callback)) return PyCFunction_Check(callback) != 0;
  PyObject* module = PyDict_GetItemWithError(PyFunction_GET_GLOBALS(callback), py::interned("__name__").get());
  if (module == nullptr || !PyUnicode_Check(module)) return false;
  const std::string name = py::text_of(module);
  return name == "torch" || name.starts_with("torch.");
}

bool calls_back(PyObject* object) noexcept {
  if (Py_TYPE(object)->tp_weaklistoffset <= 0) return false;
  const char* list = reinterpret_cast<const char*>(object) + Py_TYPE(object)->tp_weaklistoffset;
  for (auto* ref = *reinterpret_cast<PyWeakReference* const*>(list); ref != nullptr; ref = ref->wr_next) {
    if (ref->wr_callback != nullptr && !is_housekeeping(ref->wr_callback)) return true;
  }
  return false;
}

bool ends_in_block(PyObject* generator) noexcept {
  if (has_ended(generator) || is_running(generator)) return false;
  const GeneratorState state = state_of_generator(generator);
  if (!PyGen_CheckExact(generator)) return true;  // a coroutine complains when it was never awaited
  const auto table = py::exception_table(state.code);
  return state.started && bytecode::handler_at(table, std::max(state.next - 2, 0)).has_value();
}

bool runs_itself(PyObject* object, std::vector<PyObject*>* generators) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_finalize == nullptr && type->tp_weaklistoffset <= 0) return false;
  if (type->tp_finalize != nullptr) {
    const bool has_frame = PyGen_CheckExact(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object);
    if (!has_frame) return true;
    if (ends_in_block(object)) {
      if (generators == nullptr || !PyGen_CheckExact(object)) return true;
      generators->push_back(object);
    }
  }
  return calls_back(object);
}

// How many references to an object are gone. Most walks meet two or three objects: those need no hash table.
class Met {
 public:
  std::size_t size() const noexcept { return many_.empty() ? few_.size() : many_.size(); }
  Py_ssize_t count(PyObject* object) {
    if (many_.empty()) {
      const auto known = std::ranges::find(few_, object, &One::object);
      if (known != few_.end()) return ++known->times;
      few_.push_back({object, 1});
      if (few_.size() <= kFew) return 1;
      for (const One& one : few_) many_.emplace(one.object, one.times);
      return 1;
    }
    return ++many_[object];
  }

 private:
  struct One {
    PyObject* object;
    Py_ssize_t times;
  };
  static constexpr std::size_t kFew = 16;
  SmallVector<One, kFew + 1> few_;
  std::unordered_map<PyObject*, Py_ssize_t> many_;
};

class Walk {
 public:
  Walk(Referrers referrers, std::vector<PyObject*>* generators) noexcept
      : referrers_(referrers), generators_(generators) {}
  void drop(PyObject* root) noexcept { going_.push_back(root); }
  void drop_reference(PyObject* value) noexcept { visit(value, this); }
  bool runs() noexcept {
    while (!going_.empty()) {
      PyObject* object = going_.back();
      going_.pop_back();
      if (runs_itself(object, generators_)) return true;
      if (referrers_ == Referrers::All && met_.size() > kMostObjects) return true;
      look_into(object);
    }
    return false;
  }

 private:
  void look_into(PyObject* object) noexcept {
    if (!PyObject_IS_GC(object) || Py_TYPE(object)->tp_traverse == nullptr) return;
    if (PyFunction_Check(object)) {  // not the namespace that it shares
      auto* function = reinterpret_cast<PyFunctionObject*>(object);
      for (PyObject* part :
           {function->func_closure, function->func_defaults, function->func_kwdefaults, function->func_dict})
        if (part != nullptr) visit(part, this);
      return;
    }
    Py_TYPE(object)->tp_traverse(object, visit, this);
  }

  static int visit(PyObject* child, void* self) noexcept {
    PyTypeObject* type = Py_TYPE(child);
    const bool is_leaf = !PyType_IS_GC(type) && type->tp_finalize == nullptr && type->tp_weaklistoffset <= 0;
    if (is_leaf || PyType_Check(child) || PyModule_Check(child)) return 0;
    auto* walk = static_cast<Walk*>(self);
    if (walk->referrers_ == Referrers::Counted && Py_REFCNT(child) == 1) {  // it is met only here
      walk->going_.push_back(child);
      return 0;
    }
    const Py_ssize_t times = walk->met_.count(child);
    if (walk->referrers_ == Referrers::All ? times == 1 : times == Py_REFCNT(child)) walk->going_.push_back(child);
    return 0;
  }

  Referrers referrers_;
  std::vector<PyObject*>* generators_;
  SmallVector<PyObject*, 16> going_;
  Met met_;
};

}  // namespace

bool runs_when_dropped(PyObject* root, Referrers referrers, std::vector<PyObject*>* generators) noexcept {
  PyTypeObject* type = Py_TYPE(root);
  if (!PyType_IS_GC(type)) return runs_itself(root, generators);
  if (PyType_Check(root) || PyModule_Check(root)) return false;
  Walk walk(referrers, generators);
  walk.drop(root);
  return walk.runs();
}

bool run_when_dropped_together(std::span<PyObject* const> values) noexcept {
  std::vector<PyObject*> generators;
  Walk walk(Referrers::Counted, &generators);
  for (PyObject* value : values) walk.drop_reference(value);
  return walk.runs();
}

}  // namespace pellucid::frames
