#include "frames/real_rules.h"
#include "py/ref.h"

namespace pellucid::frames {
namespace {

using py::Owned;

// Adds `item` to the set `seen`: 1 new, 0 there already, -1 an error.
int add_new(PyObject* seen, PyObject* item) noexcept {
  const int known = PySet_Contains(seen, item);
  if (known != 0) return known < 0 ? -1 : 0;
  return PySet_Add(seen, item) < 0 ? -1 : 1;
}

// Null without an error: a key is missing.
Owned<> values_of_keys(PyObject* mapping, PyObject* keys) noexcept {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  auto values = Owned<>::steal(PyTuple_New(count));
  if (!values || count == 0) return values;
  const auto get = Owned<>::steal(PyObject_GetAttrString(mapping, "get"));
  const auto seen = Owned<>::steal(get ? PySet_New(nullptr) : nullptr);
  const auto missing =
      Owned<>::steal(seen ? PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)) : nullptr);
  if (!missing) return {};
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    const int fresh = add_new(seen.get(), key);
    if (fresh == 0) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
    if (fresh <= 0) return {};
    PyObject* args[] = {key, missing.get()};
    auto value = Owned<>::steal(PyObject_Vectorcall(get.get(), args, 2, nullptr));
    if (!value || value.get() == missing.get()) return {};
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  return values;
}

// One attribute of the subject, appended to `found`. False without an error: it has none of this name.
bool take_attribute(PyObject* subject, PyTypeObject* type, PyObject* name, PyObject* seen, PyObject* found) noexcept {
  const int fresh = add_new(seen, name);
  if (fresh == 0) PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", type->tp_name, name);
  if (fresh <= 0) return false;
  const auto value = Owned<>::steal(PyObject_GetAttr(subject, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError) != 0) PyErr_Clear();
  return value && PyList_Append(found, value.get()) == 0;
}

// `__match_args__`, an empty tuple when there is none; null: an error.
Owned<> positional_names(PyTypeObject* type, bool* whole) noexcept {
  auto names = Owned<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__match_args__"));
  if (names && !PyTuple_CheckExact(names.get())) {
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type->tp_name,
                 Py_TYPE(names.get())->tp_name);
    return {};
  }
  if (!names && PyErr_ExceptionMatches(PyExc_AttributeError) != 0) {
    PyErr_Clear();
    *whole = PyType_HasFeature(type, _Py_TPFLAGS_MATCH_SELF) != 0;
    names = Owned<>::steal(PyTuple_New(0));
  }
  return names;
}

bool take_positional(PyObject* subject, PyTypeObject* type, Py_ssize_t count, PyObject* seen,
                     PyObject* found) noexcept {
  bool whole = false;
  const auto names = positional_names(type, &whole);
  if (!names) return false;
  const Py_ssize_t allowed = whole ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)", type->tp_name, allowed,
                 allowed == 1 ? "" : "s", count);
    return false;
  }
  if (whole) return PyList_Append(found, subject) == 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    if (!take_attribute(subject, type, name, seen, found)) return false;
  }
  return true;
}

// The attributes that a class pattern asks for; null without an error: no match.
Owned<> attributes_of_class(PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* names) noexcept {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a type");
    return {};
  }
  if (PyObject_IsInstance(subject, type) <= 0) return {};
  auto* const as_type = reinterpret_cast<PyTypeObject*>(type);
  const auto seen = Owned<>::steal(PySet_New(nullptr));
  const auto found = Owned<>::steal(seen ? PyList_New(0) : nullptr);
  if (!found || (count > 0 && !take_positional(subject, as_type, count, seen.get(), found.get()))) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!take_attribute(subject, as_type, PyTuple_GET_ITEM(names, i), seen.get(), found.get())) return {};
  }
  return Owned<>::steal(PyList_AsTuple(found.get()));
}

// A tuple, or None: no match.
PyObject* or_none(Owned<> match) noexcept {
  if (!match && PyErr_Occurred() == nullptr) return Py_NewRef(Py_None);
  return match.release();
}

}  // namespace

bool get_len(Step& step) noexcept {
  const Py_ssize_t length = PyObject_Length(step.peek(0));
  PyObject* number = length < 0 ? nullptr : PyLong_FromSsize_t(length);
  if (number == nullptr) return false;
  *step.top++ = number;
  return true;
}

bool match_keys(Step& step) noexcept {
  PyObject* values = or_none(values_of_keys(step.peek(1), step.peek(0)));
  if (values == nullptr) return false;
  *step.top++ = values;
  return true;
}

bool match_class(Step& step) noexcept {
  PyObject* attributes = or_none(attributes_of_class(step.peek(2), step.peek(1), step.arg, step.peek(0)));
  if (attributes == nullptr) return false;
  step.replace(3, attributes);
  return true;
}

}  // namespace pellucid::frames
