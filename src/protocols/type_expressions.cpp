#include "protocols/type_expressions.h"

#include "py/ref.h"
#include "region/reads.h"

namespace pellucid::protocols {
namespace {

// A class that typing has under its name.
bool is_of_typing(PyTypeObject* type) {
  static PyObject* const space = py::import_attr("typing", "__dict__").release();
  PyObject* const known = PyDict_GetItemString(space, _PyType_Name(type));
  return known == reinterpret_cast<PyObject*>(type);
}

bool is_plain_type(PyObject* value) {
  const PyTypeObject* meta = Py_TYPE(value);
  return PyType_Check(value) && meta->tp_hash == PyType_Type.tp_hash &&
         meta->tp_richcompare == PyType_Type.tp_richcompare;
}

bool all_are(PyObject* sequence) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    if (!is_type_value(PySequence_Fast_GET_ITEM(sequence, i))) return false;
  }
  return true;
}

// What an alias has under this name; nothing is right too.
bool parts_are(PyObject* alias, const char* name) {
  const auto parts = py::Owned<>::steal(PyObject_GetAttrString(alias, name));
  if (!parts) return PyErr_Clear(), true;
  return !PyTuple_CheckExact(parts.get()) || all_are(parts.get());
}

}  // namespace

bool is_type_value(PyObject* value) {
  if (is_plain_type(value) || value == Py_None || value == Py_Ellipsis) return true;
  if (PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) || PyBytes_CheckExact(value))
    return true;
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) return all_are(value);
  const bool is_alias = PyObject_TypeCheck(value, &Py_GenericAliasType) != 0 || is_of_typing(Py_TYPE(value));
  if (!is_alias && !is_type_expression(value)) return false;
  return !PyType_Check(value) && parts_are(value, "__args__") && parts_are(value, "__metadata__");
}

}  // namespace pellucid::protocols
