#include "guards/hold.h"

#include "py/keys.h"

namespace pellucid::guards {
namespace {

constexpr const char* kCapsule = "pellucid.guards.alive";
using Flag = std::shared_ptr<bool>;

PyObject* object_died(PyObject* capsule, PyObject*) noexcept {
  if (auto* flag = static_cast<Flag*>(PyCapsule_GetPointer(capsule, kCapsule))) **flag = false;
  Py_RETURN_NONE;
}

PyMethodDef object_died_def = {"object_died", object_died, METH_O, nullptr};

// What stands for a type in an annotation (Optional[int]), which refers to classes alone. Often nothing but a bounded
// cache of `typing` holds it.
bool is_of_typing(PyObject* object) noexcept {
  static PyTypeObject* const base =
      reinterpret_cast<PyTypeObject*>(py::import_attr("typing", "_Final").release());  // of all of these
  return PyType_IsSubtype(Py_TYPE(object), base) != 0;
}

}  // namespace

PyObject* Hold::on_death() {
  if (callback_) return callback_.get();
  auto flag = std::make_unique<Flag>(alive_);
  auto capsule = py::take(PyCapsule_New(
      flag.get(), kCapsule, [](PyObject* self) { delete static_cast<Flag*>(PyCapsule_GetPointer(self, kCapsule)); }));
  (void)flag.release();
  callback_ = py::take(PyCFunction_New(&object_died_def, capsule.get()));
  return callback_.get();
}

bool Hold::is_watched_kind(PyObject* object) noexcept {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  return !PyType_Check(object) && !PyModule_Check(object) && !PyFunction_Check(object) && !PyCFunction_Check(object) &&
         !PyCode_Check(object) && !PyFrozenSet_CheckExact(object) && !is_of_typing(object);
}

Hold::Hold(const Hold& that) {
  const auto watched = that.lock();
  *alive_ = that.alive();
  if (!*alive_) return;
  for (const auto& object : that.held_) held_.push_back(object.copy());
  for (const auto& object : watched) watches_.push_back(py::take(PyWeakref_NewRef(object.get(), on_death())));
}

PyObject* Hold::keep(PyObject* object) {
  if (object != nullptr && is_held_.insert(object).second) held_.push_back(py::Owned<>::share(object));
  return object;
}

PyObject* Hold::keep_or_watch(PyObject* object) {
  if (object == nullptr || !is_watched_kind(object)) return keep(object);
  if (is_watched_.insert(object).second) watches_.push_back(py::take(PyWeakref_NewRef(object, on_death())));
  return object;
}

PyObject* Hold::keep_key(PyObject* key) {
  const bool is_value =
      key != nullptr && py::key_family(Py_TYPE(key)) != py::KeyFamily::Unknown && !py::is_key_by_identity(Py_TYPE(key));
  return is_value ? keep(key) : keep_or_watch(key);
}

std::vector<py::Owned<>> Hold::lock() const {
  std::vector<py::Owned<>> objects;
  objects.reserve(watches_.size());
  for (const auto& watch : watches_) objects.push_back(py::Owned<>::share(PyWeakref_GetObject(watch.get())));
  return objects;
}

// The weak references are not shown to the collector: it clears those that it finds in the same garbage as their
// objects without calling them, and a finaliser that brings both back would leave a program that does not know what
// died. They refer to nothing but the flag, so no cycle can go through them.
int Hold::traverse(visitproc visit, void* arg) const {
  for (const auto& object : held_) Py_VISIT(object.get());
  return 0;
}

void Hold::clear() noexcept {
  *alive_ = false;
  auto watches = std::exchange(watches_, {});
  auto held = std::exchange(held_, {});  // finalisers see an empty program
  callback_ = {};
}

}  // namespace pellucid::guards
