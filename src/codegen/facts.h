// What can be said about a type without running any of its code, and the raw contents of builtin containers and their
// subclasses.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "py/ref.h"

namespace pellucid::codegen {

PyObject* lookup(PyTypeObject* type, const char* name);  // along the MRO, borrowed; null when absent
PyObject* lookup(PyTypeObject* type, PyObject* name);
bool has_plain_setattr(PyTypeObject* type);  // neither __setattr__ nor __delattr__ is Python code
bool has_plain_getattr(
    PyTypeObject* type);  // __getattribute__ is not Python code (__getattr__ may be: it only runs for missing names)
bool has_data_descriptor(PyTypeObject* type, PyObject* name);
bool has_c_hash(PyObject* key);  // hashing (and the identity test) runs no user code
bool is_python_class(
    PyTypeObject* type);  // made by a class statement: adds only a dict, slots and weak references to its base
PyTypeObject* native_base(PyTypeObject* type);  // the class written in C that decides the layout

// A class that a function body made: perhaps by this region, and then every call would have to make another.
bool is_local_class(PyObject* object);

// Immutable and the same in every call: literals, and objects that are what they are by identity (types, modules,
// builtin functions, code, dtypes, enum members …).
// `varies`: whether this object, or a part of it, is another one in other calls.
using Varies = std::function<bool(PyObject*)>;
bool is_constant(PyObject* object, const Varies& varies = {});
bool is_nan(PyObject* object);  // a float or complex number that containers know by its identity
bool is_literal(
    PyObject* object);  // may stand in co_consts: nothing but numbers, strings, None, …, code and tuples of these
// None, bools, small integers, interned strings: cheaper as constants even when they came from somewhere.
bool is_singleton(PyObject* object);
// A Python function that its module still holds under its qualified name: it was not made by a region.
bool is_importable(PyObject* function);

PyTypeObject* ordered_dict_type();
PyTypeObject* default_dict_type();
PyTypeObject* deque_type();
PyTypeObject* partial_type();
PyTypeObject* simple_namespace_type();

using Pairs = std::vector<std::pair<PyObject*, PyObject*>>;
Pairs dict_items(PyObject* dict);  // in iteration order, never through overridden methods; borrowed
std::vector<PyObject*> list_items(PyObject* list_or_tuple);
std::vector<PyObject*> set_items(PyObject* set);
std::vector<PyObject*> deque_items(PyObject* deque);

}  // namespace pellucid::codegen
