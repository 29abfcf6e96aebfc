// Lookups for guards: nothing here runs user code, raises or makes a dict. Keys are hashed and compared by known C code
// (py/keys.h), so a user's __eq__ or __hash__ is never called.
#pragma once
#include <Python.h>

#include "py/cpython.h"

namespace pellucid::py {

// The entry `name` of the instance dict in whatever form it is (cpython311.h, "instances"). Borrowed, or null.
PyObject* native_instance_attr(PyObject* object, PyObject* name) noexcept;

// instance_dict_if_any, with its usual case inline for the guards' hot path (the word before the header, as in
// cpython311.cpp).
inline PyObject* instance_dict_now(PyObject* object) noexcept {
  if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT)) return reinterpret_cast<PyObject**>(object)[-3];
  return instance_dict_if_any(object);
}

// dict's own lookup, without __missing__. `dict` must be a dict or a subclass. Borrowed, or null.
struct Entry {
  PyObject* value = nullptr;
  bool known = true;  // false: what the dict has under this key only Python code can tell
};
Entry native_dict_find(PyObject* dict, PyObject* key) noexcept;
PyObject* native_dict_get(PyObject* dict, PyObject* key) noexcept;  // null also when that is not known

// The instance dict, made when the type has room for one and the object has none yet. Borrowed, or null.
PyObject* make_instance_dict(PyObject* object) noexcept;

// Walks the keys of an OrderedDict (or a subclass) in its own order. Start with a null cursor; null ends.
PyObject* ordered_dict_next(PyObject* ordered_dict, void** cursor) noexcept;

}  // namespace pellucid::py
