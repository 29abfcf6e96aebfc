#include "py/cpython311.h"
#include "py/keys.h"
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

Py_ssize_t find_identical(PyDictKeysObject* keys, PyObject* wanted) noexcept {
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    PyObject* key = DK_IS_UNICODE(keys) ? DK_UNICODE_ENTRIES(keys)[i].me_key : DK_ENTRIES(keys)[i].me_key;
    if (key == wanted) return i;
  }
  return DKIX_EMPTY;
}

// `unknown`: a key with the same hash is in the way that only the program can compare.
Py_ssize_t find_known(PyDictKeysObject* keys, PyObject* wanted, Py_hash_t hash, bool* unknown) noexcept {
  const bool texts = DK_IS_UNICODE(keys);
  return probe(keys, hash, [&](Py_ssize_t i) {
    PyObject* key = texts ? DK_UNICODE_ENTRIES(keys)[i].me_key : DK_ENTRIES(keys)[i].me_key;
    if (key == nullptr) return false;
    if ((texts ? PyObject_Hash(key) : DK_ENTRIES(keys)[i].me_hash) != hash) return key == wanted;
    const Same same = same_key(key, wanted);
    *unknown = *unknown || same == Same::Unknown;
    return same != Same::No;
  });
}

PyObject* value_at(PyObject* dict, Py_ssize_t index) noexcept {
  if (index < 0) return nullptr;
  if (has_only_str_keys(dict)) return dict_entry(dict, index);
  return DK_ENTRIES(reinterpret_cast<PyDictObject*>(dict)->ma_keys)[index].me_value;
}

}  // namespace

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

Entry native_dict_find(PyObject* dict, PyObject* key) noexcept {
  if (PyUnicode_CheckExact(key) && has_only_str_keys(dict)) return {dict_get_str(dict, key), true};
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  Py_hash_t hash = 0;
  if (!known_hash(key, &hash)) {
    PyObject* value = value_at(dict, find_identical(keys, key));
    return {value, value != nullptr || PyDict_GET_SIZE(dict) == 0};
  }
  bool unknown = false;
  const Py_ssize_t index = find_known(keys, key, hash, &unknown);
  return {unknown ? nullptr : value_at(dict, index), !unknown};
}

PyObject* native_dict_get(PyObject* dict, PyObject* key) noexcept { return native_dict_find(dict, key).value; }

PyObject* ordered_dict_next(PyObject* ordered_dict, void** cursor) noexcept {
  auto* node = static_cast<OrderedNode*>(*cursor);
  node = node == nullptr ? reinterpret_cast<OrderedDict*>(ordered_dict)->first : node->next;
  *cursor = node;
  return node == nullptr ? nullptr : node->key;
}

}  // namespace pellucid::py
