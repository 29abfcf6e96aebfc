// What is not to be had from CPython's public API: instance attributes without making the instance's __dict__, dict and
// type versions, shared keys. The only file pair (besides frames/) that knows CPython's internal headers. Nothing here
// runs Python code unless it says so, and nothing makes a __dict__ that was not there. Results are borrowed.
//
// An instance of a Python class keeps its attributes in one of three ways, and goes from one to the next without
// notice:
//
//   inline     no dict yet: an array of values, whose keys are the type's shared keys      inline_values(obj)[i]
//   split      a dict whose values are such an array                                       instance_dict_if_any(obj)
//   combined   a dict like any other                                                       instance_dict_if_any(obj)
#pragma once
#include <Python.h>

#include <cstdint>
#include <string_view>

#include "py/ref.h"

namespace pellucid::py {

// ---- instances ----
// The entry `name` (an exact str) of the instance's __dict__ in whatever form it is, or null. Of a class: of its own
// tp_dict. Throws PythonError only when comparing odd (not str) dict keys raises: the one thing here that may run
// Python code.
PyObject* instance_attr(PyObject* object, PyObject* name);
// The dict that holds the instance's attributes; null when it has none, or none yet (inline values). Of a class: its
// tp_dict.
PyObject* instance_dict_if_any(PyObject* object);
// Where the object keeps that dict: good for as long as the object lives, whatever its class becomes (it has the same
// layout). Null: nowhere.
PyObject* const* instance_dict_place(PyObject* object) noexcept;
// Whether `object` can have instance attributes at all (it or its type has room for a __dict__).
bool has_instance_dict(PyObject* object) noexcept;
// The array of inline values (entries may be null), or null when there is a dict, or the type keeps no inline values.
PyObject* const* inline_values(PyObject* object) noexcept;
int inline_count(PyObject* object) noexcept;  // values set so far; -1 without inline values
// Calls visit(name, value) for each inline value in order of insertion.
template <class F>
void each_inline_value(PyObject* object, F&& visit);

// ---- shared keys of a class ----
// Index of `name` (exact str) among the keys that instances share, or -1. Keys are only added, never moved.
Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name) noexcept;
Py_ssize_t shared_key_count(PyTypeObject* type) noexcept;
PyObject* shared_key_at(PyTypeObject* type, Py_ssize_t index) noexcept;

// ---- dicts ----
inline std::uint64_t dict_version(PyObject* dict) noexcept {
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}
inline const std::uint64_t* dict_version_place(PyObject* dict) noexcept {
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}
// dict.get(key) with dict's own lookup: no __missing__, and errors of __hash__ and __eq__ are thrown (PythonError).
PyObject* dict_get(PyObject* dict, PyObject* key);
// The same for exact str keys in dicts whose keys are all exact str; null also when the dict has other keys. Never
// raises, runs nothing.
PyObject* dict_get_str(PyObject* dict, PyObject* name) noexcept;
bool has_only_str_keys(PyObject* dict) noexcept;
// Where `name` stands in the dict's entries, for later dict_entry(); -1: absent, or the dict has keys other than exact
// str.
Py_ssize_t dict_entry_index(PyObject* dict, PyObject* name) noexcept;
// Value at an entry index, or null. Valid for an index that dict_entry_index gave while the dict has the same key
// table.
PyObject* dict_entry(PyObject* dict, Py_ssize_t index) noexcept;

// ---- types ----
// The attribute of the class by its MRO, with no descriptor called (_PyType_Lookup).
inline PyObject* type_lookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }
// The version tag; 0: has none now. It goes to 0 at any write to the class or its bases.
inline unsigned type_version(PyTypeObject* type) noexcept {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? type->tp_version_tag : 0;
}
unsigned assign_type_version(PyTypeObject* type);  // gives it one if it can; 0 if not

// ---- bound C methods ----
// The descriptor behind a bound C function or slot (`[].append`, `super().__setattr__`) and what it is bound to; null:
// not bound to an instance.
struct BoundNative {
  PyObject* descriptor = nullptr;  // borrowed
  PyObject* self = nullptr;        // borrowed
};
BoundNative bound_native(PyObject* callable);

// ---- functions and cells ----
// Local variables, cells and free variables of a code object, in the slots of its frames.
inline int slot_count(const PyCodeObject* code) noexcept { return code->co_nlocalsplus; }
inline int first_free_slot(const PyCodeObject* code) noexcept { return code->co_nlocalsplus - code->co_nfreevars; }
inline PyObject* slot_name(const PyCodeObject* code, int slot) noexcept {
  return PyTuple_GET_ITEM(code->co_localsplusnames, slot);
}
inline std::string_view exception_table(const PyCodeObject* code) noexcept {
  return {PyBytes_AS_STRING(code->co_exceptiontable),
          static_cast<std::size_t>(PyBytes_GET_SIZE(code->co_exceptiontable))};
}

inline PyObject* cell_contents(PyObject* cell) noexcept { return PyCell_GET(cell); }  // null: empty

namespace detail {
int inline_insertion(PyObject* object, int nth) noexcept;  // index of the nth value by time of insertion
}

template <class F>
void each_inline_value(PyObject* object, F&& visit) {
  PyObject* const* values = inline_values(object);
  for (int nth = 0; values != nullptr && nth < inline_count(object); ++nth) {
    const int index = detail::inline_insertion(object, nth);
    if (values[index] != nullptr) visit(shared_key_at(Py_TYPE(object), index), values[index]);
  }
}

}  // namespace pellucid::py
