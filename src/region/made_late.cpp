#include "region/made_late.h"

namespace pellucid::region {
namespace {

constexpr const char* kName = "pellucid.made_late";  // what marks the capsules that are such objects

PyObject* call_of(PyObject* object) { return static_cast<PyObject*>(PyCapsule_GetPointer(object, kName)); }

}  // namespace

py::Owned<> made_late(PyObject* callable, PyObject* arguments) {
  auto call = py::take(PyTuple_Pack(2, callable, arguments));
  const PyCapsule_Destructor drop = [](PyObject* object) { Py_XDECREF(call_of(object)); };
  auto made = py::take(PyCapsule_New(call.get(), kName, drop));
  (void)call.release();
  return made;
}

bool is_made_late(PyObject* object) noexcept { return PyCapsule_IsValid(object, kName) != 0; }
PyObject* maker_of(PyObject* made_late) { return PyTuple_GET_ITEM(call_of(made_late), 0); }
PyObject* arguments_of(PyObject* made_late) { return PyTuple_GET_ITEM(call_of(made_late), 1); }

}  // namespace pellucid::region
