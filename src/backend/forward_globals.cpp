#include "backend/forward_globals.h"

namespace pellucid::backend {

ForwardGlobals::ForwardGlobals() : dict_(py::take(PyDict_New())) {
  py::check(PyDict_SetItemString(dict_.get(), "__builtins__", PyEval_GetBuiltins()));
  py::check(PyDict_SetItemString(dict_.get(), "__name__", py::str("pellucid.graph").get()));
}

PyObject* ForwardGlobals::add(PyObject* object, const std::string& hint) {
  auto& name = name_of_[object];
  if (!name) {
    name = py::interned(names_.unique(hint.empty() ? "callable" : hint).c_str());
    py::check(PyDict_SetItem(dict_.get(), name.get(), object));
  }
  return name.get();
}

bool is_code_constant(PyObject* value) {
  if (value == Py_None || value == Py_Ellipsis || PyBool_Check(value)) return true;
  if (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyComplex_CheckExact(value)) return true;
  if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) return true;
  if (!PyTuple_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!is_code_constant(PyTuple_GET_ITEM(value, i))) return false;
  }
  return true;
}

}  // namespace pellucid::backend
