#include "py/native_getattr.h"

#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::py {
namespace {

getattrofunc wrapped_getattro(PyObject* slot) noexcept {
  return reinterpret_cast<getattrofunc>(reinterpret_cast<PyWrapperDescrObject*>(slot)->d_wrapped);
}

// The function behind the first __getattribute__ written in C that the class inherits. A class written in Python is
// laid out like its tp_base, so what reads the base's instances reads its own.
getattrofunc native_getattro(PyTypeObject* type) noexcept {
  static PyObject* const name = interned("__getattribute__").release();
  for (; type != nullptr; type = type->tp_base) {
    PyObject* slot = type_lookup(type, name);
    if (slot != nullptr && Py_IS_TYPE(slot, &PyWrapperDescr_Type)) return wrapped_getattro(slot);
  }
  return PyObject_GenericGetAttr;
}

}  // namespace

PyObject* native_getattr(PyObject* object, PyObject* name) noexcept {
  return native_getattro(Py_TYPE(object))(object, name);
}

bool is_generic_getattribute(PyObject* slot) noexcept {
  return slot != nullptr && Py_IS_TYPE(slot, &PyWrapperDescr_Type) && wrapped_getattro(slot) == PyObject_GenericGetAttr;
}

}  // namespace pellucid::py
