#include "region/lookups.h"

#include <algorithm>

#include "guards/condition.h"
#include "py/cpython.h"
#include "py/native_lookup.h"
#include "region/body_audit.h"
#include "region/names.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

// A number in the dict of a class that has changed between captures: what stands for it, guarded where it is. Null: it
// is a constant of the region, as whatever a class has.
PyObject* open_number(Region& region, PyObject* value, PyTypeObject* owner, PyObject* name) {
  const NumberPolicy& policy = region.numbers.policy;
  const bool is_float = PyFloat_CheckExact(value) != 0;
  symbolic::Value now;
  if (policy.history == nullptr || !(is_float || PyLong_CheckExact(value)) || !is_mutable_class(owner) ||
      !guards::is_symbolic_value(value, &now) || !policy.opens(is_float))
    return nullptr;
  auto& table = region.capture->sources;
  const Source* source = table.dict_item(table.constant(owner->tp_dict), name);
  const PathHash path = hash_of(source);
  const SeenNumber* seen = policy.history->find(path);
  if (seen != nullptr && seen->opens_for(now.bits(), is_float, policy.is_last))
    return region.numbers.read(value, source).get();
  region.capture->numbers.emplace_back(path, SeenNumber{now.bits(), is_float});
  return nullptr;
}

// What a class has, other than methods, for a function that reads it again later.
void note_late_read(Region& region, PyTypeObject* type, PyObject* name, PyObject* found) {
  if (region.audits.empty() || found == nullptr || Py_TYPE(found)->tp_descr_get != nullptr) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* owner = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!is_mutable_class(owner) || py::native_dict_get(owner->tp_dict, name) != found) continue;
    auto& table = region.capture->sources;
    for (const auto& audit : region.audits) audit->note_read(table.dict_item(table.constant(owner->tp_dict), name));
    return;
  }
}

bool opens_in_class(Region& region, PyTypeObject* type, PyObject* value, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* owner = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    const int has = PyDict_Contains(owner->tp_dict, name);
    py::check(has);
    if (has != 0) return open_number(region, value, owner, name) != nullptr;
  }
  return false;
}

}  // namespace

bool has_python_method(Region& region, PyTypeObject* type, std::initializer_list<const char*> names) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  return std::ranges::any_of(names, [&](const char* name) {
    PyObject* method = region.lookups.type_lookup(type, name);
    return method != nullptr && PyFunction_Check(method);
  });
}

bool has_python_length(Region& region, PyObject* object) {
  return has_python_method(region, Py_TYPE(object), {"__len__", "__length_hint__"});
}

bool merges_as_dict(Region& region, PyObject* object) {
  if (cat_of(object) != Cat::Dict) return false;
  if (PyDict_CheckExact(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  region.lookups.type_lookup(type, names().__iter__);
  if (type->tp_iter == PyDict_Type.tp_iter) return true;
  if (type->tp_iter != PyODict_Type.tp_iter) return false;
  for (const char* name : {"keys", "__getitem__"}) {
    if (region.lookups.type_lookup(type, name) != py::type_lookup(&PyODict_Type, py::interned(name).get()))
      return false;
  }
  return true;
}

bool is_read_in_python(Region& region, PyObject* object, int depth) {
  constexpr int kDeepest = 50;
  const Cat cat = depth > kDeepest ? Cat::Other : cat_of(object);
  if (cat != Cat::List && cat != Cat::Tuple) return false;
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) {
    for (const char* name : {"__len__", "__getitem__", "__iter__"}) {
      PyObject* found = region.lookups.type_lookup(Py_TYPE(object), name);
      if (!Py_IS_TYPE(found, &PyWrapperDescr_Type) && !Py_IS_TYPE(found, &PyMethodDescr_Type)) return true;
    }
  }
  PyObject* view = region.shadows.readable(object);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(view); ++i) {
    if (is_read_in_python(region, PySequence_Fast_GET_ITEM(view, i), depth + 1)) return true;
  }
  return false;
}

