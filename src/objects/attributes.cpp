// Attribute access as CPython does it (Objects/object.c, typeobject.c), over tracked objects.
#include "objects/generator.h"
#include "objects/tracer.h"
#include "py/cpython311.h"

namespace pellucid::objects {

using C = Continuation::Kind;

namespace {
PyObject* object_slot(const char* name) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
}
PyObject* object_getattribute() {
  static PyObject* slot = object_slot("__getattribute__");
  return slot;
}
PyObject* object_setattr() {
  static PyObject* slot = object_slot("__setattr__");
  return slot;
}
bool is_data_descriptor(PyObject* meta) { return Py_TYPE(meta)->tp_descr_set != nullptr; }
bool has_python_get(PyObject* meta) {
  PyObject* get = py::type_lookup(Py_TYPE(meta), names().__get__);
  return get != nullptr && PyFunction_Check(get);
}
}  // namespace

PyObject* Tracer::type_lookup(PyTypeObject* type, PyObject* name) {
  if (is_made(reinterpret_cast<PyObject*>(type)) || (classes_changed_ && changes_classes_of(type)))
    return mro_lookup(type, 0, name);
  PyObject* found = py::type_lookup(type, name);
  const auto held = py::Owned<>::share(found);  // making the payload may start the collector
  const Source* source = capture_->sources.constant(reinterpret_cast<PyObject*>(type));
  auto payload = found == nullptr ? py::take(PyTuple_Pack(1, name)) : py::take(PyTuple_Pack(2, name, found));
  // One guard for each (type, name): the tuple is new each time, so remember the pair by its table entry.
  const Source* key = capture_->sources.instance_attr(source, name);
  if (looked_up_.insert(key).second) guard(Kind::TYPE_LOOKUP, source, std::move(payload));
  if (found != nullptr) saw_constant(found);
  return found;
}

PyObject* Tracer::type_lookup(PyTypeObject* type, const char* name) {
  return type_lookup(type, py::interned(name).get());
}

Result Tracer::attribute_error(PyObject* object, PyObject* name, bool told) {
  // The message is CPython's; object and name are set as the interpreter does where it reads.
  std::string text;
  if (PyType_Check(object)) {
    text = std::string("type object '") + reinterpret_cast<PyTypeObject*>(object)->tp_name + "' has no attribute '" +
           py::text_of(name) + "'";
  } else {
    text = std::string("'") + Py_TYPE(object)->tp_name + "' object has no attribute '" + py::text_of(name) + "'";
  }
  auto message = py::str(text);
  auto error = py::take(PyObject_CallOneArg(PyExc_AttributeError, message.get()));
  if (!told) return raise(std::move(error));
  py::check(PyObject_SetAttrString(error.get(), "name", name));
  py::check(PyObject_SetAttrString(error.get(), "obj", object));
  return raise(std::move(error));
}

PyObject* Tracer::instance_get(PyObject* object, PyObject* name) {
  if (Py_TYPE(object)->tp_dictoffset == 0) return nullptr;
  PyObject* dict = py::instance_dict_if_any(object);
  const Source* source = source_of(object);
  if (dict != nullptr) {
    auto it = shadows_.find(dict);
    if (it != shadows_.end()) {
      PyObject* value = PyDict_GetItemWithError(it->second.object.get(), name);
      if (value == nullptr && PyErr_Occurred()) py::throw_pending();
      if (source != nullptr && !written(it->second, name)) {
        if (value == nullptr)
          guard(Kind::HAS_ATTR, source, py::Owned<>::share(name));
        else
          saw(value, capture_->sources.instance_attr(source, name));
      }
      return value;
    }
  }
  PyObject* value = py::instance_attr(object, name);
  if (source != nullptr) {
    if (value == nullptr)
      guard(Kind::HAS_ATTR, source, py::Owned<>::share(name));
    else
      saw(value, capture_->sources.instance_attr(source, name));
  }
  return value;
}

Result Tracer::instance_dict(PyObject* object) {
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    saw_constant(dict);
    return Result::of(py::Owned<>::share(dict));
  }
  if (PyType_Check(object)) unsupported(Reason::Reflection, {{"callee", "the __dict__ of a class"}});
  auto dict = py::Owned<>::steal(PyObject_GetAttr(object, names().__dict__));
  if (!dict) return raise_pending(py::PythonError());
  if (!PyDict_CheckExact(dict.get()))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__dict__"}, {"type", Py_TYPE(object)->tp_name}});
  if (const Source* source = source_of(object)) {
    if (!is_outside(dict.get())) {
      keep(dict.get());
      capture_->source_of.emplace(dict.get(), source->step == source::Step::Const
                                                  ? capture_->sources.constant(dict.get())
                                                  : capture_->sources.dict_of(source));
      outside_.push_back(dict.get());
    }
  }
  return Result::of(std::move(dict));
}

