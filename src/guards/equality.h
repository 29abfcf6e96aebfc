// Equality as a guard means it: the same exact types, floats bit for bit, and no user code.
#pragma once
#include <Python.h>

#include "source/source.h"

namespace pellucid::guards {

// int, float, complex, str, bytes, bool, None, tuples and frozensets of these, range, slice, torch.device, numpy
// scalars; any other object is equal to itself only.
bool equal_constants(PyObject* expected, PyObject* found) noexcept;

// An instance of a subclass of int, float, complex, str or bytes, or a numpy scalar: C code takes it for its value.
bool has_builtin_value(PyObject* object) noexcept;
// numpy.float32 and its like: no texts, no dates.
bool is_number_of_numpy(PyTypeObject* type) noexcept;
// The same exact type with equal values. Other attributes of such instances do not matter.
bool equal_builtin_values(PyObject* expected, PyObject* found) noexcept;

// Whether they reach a value in the same way. Names and keys that are equal need not be one object.
bool equal_paths(const source::Source* a, const source::Source* b) noexcept;

// Keys in iteration order (an OrderedDict's own order) against `keys`. Of tuples' subclasses the very same objects.
bool equal_keys(PyObject* dict, PyObject* const* keys, Py_ssize_t count) noexcept;

// `members`: a dict that maps each element to itself.
bool equal_sets(PyObject* members, PyObject* found, bool ordered) noexcept;

// The dict that equal_sets needs. Null with an error pending.
PyObject* members_of(PyObject* set);

bool is_ordered_dict_type(PyTypeObject* type) noexcept;  // OrderedDict or a subclass

}  // namespace pellucid::guards
