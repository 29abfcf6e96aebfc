#include "region/unread.h"

namespace pellucid::region {
namespace {

void dealloc(PyObject* self) {
  Py_XDECREF(reinterpret_cast<Unread*>(self)->value);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {0, nullptr}};
PyType_Spec spec = {"pellucid._core.Unread", sizeof(Unread), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

}  // namespace

PyTypeObject* unread_type() {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

py::Owned<> new_unread(PyObject* value, const source::Source* source, Py_ssize_t references) {
  auto self = py::take(unread_type()->tp_alloc(unread_type(), 0));
  auto* unread = reinterpret_cast<Unread*>(self.get());
  unread->value = Py_NewRef(value);
  unread->source = source;
  unread->read = false;
  unread->references = references;
  return self;
}

}  // namespace pellucid::region
