#include "region/enums.h"

#include "region/region.h"

namespace pellucid::region {

bool is_enums_own(PyObject* function) {
  static PyObject* globals = PyModule_GetDict(py::module_named("enum"));
  return PyFunction_GET_GLOBALS(function) == globals;
}

bool has_user_method(Region& region, PyTypeObject* enum_class, const char* name) {
  PyObject* method = region.lookups.type_lookup(enum_class, name);
  if (method == nullptr || Py_IS_TYPE(method, &PyWrapperDescr_Type) || Py_IS_TYPE(method, &PyMethodDescr_Type))
    return false;
  return !PyFunction_Check(method) || !is_enums_own(method);
}

bool runs_user_code(Region& region, PyTypeObject* enum_class) {
  bool user = false;
  for (const char* name :
       {"__str__", "__repr__", "__format__", "__hash__", "__eq__", "__int__", "__index__", "__float__"})
    user |= has_user_method(region, enum_class, name);
  return user;
}

}  // namespace pellucid::region