namespace {

// A traceback that came up during capture knows the places in the region but not the program's frames.
bool is_frame_of_traceback(PyObject* object, PyObject* name) {
  return PyTraceBack_Check(object) && PyUnicode_CompareWithASCIIString(name, "tb_frame") == 0;
}

// An exception that was raised in the region while the region handled none: what the caller handled is its context.
bool is_context_of_caller(PyObject* object, PyObject* name) {
  if (!PyExceptionInstance_Check(object) || name != names().__context__) return false;
  auto* error = reinterpret_cast<PyBaseExceptionObject*>(object);
  return error->context == nullptr && error->traceback != nullptr && error->traceback != Py_None;
}

}  // namespace

void Tracer::guard_not_handling(const std::string& reader) {
  if (py::Owned<>::steal(PyErr_GetHandledException())) unsupported(Reason::StackInspection, {{"callee", reader}});
  guard(Kind::NOT_HANDLING, nullptr);
}

Result Tracer::native_attribute(PyObject* object, PyObject* name) {
  if (PyFrame_Check(object))  // what an open frame holds is on our stack
    unsupported(Reason::StackInspection, {{"callee", "'" + py::text_of(name) + "' of a frame"}});
  if (!is_outside(object)) {
    const auto reader = [&] { return "'" + py::text_of(name) + "' of an exception"; };
    if (is_frame_of_traceback(object, name)) unsupported(Reason::StackInspection, {{"callee", reader()}});
    if (is_context_of_caller(object, name)) guard_not_handling(reader());
  }
  if (generators_.contains(object))
    unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a generator"}});
  auto value = py::Owned<>::steal(PyObject_GetAttr(object, name));
  if (!value) {
    PyObject* slot = py::type_lookup(Py_TYPE(object), name);
    const Source* source = source_of(object);
    if (source != nullptr && slot != nullptr && Py_IS_TYPE(slot, &PyMemberDescr_Type))
      guard(Kind::SLOT_EMPTY, source, py::Owned<>::share(slot), 1);
    return raise_pending(py::PythonError());
  }
  if (const Source* source = source_of(object)) {
    // C descriptors of functions, classes and instances read state that may be set; the other objects known by identity
    // never change.
    PyObject* meta = py::type_lookup(Py_TYPE(object), name);
    const bool readable_again =
        meta != nullptr && (Py_IS_TYPE(meta, &PyGetSetDescr_Type) || Py_IS_TYPE(meta, &PyMemberDescr_Type));
    const Cat cat = cat_of(object);
    const bool may_change = cat == Cat::Function || cat == Cat::Instance || cat == Cat::Other ||
                            (cat == Cat::Type && is_mutable_class(reinterpret_cast<PyTypeObject*>(object)));
    if (source->step != source::Step::Const || (readable_again && may_change)) {
      saw(value.get(), capture_->sources.member(source, name));
    } else {
      saw_constant(value.get());
    }
  }
  return Result::of(std::move(value));
}

// A member's value and name are what `_value_` and `_name_` say; other entries of its dict are read like those of any
// instance.
Result Tracer::enum_attribute(PyObject* member, PyObject* name) {
  const std::string text = py::text_of(name);
  auto entry = text == "value"  ? py::interned("_value_")
               : text == "name" ? py::interned("_name_")
                                : py::Owned<>::share(name);
  PyObject* meta = type_lookup(Py_TYPE(member), name);
  const Source* source = capture_->sources.constant(member);
  PyObject* own = py::instance_attr(member, entry.get());
  if (own == nullptr) guard(Kind::HAS_ATTR, source, std::move(entry));
  if (own == nullptr && meta == nullptr && type_lookup(Py_TYPE(member), "__getattr__") != nullptr) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "__getattr__ for '" + text + "'"}, {"type", Py_TYPE(member)->tp_name}});
  }
  auto value = py::Owned<>::steal(PyObject_GetAttr(member, name));
  if (!value) return raise_pending(py::PythonError());
  if (own != nullptr) {
    saw(own, capture_->sources.instance_attr(source, entry.get()));
  } else {
    saw_constant(value.get());
  }
  return Result::of(std::move(value));
}