// Where a class looks things up: assigning __bases__ of it or of a base gives it another __mro__.
void Lookups::guard_mro(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (region_.provenance.is_made(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
      guard_mro(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
    return;
  }
  if (!is_mutable_class(type)) return;
  const Source* source = region_.capture->sources.constant(object);
  region_.provenance.guard(Kind::ID_MATCH, region_.capture->sources.member(source, names().__mro__),
                           py::Owned<>::share(type->tp_mro));
}

PyObject* Lookups::mro_lookup(PyTypeObject* type, Py_ssize_t first, PyObject* name) {
  const auto mro = py::Owned<>::share(type->tp_mro);
  for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(mro.get()); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(mro.get(), i);
    if (const AttributeWrite* written = region_.attributes.find(cls, name)) {
      if (written->value) return written->value.get();
      continue;
    }
    PyObject* dict = reinterpret_cast<PyTypeObject*>(cls)->tp_dict;
    PyObject* found = PyDict_GetItemWithError(dict, name);
    if (found == nullptr && PyErr_Occurred()) py::throw_pending();
    if (!region_.provenance.is_made(cls)) {
      region_.provenance.note_constant(cls);
      PyObject* number =
          found == nullptr ? nullptr : open_number(region_, found, reinterpret_cast<PyTypeObject*>(cls), name);
      if (number != nullptr) return number;
      const Source* source = region_.capture->sources.constant(dict);
      const Source* entry = region_.capture->sources.dict_item(source, name);
      for (const auto& audit : region_.audits) audit->note_read(entry);
      const bool is_new = is_mutable_class(reinterpret_cast<PyTypeObject*>(cls)) && in_dicts_.insert(entry).second;
      if (is_new && found == nullptr)
        region_.provenance.guard(Kind::DICT_CONTAINS, source, py::Owned<>::share(name), 0);
      if (is_new && found != nullptr) region_.provenance.guard(Kind::ID_MATCH, entry, py::Owned<>::share(found));
      if (found != nullptr) region_.provenance.note_constant(found);
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

std::size_t Lookups::Hash::operator()(const Key& key) const noexcept {
  return (reinterpret_cast<std::size_t>(key.type) >> 4) * 31 + (reinterpret_cast<std::size_t>(key.name) >> 4);
}

PyObject* Lookups::type_lookup(PyTypeObject* type, PyObject* name) {
  if (region_.provenance.is_made(reinterpret_cast<PyObject*>(type)) || region_.attributes.changes_classes_of(type))
    return mro_lookup(type, 0, name);
  PyObject* found = py::type_lookup(type, name);
  if (found != nullptr && (PyLong_CheckExact(found) || PyFloat_CheckExact(found)) &&
      opens_in_class(region_, type, found, name)) {
    guard_mro(type);
    return mro_lookup(type, 0, name);
  }
  const auto interned = py::interned(name);
  PyObject* const text = interned.get();
  note_late_read(region_, type, name, found);
  // Most attributes are looked up many times in one capture: one guard says it once.
  const auto [place, fresh] = in_types_.try_emplace(Key{type, text}, found);
  if (!fresh && place->second == found) return found;
  place->second = found;
  const auto held = py::Owned<>::share(found);  // making the payload may start the collector
  const Source* source = region_.capture->sources.constant(reinterpret_cast<PyObject*>(type));
  region_.provenance.guard(Kind::TYPE_LOOKUP, source,
                           found == nullptr ? py::take(PyTuple_Pack(1, text)) : py::take(PyTuple_Pack(2, text, found)));
  if (found != nullptr) region_.provenance.note_constant(found);
  return found;
}

PyObject* Lookups::type_lookup(PyTypeObject* type, const char* name) {
  return type_lookup(type, py::interned(name).get());
}

PyObject* Lookups::instance_get(PyObject* object, PyObject* name) {
  if (Py_TYPE(object)->tp_dictoffset == 0) return nullptr;
  PyObject* dict = py::instance_dict_if_any(object);
  const Shadow* shadow = dict == nullptr ? nullptr : region_.shadows.find(dict);
  PyObject* value = nullptr;
  if (shadow == nullptr) {
    value = py::instance_attr(object, name);
  } else {
    value = PyDict_GetItemWithError(shadow->object.get(), name);
    if (value == nullptr && PyErr_Occurred()) py::throw_pending();
    if (shadow->wrote(name)) return value;
  }
  const Source* source = region_.provenance.source_of(object);
  if (source == nullptr) return value;
  if (value == nullptr) {
    region_.provenance.guard(Kind::HAS_ATTR, source, py::Owned<>::share(name));
  } else {
    value = region_.numbers.read(value, region_.capture->sources.instance_attr(source, name)).get();
  }
  return value;
}

}  // namespace pellucid::region
