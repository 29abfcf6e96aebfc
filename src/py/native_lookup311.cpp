#include "py/cpython311.h"
#include "py/native_lookup.h"

#define Py_BUILD_CORE
#include <internal/pycore_dict.h>
#undef Py_BUILD_CORE

#include <cstdint>

namespace pellucid::py {
namespace {

// Objects/odictobject.c; the type is opaque in the headers.
struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  OrderedNode* next;
  OrderedNode* previous;
};
struct OrderedDict {
  PyDictObject dict;
  OrderedNode* first;
  OrderedNode* last;
};

Py_ssize_t index_at(const PyDictKeysObject* keys, std::size_t slot) noexcept {
  const int log2 = keys->dk_log2_size;
  if (log2 < 8) return reinterpret_cast<const std::int8_t*>(keys->dk_indices)[slot];
  if (log2 < 16) return reinterpret_cast<const std::int16_t*>(keys->dk_indices)[slot];
  if (log2 < 32) return reinterpret_cast<const std::int32_t*>(keys->dk_indices)[slot];
  return reinterpret_cast<const std::int64_t*>(keys->dk_indices)[slot];
}

// CPython's probe sequence; `same(index)` decides whether the entry is the wanted one.
template <class Same>
Py_ssize_t probe(const PyDictKeysObject* keys, Py_hash_t hash, Same&& same) noexcept {
  const std::size_t mask = (std::size_t{1} << keys->dk_log2_size) - 1;
  auto perturb = static_cast<std::size_t>(hash);
  for (std::size_t slot = perturb & mask;; perturb >>= 5, slot = (slot * 5 + perturb + 1) & mask) {
    const Py_ssize_t index = index_at(keys, slot);
    if (index == DKIX_EMPTY) return DKIX_EMPTY;
    if (index >= 0 && same(index)) return index;
  }
}

Py_ssize_t find_general(PyDictKeysObject* keys, PyObject* wanted, Py_hash_t hash) noexcept {
  const PyDictKeyEntry* entries = DK_ENTRIES(keys);
  return probe(keys, hash, [&](Py_ssize_t i) {
    return entries[i].me_key == wanted || (entries[i].me_hash == hash && equal_builtin_keys(entries[i].me_key, wanted));
  });
}

Py_ssize_t find_identical(PyDictKeysObject* keys, PyObject* wanted) noexcept {
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    PyObject* key = DK_IS_UNICODE(keys) ? DK_UNICODE_ENTRIES(keys)[i].me_key : DK_ENTRIES(keys)[i].me_key;
    if (key == wanted) return i;
  }
  return DKIX_EMPTY;
}

// The hash when computing it runs only C code of builtin types.
bool safe_hash(PyObject* key, Py_hash_t* hash) noexcept {
  PyTypeObject* type = Py_TYPE(key);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!safe_hash(PyTuple_GET_ITEM(key, i), hash)) return false;
    }
  } else if (type->tp_hash != PyBaseObject_Type.tp_hash && type->tp_hash != PyUnicode_Type.tp_hash &&
             type->tp_hash != PyLong_Type.tp_hash && type->tp_hash != PyFloat_Type.tp_hash &&
             type->tp_hash != PyBytes_Type.tp_hash && type->tp_hash != PyComplex_Type.tp_hash) {
    return false;
  }
  *hash = PyObject_Hash(key);
  return *hash != -1;
}

bool compares_natively(PyObject* object) noexcept {
  const richcmpfunc compare = Py_TYPE(object)->tp_richcompare;
  return compare == PyUnicode_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare ||
         compare == PyFloat_Type.tp_richcompare || compare == PyBytes_Type.tp_richcompare ||
         compare == PyComplex_Type.tp_richcompare;
}

PyObject* value_at(PyObject* dict, Py_ssize_t index) noexcept {
  if (index < 0) return nullptr;
  if (has_only_str_keys(dict)) return dict_entry(dict, index);
  return DK_ENTRIES(reinterpret_cast<PyDictObject*>(dict)->ma_keys)[index].me_value;
}

}  // namespace

bool equal_builtin_keys(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  if (PyTuple_CheckExact(a) && PyTuple_CheckExact(b)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
      if (!equal_builtin_keys(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  if (!compares_natively(a) || !compares_natively(b)) return false;
  // bytes against str would warn under -b: they are never equal.
  if (PyBytes_Check(a) != PyBytes_Check(b) || PyUnicode_Check(a) != PyUnicode_Check(b)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

PyObject* make_instance_dict(PyObject* object) noexcept {
  if (!has_instance_dict(object)) return nullptr;
  if (PyObject* dict = instance_dict_if_any(object)) return dict;
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);  // the object keeps it
  if (dict == nullptr) PyErr_Clear();
  Py_XDECREF(dict);
  return instance_dict_if_any(object);
}

PyObject* native_instance_attr(PyObject* object, PyObject* name) noexcept {
  if (!PyUnicode_CheckExact(name)) return nullptr;
  if (PyObject* const* values = inline_values(object)) {
    const Py_ssize_t index = shared_key_index(Py_TYPE(object), name);
    return index < 0 ? nullptr : values[index];
  }
  PyObject* dict = instance_dict_if_any(object);
  return dict == nullptr ? nullptr : native_dict_get(dict, name);
}

PyObject* native_dict_get(PyObject* dict, PyObject* key) noexcept {
  if (PyUnicode_CheckExact(key) && has_only_str_keys(dict)) return dict_get_str(dict, key);
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  Py_hash_t hash = 0;
  if (!safe_hash(key, &hash)) {
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return value_at(dict, find_identical(keys, key));
  }
  if (!has_only_str_keys(dict)) return value_at(dict, find_general(keys, key, hash));
  // Among the types with a safe hash only subclasses of str can be equal to an exact str.
  if (!PyUnicode_Check(key) || !compares_natively(key)) return nullptr;
  auto exact = Owned<>::steal(PyUnicode_FromObject(key));
  if (!exact) PyErr_Clear();
  return exact ? dict_get_str(dict, exact.get()) : nullptr;
}

PyObject* ordered_dict_next(PyObject* ordered_dict, void** cursor) noexcept {
  auto* node = static_cast<OrderedNode*>(*cursor);
  node = node == nullptr ? reinterpret_cast<OrderedDict*>(ordered_dict)->first : node->next;
  *cursor = node;
  return node == nullptr ? nullptr : node->key;
}

}  // namespace pellucid::py