// What the getter of `meta` raises is named as PyObject_GetAttr does.
Result Tracer::named(Result bound, PyObject* meta, PyObject* object, PyObject* name) {
  if (bound.is_value() || (!PyObject_TypeCheck(meta, &PyProperty_Type) && !has_python_get(meta))) return bound;
  return and_then(std::move(bound), Continuation(C::NamesAttribute, object, name));
}

Result Tracer::bind(PyObject* meta, PyObject* object, PyObject* type) {
  PyTypeObject* kind = Py_TYPE(meta);
  if (kind->tp_descr_get == nullptr) return Result::of(py::Owned<>::share(meta));
  if (PyFunction_Check(meta)) {
    if (object == nullptr) return Result::of(py::Owned<>::share(meta));
    return Result::of(py::take(PyMethod_New(meta, object)));
  }
  if (PyObject_TypeCheck(meta, &PyProperty_Type)) {
    if (object == nullptr) return Result::of(py::Owned<>::share(meta));
    auto fget = py::take(PyObject_GetAttr(meta, names().fget));
    if (fget.get() == Py_None) {
      (void)PyProperty_Type.tp_descr_get(meta, object, type);  // CPython words the error
      return raise_pending(py::PythonError());
    }
    saw_constant(fget.get());
    return call1(fget.get(), object);
  }
  if (has_python_get(meta)) {
    PyObject* get = type_lookup(kind, names().__get__);
    return call3(get, meta, object == nullptr ? Py_None : object, type);
  }
  if (Py_IS_TYPE(meta, &PyClassMethod_Type)) {
    auto function = py::take(PyObject_GetAttrString(meta, "__func__"));
    saw_constant(function.get());
    if (Py_TYPE(function.get())->tp_descr_get == nullptr)  // a class, a C function, a callable object
      return Result::of(py::take(PyMethod_New(function.get(), type)));
    return bind(function.get(), type, type);
  }
  if (Py_IS_TYPE(meta, &PyStaticMethod_Type)) {
    auto function = py::take(PyObject_GetAttrString(meta, "__func__"));
    saw_constant(function.get());
    return Result::of(std::move(function));
  }
  if (PyType_HasFeature(kind, Py_TPFLAGS_HEAPTYPE) && cat_of(kind) == Cat::Instance) {
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__get__"}, {"type", kind->tp_name}});
  }
  // method descriptors, wrapper descriptors, CompiledFunction, lru_cache wrappers, C functions with __get__: binding
  // has no effect
  auto bound = py::Owned<>::steal(kind->tp_descr_get(meta, object, type));
  if (!bound) return raise_pending(py::PythonError());
  return Result::of(std::move(bound));
}

Result Tracer::module_getattr(PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  saw_constant(dict);
  bool found = false;
  Result value = dict_get(dict, name, &found);
  if (found) return value;
  if (PyObject* meta = py::type_lookup(Py_TYPE(module), name)) {
    if (name == names().__dict__) return instance_dict(module);
    if (cat_of(meta) == Cat::Instance) {  // a setting of torch.backends: its getter is Python code over C state
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__get__"}, {"type", Py_TYPE(meta)->tp_name}});
    }
    return native_attribute(module, name);
  }
  if (is_shadowed(dict))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", "module that the region changed"}});
  // A lazy module imports on first use and stores the result: let it, then read what it stored.
  auto real = py::Owned<>::steal(PyObject_GetAttr(module, name));
  if (!real) return raise_pending(py::PythonError());
  PyObject* stored = PyDict_GetItemWithError(dict, name);
  if (stored == nullptr) {
    if (!PyType_Check(real.get()) && !PyModule_Check(real.get()) && !PyFunction_Check(real.get()) &&
        !PyCFunction_Check(real.get())) {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", "module"}});
    }
    saw_constant(real.get());
    return Result::of(std::move(real));
  }
  return dict_get(dict, name, &found);
}

