#include "region/objects.h"

namespace pellucid::region {

py::Owned<> rebuilt(PyObject* like, py::Owned<> tuple) {
  if (PyList_Check(like)) return py::take(PySequence_List(tuple.get()));
  if (PyTuple_CheckExact(like)) return tuple;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(like));
  if (PyObject_HasAttrString(type, "_fields") && PyObject_HasAttrString(type, "_make")) {
    auto make = py::take(PyObject_GetAttrString(type, "_make"));
    return py::take(PyObject_CallOneArg(make.get(), tuple.get()));
  }
  return py::take(PyObject_CallOneArg(type, tuple.get()));
}

}  // namespace pellucid::region
