#include "py/cpython311.h"
#include "py/hinted_lookup.h"
#include "py/native_lookup.h"

#define Py_BUILD_CORE
#include <internal/pycore_dict.h>
#undef Py_BUILD_CORE

namespace pellucid::py {
namespace {

// A managed dict: inline values four words before the object, or the dict three words before it.
const PyDictValues* values_before(PyObject* object) noexcept { return reinterpret_cast<PyDictValues**>(object)[-4]; }
PyObject* dict_before(PyObject* object) noexcept { return reinterpret_cast<PyObject**>(object)[-3]; }

bool stands_at(PyDictKeysObject* keys, Py_ssize_t hint, PyObject* name) noexcept {
  return DK_IS_UNICODE(keys) && hint < keys->dk_nentries && DK_UNICODE_ENTRIES(keys)[hint].me_key == name;
}

PyObject* value_at(PyDictObject* dict, Py_ssize_t index) noexcept {
  return dict->ma_values != nullptr ? dict->ma_values->values[index]
                                    : DK_UNICODE_ENTRIES(dict->ma_keys)[index].me_value;
}

PyObject* attr_without_hint(PyObject* object, PyObject* name, Py_ssize_t& hint) noexcept {
  if (PyObject* const* values = inline_values(object)) {
    const Py_ssize_t found = shared_key_index(Py_TYPE(object), name);
    if (found < 0) return nullptr;
    hint = found;
    return values[found];
  }
  PyObject* dict = instance_dict_if_any(object);
  return dict == nullptr ? nullptr : dict_get_hinted(dict, name, hint);
}

}  // namespace

PyObject* instance_attr_hinted(PyObject* object, PyObject* name, Py_ssize_t& hint) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if ((type->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) return attr_without_hint(object, name, hint);
  if (const PyDictValues* values = values_before(object)) {
    PyDictKeysObject* keys = reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
    return stands_at(keys, hint, name) ? values->values[hint] : attr_without_hint(object, name, hint);
  }
  PyObject* dict = dict_before(object);
  return dict == nullptr ? nullptr : dict_get_hinted(dict, name, hint);
}

PyObject* dict_get_hinted(PyObject* dict, PyObject* name, Py_ssize_t& hint) noexcept {
  auto* self = reinterpret_cast<PyDictObject*>(dict);
  if (stands_at(self->ma_keys, hint, name)) return value_at(self, hint);
  const Py_ssize_t found = dict_entry_index(dict, name);
  if (found < 0) return native_dict_get(dict, name);
  hint = found;
  return dict_entry(dict, found);
}

}  // namespace pellucid::py