Result Tracer::type_getattr(PyObject* type, PyObject* name) {
  PyTypeObject* metatype = Py_TYPE(type);
  PyObject* meta = metatype == &PyType_Type ? py::type_lookup(metatype, name) : type_lookup(metatype, name);
  auto* self = reinterpret_cast<PyTypeObject*>(type);
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (Py_IS_TYPE(meta, &PyProperty_Type) || has_python_get(meta))
      return named(bind(meta, type, reinterpret_cast<PyObject*>(metatype)), meta, type, name);
    if (name == names().__dict__) unsupported(Reason::Reflection, {{"callee", "the __dict__ of a class"}});
    return native_attribute(type, name);
  }
  if (PyObject* found = type_lookup(self, name)) {
    return named(bind(found, nullptr, type), found, type, name);
  }
  if (meta != nullptr) return named(bind(meta, type, reinterpret_cast<PyObject*>(metatype)), meta, type, name);
  if (PyObject* hook = py::type_lookup(metatype, names().__getattr__)) {
    if (PyFunction_Check(hook)) {
      saw_constant(hook);
      return and_then(call2(hook, type, name), Continuation(C::NamesAttribute, type, name));
    }
  }
  return attribute_error(type, name);
}

Result Tracer::super_getattr(PyObject* super, PyObject* name) {
  auto this_class = py::take(PyObject_GetAttrString(super, "__thisclass__"));
  auto self = py::take(PyObject_GetAttrString(super, "__self__"));
  auto self_class = py::take(PyObject_GetAttrString(super, "__self_class__"));
  if (self_class.get() == Py_None || name == names().__class__) return native_attribute(super, name);
  auto* type = reinterpret_cast<PyTypeObject*>(self_class.get());
  guard_mro(type);
  const Py_ssize_t count = PyTuple_GET_SIZE(type->tp_mro);
  Py_ssize_t i = 0;
  while (i < count && PyTuple_GET_ITEM(type->tp_mro, i) != this_class.get()) ++i;
  if (PyObject* found = mro_lookup(type, i + 1, name)) {
    PyObject* object = self.get() == self_class.get() ? nullptr : self.get();
    return named(bind(found, object, self_class.get()), found, super, name);
  }
  auto text = "'super' object has no attribute '" + py::text_of(name) + "'";
  return raise(PyExc_AttributeError, text);
}

Result Tracer::generic_getattr(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* meta = type_lookup(type, name);
  if (meta != nullptr && cat_of(meta) == Cat::Instance && is_mutable_class(Py_TYPE(meta))) {
    // What this object is as a descriptor is up to its class.
    for (PyObject* slot : {names().__get__, names().__set__, names().__delete__}) type_lookup(Py_TYPE(meta), slot);
  }
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (name == names().__dict__ && Py_IS_TYPE(meta, &PyGetSetDescr_Type)) return instance_dict(object);
    if (name == names().__class__ && Py_IS_TYPE(meta, &PyGetSetDescr_Type)) {
      saw_constant(reinterpret_cast<PyObject*>(type));
      return Result::of(py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
    }
    if (Py_IS_TYPE(meta, &PyGetSetDescr_Type) || Py_IS_TYPE(meta, &PyMemberDescr_Type)) {
      if (Py_IS_TYPE(meta, &PyMemberDescr_Type)) {
        if (const AttributeWrite* written = written_attribute(object, name)) {
          if (!written->value) return attribute_error(object, name);
          return Result::of(written->value.copy());
        }
      }
      return native_attribute(object, name);
    }
    return named(bind(meta, object, reinterpret_cast<PyObject*>(type)), meta, object, name);
  }
  if (PyObject* value = instance_get(object, name)) {
    return Result::of(py::Owned<>::share(value));
  }
  if (meta != nullptr) return named(bind(meta, object, reinterpret_cast<PyObject*>(type)), meta, object, name);
  return attribute_error(object, name);
}

// A class without hooks of its own may be given some.
void Tracer::guard_generic_getattr(PyTypeObject* type) {
  if (cat_of(type) != Cat::Instance || !is_mutable_class(type)) return;
  type_lookup(type, names().__getattribute__);
  if (type->tp_getattro == PyObject_GenericGetAttr) type_lookup(type, names().__getattr__);
}

