#include "objects/enums.h"

namespace pellucid::objects {

bool is_enums_own(PyObject* function) {
  static PyObject* globals = PyModule_GetDict(py::module_named("enum"));
  return PyFunction_GET_GLOBALS(function) == globals;
}

bool has_user_method(Tracer& tracer, PyTypeObject* enum_class, const char* name) {
  PyObject* method = tracer.type_lookup(enum_class, name);
  if (method == nullptr || Py_IS_TYPE(method, &PyWrapperDescr_Type) || Py_IS_TYPE(method, &PyMethodDescr_Type))
    return false;
  return !PyFunction_Check(method) || !is_enums_own(method);
}

bool runs_user_code(Tracer& tracer, PyTypeObject* enum_class) {
  bool user = false;
  for (const char* name :
       {"__str__", "__repr__", "__format__", "__hash__", "__eq__", "__int__", "__index__", "__float__"})
    user |= has_user_method(tracer, enum_class, name);
  return user;
}

}  // namespace pellucid::objects
