#include "aten/placement.h"

#include <initializer_list>

#include "py/ref.h"

namespace pellucid::aten {
namespace {

// A class of torch; null: torch is built without it. For the process.
PyTypeObject* class_of_torch(std::initializer_list<const char*> path) {
  auto place = py::Owned<>::share(py::module_named("torch"));
  for (const char* step : path) {
    if (place) place = py::Owned<>::steal(PyObject_GetAttrString(place.get(), step));
  }
  if (!place) PyErr_Clear();
  return place && PyType_Check(place.get()) ? reinterpret_cast<PyTypeObject*>(place.release()) : nullptr;
}

}  // namespace

bool is_placement_type(PyTypeObject* type) noexcept {
  static PyTypeObject* const base = class_of_torch({"_C", "_distributed", "Placement"});
  static PyObject* const equal = py::interned("__eq__").release();
  if (base == nullptr || !PyType_IsSubtype(type, base)) return false;
  PyObject* const compares = _PyType_Lookup(type, equal);
  return compares != nullptr && !PyFunction_Check(compares);
}

bool is_opaque_type(PyTypeObject* type) noexcept {
  static PyTypeObject* const meta = class_of_torch({"_opaque_base", "OpaqueBaseMeta"});
  return meta != nullptr && PyObject_TypeCheck(reinterpret_cast<PyObject*>(type), meta);
}

}  // namespace pellucid::aten