Result Tracer::getattr(PyObject* object, PyObject* name) {
  doing = "reads an attribute";
  if (PyObject* real = original(object); real != object) object = real;
  PyTypeObject* type = Py_TYPE(object);
  switch (cat_of(type)) {
    case Cat::Tensor:
      return tensor_getattr(object, name);
    case Cat::Type:
      return type_getattr(object, name);
    case Cat::Module:
      return module_getattr(object, name);
    case Cat::Other:
      // Not what ours have of `object`: __repr__.
      if (PyGen_CheckExact(object) && PyDict_GetItem(generator_type()->tp_dict, name) != nullptr) {
        if (PyObject* twin = twin_of_generator(object)) return generic_getattr(twin, name);
      }
      break;
    case Cat::Generator:
      if (reinterpret_cast<TracedGenerator*>(object)->is_ours && name != names().__next__ && name != names().__iter__)
        unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a builtin iterator"}});
      if (PyObject* own = py::type_lookup(type, name); own != nullptr && name != names().__class__) {
        // What generators have of their own and ours only of `object`: __repr__.
        if (!Py_IS_TYPE(own, &PyWrapperDescr_Type) || PyDescr_TYPE(own) != &PyBaseObject_Type ||
            own == py::type_lookup(&PyGen_Type, name))
          break;
      }
      if (py::type_lookup(&PyGen_Type, name) == nullptr) {
        return raise(PyExc_AttributeError, "'generator' object has no attribute '" + py::text_of(name) + "'");
      }
      unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a generator"}});
    case Cat::EnumMember: {
      PyObject* meta = py::type_lookup(type, name);
      if (meta == nullptr ||
          (!PyFunction_Check(meta) && !Py_IS_TYPE(meta, &PyProperty_Type) && !Py_IS_TYPE(meta, &PyClassMethod_Type))) {
        return enum_attribute(object, name);  // name, value, members, C methods of str or int
      }
      return generic_getattr(object, name);
    }
    case Cat::BoundMethod: {
      if (name == names().dunder_func || name == names().__self__) return native_attribute(object, name);
      if (py::type_lookup(type, name) != nullptr) return native_attribute(object, name);
      auto function = native_attribute(object, names().dunder_func);
      return getattr(function.value.get(), name);
    }
    default:
      break;
  }
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_getattr(object, name);
  if (type->tp_getattro == PyObject_GenericGetAttr) {
    guard_generic_getattr(type);
    return generic_getattr(object, name);
  }
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "attribute '" + py::text_of(name) + "'"}, {"type", type->tp_name}});
  }
  PyObject* getattribute = type_lookup(type, names().__getattribute__);
  PyObject* hook = type_lookup(type, names().__getattr__);
  const bool is_objects = getattribute == object_getattribute();
  if (!is_objects && (getattribute == nullptr || !PyFunction_Check(getattribute)))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattribute__"}, {"type", type->tp_name}});
  Result found = is_objects
                     ? generic_getattr(object, name)
                     : and_then(call2(getattribute, object, name), Continuation(C::NamesAttribute, object, name));
  if (hook == nullptr || found.is_value()) return found;
  return and_then(std::move(found), Continuation(C::GetAttrFallback, object, name, hook));
}

Result Tracer::getattr_method(PyObject* object, PyObject* name, bool* unbound) {
  *unbound = false;
  if (PyGen_CheckExact(object)) return getattr(object, name);
  PyTypeObject* type = Py_TYPE(object);
  const Cat cat = cat_of(type);
  const bool generic = type->tp_getattro == PyObject_GenericGetAttr ||
                       (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && cat == Cat::Instance &&
                        type_lookup(type, names().__getattribute__) == object_getattribute());
  if (generic) guard_generic_getattr(type);
  if (generic && cat != Cat::Tensor && cat != Cat::Type && cat != Cat::Module && cat != Cat::EnumMember &&
      !Py_IS_TYPE(object, &PySuper_Type)) {
    doing = "calls a method";
    PyObject* meta = type_lookup(type, name);
    if (meta != nullptr && (PyFunction_Check(meta) || Py_IS_TYPE(meta, &PyMethodDescr_Type)) &&
        instance_get(original(object), name) == nullptr) {
      *unbound = true;
      return Result::of(py::Owned<>::share(meta));
    }
    // _PyObject_GetMethod leaves an AttributeError of a property as it is.
    if (meta != nullptr && Py_IS_TYPE(meta, &PyProperty_Type) && type->tp_getattro == PyObject_GenericGetAttr)
      return bind(meta, original(object), reinterpret_cast<PyObject*>(type));
  }
  return getattr(object, name);
}

