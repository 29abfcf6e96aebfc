// Classes that the region makes or changes, and slots that it writes. A class of the region is a real class; nothing of
// it is guarded. Classes and slots of objects from outside keep what they have: what the region wrote is remembered
// here.
#include <Python.h>
#include <structmember.h>

#include "objects/tracer.h"
#include "py/cpython311.h"

namespace pellucid::objects {

using C = Continuation::Kind;

const Tracer::AttributeWrite* Tracer::written_attribute(PyObject* object, PyObject* name) const {
  auto found = attribute_effects_.find(object);
  if (found == attribute_effects_.end()) return nullptr;
  for (const AttributeWrite& write : found->second) {
    if (write.name.get() == name || PyUnicode_Compare(write.name.get(), name) == 0) return &write;
  }
  return nullptr;
}

void Tracer::write_attribute(PyObject* object, PyObject* name, PyObject* value, bool was_there) {
  auto [entry, is_new] = attribute_effects_.try_emplace(object);
  if (is_new) {
    keep(object);
    order_of_attribute_effects_.push_back(object);
  }
  if (const AttributeWrite* written = written_attribute(object, name)) {
    const_cast<AttributeWrite*>(written)->value = py::Owned<>::share(value);
    return;
  }
  entry->second.push_back({py::Owned<>::share(name), py::Owned<>::share(value), was_there});
}

// False: it is not there. What was not there before the region either is as if it had never been written.
bool Tracer::delete_attribute(PyObject* object, PyObject* name, bool was_there) {
  const AttributeWrite* written = written_attribute(object, name);
  if (written == nullptr ? !was_there : !written->value) return false;
  write_attribute(object, name, nullptr, was_there);
  if (!was_there) const_cast<AttributeWrite*>(written)->was_there = false;
  return true;
}

bool Tracer::changes_classes_of(PyTypeObject* type) const {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    if (attribute_effects_.contains(PyTuple_GET_ITEM(type->tp_mro, i))) return true;
  }
  return false;
}

// Where a class looks things up: assigning __bases__ of it or of a base gives it another __mro__.
void Tracer::guard_mro(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (is_made(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
      guard_mro(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
    return;
  }
  if (!is_mutable_class(type)) return;
  const Source* source = capture_->sources.constant(object);
  guard(Kind::ID_MATCH, capture_->sources.member(source, names().__mro__), py::Owned<>::share(type->tp_mro));
}

PyObject* Tracer::mro_lookup(PyTypeObject* type, Py_ssize_t first, PyObject* name) {
  const auto mro = py::Owned<>::share(type->tp_mro);
  for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(mro.get()); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(mro.get(), i);
    if (const AttributeWrite* written = written_attribute(cls, name)) {
      if (written->value) return written->value.get();
      continue;
    }
    PyObject* dict = reinterpret_cast<PyTypeObject*>(cls)->tp_dict;
    PyObject* found = PyDict_GetItemWithError(dict, name);
    if (found == nullptr && PyErr_Occurred()) py::throw_pending();
    if (!is_made(cls)) {
      saw_constant(cls);
      const Source* source = capture_->sources.constant(dict);
      const Source* entry = capture_->sources.dict_item(source, name);
      const bool is_new = is_mutable_class(reinterpret_cast<PyTypeObject*>(cls)) && looked_up_.insert(entry).second;
      if (is_new && found == nullptr) guard(Kind::DICT_CONTAINS, source, py::Owned<>::share(name), 0);
      if (is_new && found != nullptr) guard(Kind::ID_MATCH, entry, py::Owned<>::share(found));
      if (found != nullptr) saw_constant(found);
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

namespace {

bool is_dunder(PyObject* name) {
  const std::string text = py::text_of(name);
  return text.size() > 4 && text.starts_with("__") && text.ends_with("__");
}

}  // namespace

Result Tracer::class_setattr(PyObject* type, PyObject* name, PyObject* value) {
  PyTypeObject* metatype = Py_TYPE(type);
  PyObject* hook = type_lookup(metatype, value == nullptr ? names().__delattr__ : names().__setattr__);
  if (hook != nullptr && PyFunction_Check(hook)) {
    if (value == nullptr) return and_then(call2(hook, type, name), Continuation(C::Drop));
    return and_then(call3(hook, type, name, value), Continuation(C::Drop));
  }
  return type_setattr(type, name, value);
}

Result Tracer::type_setattr(PyObject* object, PyObject* name, PyObject* value) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  PyObject* meta = type_lookup(Py_TYPE(object), name);
  const bool descriptor = meta != nullptr && Py_TYPE(meta)->tp_descr_set != nullptr;
  if (descriptor && !Py_IS_TYPE(meta, &PyGetSetDescr_Type))
    unsupported(Reason::UnsupportedMutation,
                {{"target", "attribute '" + py::text_of(name) + "' that a metaclass handles"}});
  if (is_made(object) || !is_mutable_class(type)) {
    if (PyType_Type.tp_setattro(object, name, value) < 0) return raise_pending(py::PythonError());
    if (!is_made(object)) unsupported(Reason::UnsupportedMutation, {{"target", "a builtin class"}});
    return Result::done();
  }
  // What C code reads of a class, and how instances behave, is up to its special names.
  if (descriptor || is_dunder(name))
    unsupported(Reason::UnsupportedMutation, {{"target", "attribute '" + py::text_of(name) + "' of a class"}});
  classes_changed_ = true;
  if (written_attribute(object, name) == nullptr)
    lets_go_of_entry(capture_->sources.constant(type->tp_dict), name, PyDict_GetItemWithError(type->tp_dict, name));
  if (value != nullptr) {
    write_attribute(object, name, value);
    return Result::done();
  }
  const int found = PyDict_Contains(type->tp_dict, name);
  py::check(found);
  guard(Kind::DICT_CONTAINS, capture_->sources.constant(type->tp_dict), py::Owned<>::share(name), found);
  return delete_attribute(object, name, found == 1) ? Result::done() : attribute_error(object, name, false);
}

// A slot of an object that existed before. Deleting asks whether it is filled, which reads (and guards) it.
Result Tracer::slot_setattr(PyObject* object, PyObject* slot, PyObject* name, PyObject* value) {
  auto* member = reinterpret_cast<PyMemberDescrObject*>(slot);
  if (member->d_member->flags & READONLY) {
    PyMemberDescr_Type.tp_descr_set(slot, object, value);  // CPython words the error
    return raise_pending(py::PythonError());
  }
  if (member->d_member->type != T_OBJECT_EX)
    unsupported(Reason::UnsupportedMutation,
                {{"target", "attribute '" + py::text_of(name) + "' of a " + Py_TYPE(object)->tp_name}});
  const auto* place = reinterpret_cast<const char*>(object) + member->d_member->offset;
  PyObject* before = *reinterpret_cast<PyObject* const*>(place);
  if (written_attribute(object, name) == nullptr) lets_go_of_slot(object, slot, before);
  if (value != nullptr) {
    write_attribute(object, name, value);
    return Result::done();
  }
  const bool filled = before != nullptr;
  guard(Kind::SLOT_EMPTY, source_of(object), py::Owned<>::share(slot), filled ? 0 : 1);
  if (delete_attribute(object, name, filled)) return Result::done();
  return raise(PyExc_AttributeError, py::text_of(name));
}

}  // namespace pellucid::objects
