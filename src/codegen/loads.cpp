#include "codegen/loads.h"

#include "codegen/facts.h"

namespace pellucid::codegen {
namespace {

using source::Step;

PyObject* builtin_method(PyTypeObject* type, const char* name) { return lookup(type, name); }

PyObject* getter_for(PyObject* value) {
  PyTypeObject* type = value != nullptr && PyType_Check(value) ? &PyType_Type : &PyBaseObject_Type;
  return builtin_method(type, "__getattribute__");
}

bool has_c_getset(PyTypeObject* type, PyObject* name) {
  PyObject* found = lookup(type, name);
  return found != nullptr && (Py_TYPE(found) == &PyMemberDescr_Type || Py_TYPE(found) == &PyGetSetDescr_Type);
}

Load load(Load::Form form, PyObject* name, PyObject* callee = nullptr) {
  Load result{.form = form};
  result.name = name;
  result.callee = callee;
  return result;
}

PyObject* dunder_dict() {
  static PyObject* const name = py::interned("__dict__").release();
  return name;
}

}  // namespace

Loads::Loads(const region::Capture& capture) {
  for (const auto& [object, source] : capture.source_of) values_.emplace(source, object);
}

PyObject* Loads::value_at(const Source* source) const {
  if (auto found = values_.find(source); found != values_.end()) return found->second;
  PyObject* value = nullptr;
  if (source->step == Step::Const) {
    value = source->operand.get();
  } else if (source->base != nullptr) {
    PyObject* base = value_at(source->base);
    if (base != nullptr) {
      auto found = source::evaluate_step(source, base, nullptr, nullptr);
      value = found.get();
      if (found) held_.push_back(std::move(found));
    }
  }
  values_.emplace(source, value);
  return value;
}

Load Loads::instance_attr(const Source* source) const {
  PyObject* base = value_at(source->base);
  PyObject* name = source->operand.get();
  if (base != nullptr && !PyType_Check(base) && !has_data_descriptor(Py_TYPE(base), name) &&
      (PyModule_Check(base) || has_plain_getattr(Py_TYPE(base)))) {
    return load(Load::Form::Attr, name);
  }
  return load(Load::Form::CallSubscr, name, getter_for(base));
}

Load Loads::c_attribute(const Source* source, PyObject* name) const {
  PyObject* base = value_at(source->base);
  if (base != nullptr && has_plain_getattr(Py_TYPE(base)) && has_c_getset(Py_TYPE(base), name))
    return load(Load::Form::Attr, name);
  return load(Load::Form::Call, name, getter_for(base));
}

Load Loads::item(const Source* source) const {
  auto index = py::take(PyLong_FromLongLong(source->index));
  PyObject* base = value_at(source->base);
  Load result = load(Load::Form::Subscr, index.get());
  result.held = std::move(index);
  if (base == nullptr) return result;
  PyTypeObject* native = native_base(Py_TYPE(base));
  if (lookup(Py_TYPE(base), "__getitem__") != lookup(native, "__getitem__")) {
    result.form = Load::Form::Call;
    result.callee = builtin_method(native, "__getitem__");
  }
  return result;
}

Load Loads::dict_item(const Source* source) const {
  PyObject* base = value_at(source->base);
  PyObject* key = source->operand.get();
  if (base == nullptr || !PyDict_Check(base) ||
      lookup(Py_TYPE(base), "__getitem__") == lookup(&PyDict_Type, "__getitem__")) {
    return load(Load::Form::Subscr, key);
  }
  return load(Load::Form::Call, key, builtin_method(&PyDict_Type, "__getitem__"));
}

Load Loads::by_function(const Source* source) const {
  auto& function = functions_[source->step];
  if (!function) function = source::step_function(source->step);
  auto index = py::take(PyLong_FromLongLong(source->index));
  Load result = load(Load::Form::Call, index.get(), function.get());
  result.held = std::move(index);
  return result;
}

Load Loads::step(const Source* source) const {
  switch (source->step) {
    case Step::Local:
      return load(Load::Form::Argument, source->operand.get());
    case Step::Free:
      return load(Load::Form::Cell, source->operand.get());
    case Step::Drawn:  // always a local
      break;
    case Step::Const:
      return load(Load::Form::Object, nullptr, source->operand.get());
    case Step::InstanceAttr:
      return instance_attr(source);
    case Step::DictOf:
      return c_attribute(source, dunder_dict());
    case Step::Item:
      return item(source);
    case Step::DictItem:
      return dict_item(source);
    case Step::Member:
      return c_attribute(source, source->operand.get());
    case Step::CellContents: {
      if (source->base->step == Step::Free) return load(Load::Form::Deref, source->base->operand.get());
      static PyObject* const name = py::interned("cell_contents").release();
      return load(Load::Form::Attr, name);
    }
    case Step::Size:
    case Step::Stride:
    case Step::Plain:
    case Step::OverArray:
    case Step::FunctionMode:
    case Step::Part:
    case Step::Ahead:
    case Step::ValueAhead:
      return by_function(source);
  }
  return load(Load::Form::Object, nullptr, Py_None);
}

}  // namespace pellucid::codegen