Result Tracer::special(PyObject* object, const char* name, std::span<PyObject* const> args) {
  auto interned = py::interned(name);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* method = type_lookup(type, interned.get());
  if (method == nullptr) unsupported(Reason::UnsupportedProtocol, {{"protocol", name}, {"type", type->tp_name}});
  std::vector<PyObject*> values;
  if (PyFunction_Check(method) || Py_IS_TYPE(method, &PyMethodDescr_Type) || Py_IS_TYPE(method, &PyWrapperDescr_Type)) {
    values.push_back(object);
    values.insert(values.end(), args.begin(), args.end());
    return call(method, Args{values, nullptr});
  }
  Result bound = bind(method, object, reinterpret_cast<PyObject*>(type));
  if (!bound.is_value()) unsupported(Reason::UnsupportedProtocol, {{"protocol", name}, {"type", type->tp_name}});
  return call(bound.value.get(), Args{args, nullptr});
}

Result Tracer::generic_setattr(PyObject* object, PyObject* name, PyObject* value) {
  object = original(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* meta = type_lookup(type, name);
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (Py_IS_TYPE(meta, &PyProperty_Type)) {
      auto setter = py::take(PyObject_GetAttrString(meta, value == nullptr ? "fdel" : "fset"));
      if (setter.get() == Py_None) {
        PyProperty_Type.tp_descr_set(meta, object, value);  // CPython words the error
        return raise_pending(py::PythonError());
      }
      saw_constant(setter.get());
      if (value == nullptr) return and_then(call1(setter.get(), object), Continuation(C::Drop));
      return and_then(call2(setter.get(), object, value), Continuation(C::Drop));
    }
    PyObject* set = py::type_lookup(Py_TYPE(meta), value == nullptr ? names().__delete__ : names().__set__);
    if (set != nullptr && PyFunction_Check(set)) {
      type_lookup(Py_TYPE(meta), value == nullptr ? names().__delete__ : names().__set__);
      if (value == nullptr) return and_then(call2(set, meta, object), Continuation(C::Drop));
      return and_then(call3(set, meta, object, value), Continuation(C::Drop));
    }
    if (is_outside(object) && Py_IS_TYPE(meta, &PyMemberDescr_Type) && cat_of(type) == Cat::Instance)
      return slot_setattr(object, meta, name, value);
    if (is_outside(object) || cat_of(type) == Cat::Tensor) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + type->tp_name}});
    }
    if (PyObject_GenericSetAttr(object, name, value) < 0) return raise_pending(py::PythonError());
    return Result::done();
  }
  if (!is_outside(object)) {
    // Members have no source: their class, which is a constant, says which they are.
    if (cat_of(type) == Cat::EnumMember && !is_made(reinterpret_cast<PyObject*>(type))) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute '") + py::text_of(name) + "' of a member of " + type->tp_name}});
    }
    if (PyObject_GenericSetAttr(object, name, value) < 0) return raise_pending(py::PythonError());
    return Result::done();
  }
  Result dict = instance_dict(object);
  if (!dict.is_value() && meta != nullptr) {
    return raise(PyExc_AttributeError,
                 std::string("'") + type->tp_name + "' object attribute '" + py::text_of(name) + "' is read-only");
  }
  if (!dict.is_value()) return attribute_error(object, name, false);
  if (value == nullptr && instance_get(object, name) == nullptr) return attribute_error(object, name, false);
  dict_set(dict.value.get(), name, value);
  return Result::done();
}

Result Tracer::setattr(PyObject* object, PyObject* name, PyObject* value) {
  doing = "sets an attribute";
  object = original(object);
  PyTypeObject* type = Py_TYPE(object);
  const Cat cat = cat_of(type);
  if (cat == Cat::Type) return class_setattr(object, name, value);
  if (cat == Cat::Module) {
    PyObject* dict = PyModule_GetDict(object);
    saw_constant(dict);
    if (value == nullptr && !dict_contains(dict, name)) return attribute_error(object, name, false);
    dict_set(dict, name, value);
    return Result::done();
  }
  PyObject* hook = type_lookup(type, value == nullptr ? names().__delattr__ : names().__setattr__);
  if (hook != nullptr && PyFunction_Check(hook)) {
    if (value == nullptr) return and_then(call2(hook, object, name), Continuation(C::Drop));
    return and_then(call3(hook, object, name, value), Continuation(C::Drop));
  }
  if (type->tp_setattro == PyObject_GenericSetAttr || hook == object_setattr() || cat == Cat::Instance ||
      cat == Cat::Tensor) {
    return generic_setattr(object, name, value);
  }
  unsupported(Reason::UnsupportedMutation,
              {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + type->tp_name}});
}

}  // namespace pellucid::objects
