// Attributes of classes and slots: what the region writes there is remembered, not done.
#include <Python.h>
#include <structmember.h>

#include "protocols/attributes.h"
#include "protocols/call.h"
#include "py/cpython.h"
#include "region/names.h"

namespace pellucid::protocols {

using C = Continuation::Kind;
namespace {

bool is_dunder(PyObject* name) {
  const std::string text = py::text_of(name);
  return text.size() > 4 && text.starts_with("__") && text.ends_with("__");
}

}  // namespace

Result class_setattr(Interpreter& t, PyObject* type, PyObject* name, PyObject* value) {
  PyTypeObject* metatype = Py_TYPE(type);
  PyObject* hook = t.region.lookups.type_lookup(
      metatype, value == nullptr ? region::names().__delattr__ : region::names().__setattr__);
  if (hook != nullptr && PyFunction_Check(hook)) {
    if (value == nullptr) return t.and_then(call2(t, hook, type, name), Continuation(C::Drop));
    return t.and_then(call3(t, hook, type, name, value), Continuation(C::Drop));
  }
  return type_setattr(t, type, name, value);
}

Result type_setattr(Interpreter& t, PyObject* object, PyObject* name, PyObject* value) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  PyObject* meta = t.region.lookups.type_lookup(Py_TYPE(object), name);
  const bool descriptor = meta != nullptr && Py_TYPE(meta)->tp_descr_set != nullptr;
  if (descriptor && !Py_IS_TYPE(meta, &PyGetSetDescr_Type))
    unsupported(Reason::UnsupportedMutation,
                {{"target", "attribute '" + py::text_of(name) + "' that a metaclass handles"}});
  if (t.region.provenance.is_made(object) || !is_mutable_class(type)) {
    if (PyType_Type.tp_setattro(object, name, value) < 0) return t.raise_pending(py::PythonError());
    if (!t.region.provenance.is_made(object)) unsupported(Reason::UnsupportedMutation, {{"target", "a builtin class"}});
    return Result::done();
  }
  // What C code reads of a class, and how instances behave, is up to its special names.
  if (descriptor || is_dunder(name))
    unsupported(Reason::UnsupportedMutation, {{"target", "attribute '" + py::text_of(name) + "' of a class"}});
  t.region.attributes.note_class_change();
  if (t.region.attributes.find(object, name) == nullptr)
    t.region.drops.guard_drop_of_entry(t.region.capture->sources.constant(type->tp_dict), name,
                                       PyDict_GetItemWithError(type->tp_dict, name));
  if (value != nullptr) {
    t.region.attributes.write(object, name, value);
    return Result::done();
  }
  const int found = PyDict_Contains(type->tp_dict, name);
  py::check(found);
  t.region.provenance.guard(Kind::DICT_CONTAINS, t.region.capture->sources.constant(type->tp_dict),
                            py::Owned<>::share(name), found);
  return t.region.attributes.remove(object, name, found == 1) ? Result::done()
                                                              : attribute_error(t, object, name, false);
}

// A slot of an object that existed before. Deleting asks whether it is filled, which reads (and guards) it.
Result slot_setattr(Interpreter& t, PyObject* object, PyObject* slot, PyObject* name, PyObject* value) {
  auto* member = reinterpret_cast<PyMemberDescrObject*>(slot);
  if (member->d_member->flags & READONLY) {
    PyMemberDescr_Type.tp_descr_set(slot, object, value);  // CPython words the error
    return t.raise_pending(py::PythonError());
  }
  if (member->d_member->type != T_OBJECT_EX)
    unsupported(Reason::UnsupportedMutation,
                {{"target", "attribute '" + py::text_of(name) + "' of a " + Py_TYPE(object)->tp_name}});
  const auto* place = reinterpret_cast<const char*>(object) + member->d_member->offset;
  PyObject* before = *reinterpret_cast<PyObject* const*>(place);
  if (t.region.attributes.find(object, name) == nullptr) t.region.drops.guard_drop_of_slot(object, slot, before);
  if (value != nullptr) {
    t.region.attributes.write(object, name, value);
    return Result::done();
  }
  const bool filled = before != nullptr;
  t.region.provenance.guard(Kind::SLOT_EMPTY, t.region.provenance.source_of(object), py::Owned<>::share(slot),
                            filled ? 0 : 1);
  if (t.region.attributes.remove(object, name, filled)) return Result::done();
  return t.raise(PyExc_AttributeError, py::text_of(name));
}

}  // namespace pellucid::protocols
