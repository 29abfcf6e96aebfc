#include "guards/equality.h"

#include <cmath>
#include <cstring>

#include "aten/placement.h"
#include "py/native_lookup.h"

namespace pellucid::guards {
namespace {

bool equal_items(PyObject* a, PyObject* b) noexcept {
  const Py_ssize_t size = PyTuple_GET_SIZE(a);
  if (size != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!equal_constants(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  }
  return true;
}

using Comparison = bool (*)(PyObject*, PyObject*) noexcept;

bool contains_same(PyObject* set, PyObject* wanted, Py_hash_t wanted_hash, Comparison same) noexcept {
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &at, &element, &hash) != 0) {
    if (hash == wanted_hash && same(element, wanted)) return true;
  }
  return false;
}

bool have_same_elements(PyObject* a, PyObject* b, Comparison same) noexcept {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(a, &at, &element, &hash) != 0) {
    if (!contains_same(b, element, hash, same)) return false;
  }
  return true;
}

// The three members of a range are read-only C members.
bool equal_ranges(PyObject* a, PyObject* b) noexcept {
  for (const char* name : {"start", "stop", "step"}) {
    PyObject* left = PyObject_GetAttrString(a, name);
    PyObject* right = PyObject_GetAttrString(b, name);
    const bool equal = left != nullptr && right != nullptr && equal_constants(left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (!equal) return false;
  }
  return true;
}

bool equal_slices(PyObject* a, PyObject* b) noexcept {
  const auto* left = reinterpret_cast<PySliceObject*>(a);
  const auto* right = reinterpret_cast<PySliceObject*>(b);
  return equal_constants(left->start, right->start) && equal_constants(left->stop, right->stop) &&
         equal_constants(left->step, right->step);
}

bool equal_bytes_of(PyObject* a, PyObject* b) noexcept {  // numpy scalars: the values bit for bit
  Py_buffer left, right;
  if (PyObject_GetBuffer(a, &left, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return false;
  }
  bool equal = false;
  if (PyObject_GetBuffer(b, &right, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
  } else {
    equal = left.len == right.len && std::memcmp(left.buf, right.buf, static_cast<std::size_t>(left.len)) == 0;
    PyBuffer_Release(&right);
  }
  PyBuffer_Release(&left);
  return equal;
}

bool equal_natively(PyObject* a, PyObject* b) noexcept {
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

// Bit for bit, like the next one. What differs from itself (NaN) is found in containers by its identity alone, and two
// of them are not the same there.
bool same_floats(PyObject* left, PyObject* right) noexcept {
  const double a = PyFloat_AS_DOUBLE(left), b = PyFloat_AS_DOUBLE(right);
  return !std::isnan(a) && std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_complexes(PyObject* left, PyObject* right) noexcept {
  const Py_complex a = reinterpret_cast<PyComplexObject*>(left)->cval;
  const Py_complex b = reinterpret_cast<PyComplexObject*>(right)->cval;
  return !std::isnan(a.real) && !std::isnan(a.imag) && std::memcmp(&a, &b, sizeof a) == 0;
}

bool equals_itself(PyObject* object) noexcept {
  PyObject* equal = PyObject_RichCompare(object, object, Py_EQ);
  const int truth = equal == nullptr ? -1 : PyObject_IsTrue(equal);
  Py_XDECREF(equal);
  if (truth < 0) PyErr_Clear();
  return truth > 0;
}

bool named(PyTypeObject* type, const char* prefix) noexcept {
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && std::strncmp(type->tp_name, prefix, std::strlen(prefix)) == 0;
}

bool is_numpy_scalar(PyTypeObject* type) noexcept {  // arrays and records can change
  return named(type, "numpy.") && !named(type, "numpy.ndarray") && !named(type, "numpy.void") &&
         !named(type, "numpy.object_") && type->tp_as_buffer != nullptr;
}

}  // namespace

bool is_number_of_numpy(PyTypeObject* type) noexcept {
  return is_numpy_scalar(type) && !named(type, "numpy.str") && !named(type, "numpy.bytes") &&
         !named(type, "numpy.datetime") && !named(type, "numpy.timedelta") && !named(type, "numpy.dtype");
}

bool equal_constants(PyObject* expected, PyObject* found) noexcept {
  if (expected == found) return true;
  PyTypeObject* type = Py_TYPE(expected);
  if (type != Py_TYPE(found)) return false;
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type) return equal_natively(expected, found);
  if (type == &PyFloat_Type) return same_floats(expected, found);
  if (type == &PyComplex_Type) return same_complexes(expected, found);
  if (PyTuple_Check(expected)) return equal_items(expected, found);
  if (type == &PyFrozenSet_Type) return have_same_elements(expected, found, equal_constants);
  if (type == &PyRange_Type) return equal_ranges(expected, found);
  if (type == &PySlice_Type) return equal_slices(expected, found);
  if (named(type, "torch.device") || aten::is_placement_type(type)) return equal_natively(expected, found);
  return is_numpy_scalar(type) && equal_bytes_of(expected, found) && equals_itself(found);
}

bool has_builtin_value(PyObject* object) noexcept {
  return PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object) ||
         PyComplex_Check(object) || is_numpy_scalar(Py_TYPE(object));
}

bool equal_builtin_values(PyObject* expected, PyObject* found) noexcept {
  if (Py_TYPE(expected) != Py_TYPE(found)) return false;
  const auto equal_as = [&](PyTypeObject& type) {  // never a method of the subclass
    PyObject* equal = type.tp_richcompare(expected, found, Py_EQ);
    if (equal == nullptr) PyErr_Clear();
    Py_XDECREF(equal);
    return equal == Py_True;
  };
  if (PyLong_Check(expected)) return equal_as(PyLong_Type);
  if (PyUnicode_Check(expected)) return equal_as(PyUnicode_Type);
  if (PyBytes_Check(expected)) return equal_as(PyBytes_Type);
  if (PyFloat_Check(expected)) return same_floats(expected, found);
  if (PyComplex_Check(expected)) return same_complexes(expected, found);
  return is_numpy_scalar(Py_TYPE(expected)) && equal_bytes_of(expected, found);
}

bool is_ordered_dict_type(PyTypeObject* type) noexcept { return PyType_IsSubtype(type, &PyODict_Type) != 0; }

namespace {
// Keys and elements are known objects to the region, which may give them back: equal namedtuples will not do, nor will
// frozensets of them.
bool same_known(PyObject* expected, PyObject* found) noexcept {
  if (expected == found) return true;
  if (PyFrozenSet_CheckExact(expected) && PyFrozenSet_CheckExact(found))
    return have_same_elements(expected, found, same_known);
  if (!PyTuple_Check(expected)) return equal_constants(expected, found);
  if (!PyTuple_CheckExact(expected) || !PyTuple_CheckExact(found)) return false;
  if (PyTuple_GET_SIZE(expected) != PyTuple_GET_SIZE(found)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); ++i) {
    if (!same_known(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(found, i))) return false;
  }
  return true;
}
}  // namespace

bool equal_paths(const source::Source* a, const source::Source* b) noexcept {
  const auto is_same = [](PyObject* x, PyObject* y) {
    return x == y || (x != nullptr && y != nullptr && equal_constants(x, y));
  };
  for (; a != nullptr && b != nullptr; a = a->base, b = b->base) {
    if (a->step != b->step || a->index != b->index || !is_same(a->operand.get(), b->operand.get())) return false;
  }
  return a == b;
}

bool equal_keys(PyObject* dict, PyObject* const* keys, Py_ssize_t count) noexcept {
  if (!PyDict_Check(dict) || reinterpret_cast<PyDictObject*>(dict)->ma_used != count) return false;
  Py_ssize_t position = 0, at = 0;
  void* cursor = nullptr;
  PyObject* key = nullptr;
  const bool ordered = is_ordered_dict_type(Py_TYPE(dict));
  while (ordered ? (key = py::ordered_dict_next(dict, &cursor)) != nullptr
                 : PyDict_Next(dict, &position, &key, nullptr) != 0) {
    if (at == count || !same_known(keys[at], key)) return false;
    ++at;
  }
  return at == count;
}

PyObject* members_of(PyObject* set) {
  PyObject* members = PyDict_New();
  if (PyTuple_Check(set)) {  // in the order of iteration
    for (Py_ssize_t i = 0; members != nullptr && i < PyTuple_GET_SIZE(set); ++i) {
      if (PyDict_SetItem(members, PyTuple_GET_ITEM(set, i), PyTuple_GET_ITEM(set, i)) != 0) Py_CLEAR(members);
    }
    return members;
  }
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (members != nullptr && _PySet_NextEntry(set, &at, &element, &hash) != 0) {
    if (_PyDict_SetItem_KnownHash(members, element, element, hash) != 0) Py_CLEAR(members);
  }
  return members;
}

bool equal_sets(PyObject* members, PyObject* found, bool ordered) noexcept {
  if (!PyAnySet_Check(found) || PySet_GET_SIZE(found) != PyDict_GET_SIZE(members)) return false;
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t next = 0;
  PyObject* in_order = nullptr;
  while (_PySet_NextEntry(found, &at, &element, &hash) != 0) {
    PyObject* member = py::native_dict_get(members, element);
    if (ordered &&
        (PyDict_Next(members, &next, &in_order, nullptr) == 0 || member == nullptr || !same_known(in_order, element)))
      return false;
    if (member == nullptr || !same_known(member, element)) return false;
  }
  return true;
}

}  // namespace pellucid::guards
