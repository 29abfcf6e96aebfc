#include "py/cpython311.h"

#define Py_BUILD_CORE
#include <internal/pycore_dict.h>  // pycore_object.h has C11 atomics in it, which C++20 does not read
#undef Py_BUILD_CORE

namespace pellucid::py {
namespace {

PyDictKeysObject* cached_keys(PyTypeObject* type) noexcept {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys
                                                     : nullptr;
}

bool keeps_managed_dict(PyObject* object) noexcept {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
}

// What stands before the object's header when its type has Py_TPFLAGS_MANAGED_DICT (_PyObject_ValuesPointer and
// _PyObject_ManagedDictPointer of pycore_object.h).
PyDictValues* values_before(PyObject* object) noexcept { return reinterpret_cast<PyDictValues**>(object)[-4]; }
PyObject* dict_before(PyObject* object) noexcept { return reinterpret_cast<PyObject**>(object)[-3]; }

Py_ssize_t index_in_slot(const PyDictKeysObject* keys, std::size_t slot) noexcept {
  const char* indices = keys->dk_indices;
  switch (keys->dk_log2_index_bytes - keys->dk_log2_size) {
    case 0:
      return reinterpret_cast<const std::int8_t*>(indices)[slot];
    case 1:
      return reinterpret_cast<const std::int16_t*>(indices)[slot];
    case 2:
      return reinterpret_cast<const std::int32_t*>(indices)[slot];
    default:
      return static_cast<Py_ssize_t>(reinterpret_cast<const std::int64_t*>(indices)[slot]);
  }
}

bool same_text(PyObject* a, PyObject* b) noexcept { return a == b || _PyUnicode_EQ(a, b) != 0; }

Py_hash_t hash_of(PyObject* name) noexcept {
  const Py_hash_t known = reinterpret_cast<PyASCIIObject*>(name)->hash;
  return known != -1 ? known : PyObject_Hash(name);  // the hash of an exact str cannot fail
}

// The probe sequence of Objects/dictobject.c over a table whose keys are all exact str.
Py_ssize_t find_str(PyDictKeysObject* keys, PyObject* name) noexcept {
  constexpr int kPerturbShift = 5;
  const Py_hash_t hash = hash_of(name);
  const std::size_t mask = (std::size_t{1} << keys->dk_log2_size) - 1;
  const PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  auto perturb = static_cast<std::size_t>(hash);
  for (std::size_t slot = perturb & mask;; perturb >>= kPerturbShift, slot = (slot * 5 + perturb + 1) & mask) {
    const Py_ssize_t index = index_in_slot(keys, slot);
    if (index == DKIX_EMPTY) return -1;
    if (index < 0) continue;
    PyObject* key = entries[index].me_key;
    if (key == name || (hash_of(key) == hash && same_text(key, name))) return index;
  }
}

const std::uint8_t* insertion_order(PyObject* object) noexcept {  // [-2]: count; before it the indexes, going down
  return reinterpret_cast<const std::uint8_t*>(inline_values(object));
}

}  // namespace

PyObject* const* inline_values(PyObject* object) noexcept {
  if (!keeps_managed_dict(object)) return nullptr;
  PyDictValues* values = values_before(object);
  return values != nullptr ? values->values : nullptr;
}

int inline_count(PyObject* object) noexcept {
  const std::uint8_t* order = insertion_order(object);
  return order != nullptr ? order[-2] : -1;
}

int detail::inline_insertion(PyObject* object, int nth) noexcept { return insertion_order(object)[-3 - nth]; }

PyObject* instance_dict_if_any(PyObject* object) {
  if (keeps_managed_dict(object)) return dict_before(object);  // never made here
  PyObject** place = _PyObject_GetDictPtr(object);
  return place != nullptr ? *place : nullptr;
}

PyObject* const* instance_dict_place(PyObject* object) noexcept {
  if (keeps_managed_dict(object)) return reinterpret_cast<PyObject**>(object) - 3;
  return Py_TYPE(object)->tp_dictoffset > 0 ? _PyObject_GetDictPtr(object) : nullptr;
}

bool has_instance_dict(PyObject* object) noexcept {
  return keeps_managed_dict(object) || Py_TYPE(object)->tp_dictoffset != 0;
}

PyObject* instance_attr(PyObject* object, PyObject* name) {
  if (PyObject* const* values = inline_values(object)) {
    const Py_ssize_t index = shared_key_index(Py_TYPE(object), name);
    return index >= 0 ? values[index] : nullptr;
  }
  PyObject* dict = instance_dict_if_any(object);
  if (dict == nullptr) return nullptr;
  return has_only_str_keys(dict) ? dict_get_str(dict, name) : dict_get(dict, name);
}

Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name) noexcept {
  PyDictKeysObject* keys = cached_keys(type);
  return keys != nullptr ? find_str(keys, name) : -1;
}

Py_ssize_t shared_key_count(PyTypeObject* type) noexcept {
  const PyDictKeysObject* keys = cached_keys(type);
  return keys != nullptr ? keys->dk_nentries : 0;
}

PyObject* shared_key_at(PyTypeObject* type, Py_ssize_t index) noexcept {
  return DK_UNICODE_ENTRIES(cached_keys(type))[index].me_key;
}

PyObject* dict_get(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred() != nullptr) throw_pending();
  return value;
}

bool has_only_str_keys(PyObject* dict) noexcept {
  return DK_IS_UNICODE(reinterpret_cast<PyDictObject*>(dict)->ma_keys);
}

Py_ssize_t dict_entry_index(PyObject* dict, PyObject* name) noexcept {
  return has_only_str_keys(dict) ? find_str(reinterpret_cast<PyDictObject*>(dict)->ma_keys, name) : -1;
}

PyObject* dict_entry(PyObject* dict, Py_ssize_t index) noexcept {
  const auto* known = reinterpret_cast<PyDictObject*>(dict);
  if (known->ma_values != nullptr) return known->ma_values->values[index];
  return DK_UNICODE_ENTRIES(known->ma_keys)[index].me_value;
}

PyObject* dict_get_str(PyObject* dict, PyObject* name) noexcept {
  const Py_ssize_t index = dict_entry_index(dict, name);
  return index >= 0 ? dict_entry(dict, index) : nullptr;
}

unsigned assign_type_version(PyTypeObject* type) {
  static const Owned<> probe = interned("__doc__");
  if (type_version(type) == 0) _PyType_Lookup(type, probe.get());  // a look-up gives a type its version
  return type_version(type);
}

BoundNative bound_native(PyObject* callable) {
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    struct WrapperObject {  // Objects/descrobject.c
      PyObject_HEAD PyWrapperDescrObject* descr;
      PyObject* self;
    };
    auto* wrapper = reinterpret_cast<WrapperObject*>(callable);
    return {reinterpret_cast<PyObject*>(wrapper->descr), wrapper->self};
  }
  if (!PyCFunction_Check(callable)) return {};
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (self == nullptr || PyModule_Check(self)) return {};
  const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  // Bound through super(), the descriptor is not the first of that name: it is the one with this C function.
  for (PyTypeObject* type : {Py_TYPE(self), PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : nullptr}) {
    PyObject* mro = type == nullptr ? nullptr : type->tp_mro;
    for (Py_ssize_t i = 0; mro != nullptr && i < PyTuple_GET_SIZE(mro); ++i) {
      PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))->tp_dict;
      PyObject* found = PyDict_GetItemString(dict, method->ml_name);
      if (found == nullptr || !(Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyClassMethodDescr_Type)))
        continue;
      if (reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method) return {found, self};
    }
  }
  return {};
}

}  // namespace pellucid::py
