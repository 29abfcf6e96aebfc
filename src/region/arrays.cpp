#include "region/arrays.h"

#include <string>
#include <unordered_map>

#include "guards/equality.h"
#include "region/types.h"

namespace pellucid::region {

PyObject* of_numpy_module(const char* name) {
  static auto* const known = new std::unordered_map<std::string, PyObject*>;
  PyObject*& place = (*known)[name];
  if (place == nullptr) place = py::import_attr("pellucid._numpy", name).release();
  return place;
}

namespace {

bool has_type(PyObject* object, const char* name) {
  return cat_of(object) == Cat::Array && reinterpret_cast<PyObject*>(Py_TYPE(object)) == of_numpy_module(name);
}

}  // namespace

bool is_scalar_stand_in(PyObject* object) { return has_type(object, "ScalarStandIn"); }

bool is_stand_in(PyObject* object) { return has_type(object, "ArrayStandIn") || is_scalar_stand_in(object); }

bool is_numpy_scalar(PyObject* object) {
  return cat_of(object) == Cat::Other && guards::is_number_of_numpy(Py_TYPE(object));
}

bool is_numpy_dtype(PyObject* object) {
  return cat_of(object) == Cat::Other && PyDict_GetItemString(PyImport_GetModuleDict(), "numpy") != nullptr &&
         PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(of_numpy_module("DTYPE"))) != 0;
}

bool is_builtin_dtype(PyObject* dtype) {
  return PyLong_AsLong(py::take(PyObject_GetAttrString(dtype, "isbuiltin")).get()) == 1;
}

char numpy_kind(PyObject* scalar) {
  const auto dtype = py::take(PyObject_GetAttrString(scalar, "dtype"));
  return py::text_of(py::take(PyObject_GetAttrString(dtype.get(), "kind")).get()).front();
}

py::Owned<> of_presented_type(PyObject* object) {
  if (cat_of(object) != Cat::Array || !is_stand_in(object)) return py::Owned<>::share(object);
  return py::take(PyObject_CallOneArg(of_numpy_module("of_same_type"), object));
}

}  // namespace pellucid::region
