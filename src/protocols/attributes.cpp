#include "protocols/attributes.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "aten/layers.h"
#include "aten/wrapper_subclass.h"
#include "graph/bodies.h"
#include "protocols/arrays.h"
#include "protocols/call.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "py/native_getattr.h"
#include "region/generator.h"
#include "region/names.h"
#include "region/subclasses.h"

namespace pellucid::protocols {

using C = Continuation::Kind;
namespace {

PyObject* object_slot(const char* name) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
}

PyObject* object_setattr() {
  static PyObject* slot = object_slot("__setattr__");
  return slot;
}

// A hook that takes the object first, as a method does.
bool is_method_hook(PyObject* hook) {
  return PyFunction_Check(hook) || Py_IS_TYPE(hook, &PyMethodDescr_Type) || Py_IS_TYPE(hook, &PyWrapperDescr_Type);
}

// What a class in C, or one that says nothing, has to set attributes; not `__setattr__ = dict.__setitem__`.
bool sets_natively(PyObject* hook) {
  return hook == nullptr ||
         (Py_IS_TYPE(hook, &PyWrapperDescr_Type) &&
          (PyDescr_NAME(hook) == region::names().__setattr__ || PyDescr_NAME(hook) == region::names().__delattr__));
}

bool is_data_descriptor(PyObject* meta) { return Py_TYPE(meta)->tp_descr_set != nullptr; }

bool has_python_get(PyObject* meta) {
  PyObject* get = py::type_lookup(Py_TYPE(meta), region::names().__get__);
  return get != nullptr && PyFunction_Check(get);
}

}  // namespace

Result attribute_error(Interpreter& t, PyObject* object, PyObject* name, bool told) {
  if (t.region.deferred.late_handles.contains(object))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "an attribute"}, {"type", Py_TYPE(object)->tp_name}});
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
  if (!told) return t.raise(std::move(error));
  py::check(PyObject_SetAttrString(error.get(), "name", name));
  py::check(PyObject_SetAttrString(error.get(), "obj", object));
  return t.raise(std::move(error));
}

Result instance_dict(Interpreter& t, PyObject* object) {
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    t.region.provenance.note_constant(dict);
    return Result::of(py::Owned<>::share(dict));
  }
  if (PyType_Check(object)) unsupported(Reason::Reflection, {{"callee", "the __dict__ of a class"}});
  auto dict = py::Owned<>::steal(py::native_getattr(object, region::names().__dict__));
  if (!dict) return t.raise_pending(py::PythonError());
  if (!PyDict_CheckExact(dict.get()))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__dict__"}, {"type", Py_TYPE(object)->tp_name}});
  const Source* source = t.region.provenance.source_of(object);
  if (source != nullptr && !t.region.provenance.is_outside(dict.get())) {
    auto& table = t.region.capture->sources;
    const bool constant = source->step == source::Step::Const;
    t.region.provenance.note_existing(dict.get(), constant ? table.constant(dict.get()) : table.dict_of(source));
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
  if (!PyExceptionInstance_Check(object) || name != region::names().__context__) return false;
  auto* error = reinterpret_cast<PyBaseExceptionObject*>(object);
  return error->context == nullptr && error->traceback != nullptr && error->traceback != Py_None;
}

}  // namespace

namespace {

// The state of a generator of numpy is another one behind each draw, which the region makes first.
void refuse_state_of_numpy(PyObject* object, PyObject* name) {
  static PyObject* const state = py::interned("state").release();
  if (name != state || !std::string_view(Py_TYPE(object)->tp_name).starts_with("numpy.random.")) return;
  unsupported(Reason::UntracedCallable, {{"callee", "the state of a " + std::string(Py_TYPE(object)->tp_name)}});
}

}  // namespace

Result native_attribute(Interpreter& t, PyObject* object, PyObject* name) {
  refuse_state_of_numpy(object, name);
  if (PyFrame_Check(object))  // what an open frame holds is on our stack
    unsupported(Reason::StackInspection, {{"callee", "'" + py::text_of(name) + "' of a frame"}});
  if (!t.region.provenance.is_outside(object)) {
    const auto reader = [&] { return "'" + py::text_of(name) + "' of an exception"; };
    if (is_frame_of_traceback(object, name)) unsupported(Reason::StackInspection, {{"callee", reader()}});
    if (is_context_of_caller(object, name)) t.region.provenance.guard_not_handling(reader());
  }
  if (t.region.generators.twin_of(object) != nullptr)
    unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a generator"}});
  auto value = py::Owned<>::steal(py::native_getattr(object, name));
  if (!value) {
    PyObject* slot = py::type_lookup(Py_TYPE(object), name);
    const Source* source = t.region.provenance.source_of(object);
    if (source != nullptr && slot != nullptr && Py_IS_TYPE(slot, &PyMemberDescr_Type))
      t.region.provenance.guard(Kind::SLOT_EMPTY, source, py::Owned<>::share(slot), 1);
    return t.raise_pending(py::PythonError());
  }
  return Result::of(t.region.provenance.note_attribute(object, name, value.get()));
}

// A member's value and name are what `_value_` and `_name_` say; other entries of its dict are read like those of any
// instance.
Result enum_attribute(Interpreter& t, PyObject* member, PyObject* name) {
  const std::string text = py::text_of(name);
  auto entry = text == "value"  ? py::interned("_value_")
               : text == "name" ? py::interned("_name_")
                                : py::Owned<>::share(name);
  PyObject* meta = t.region.lookups.type_lookup(Py_TYPE(member), name);
  const Source* source = t.region.capture->sources.constant(member);
  PyObject* own = py::instance_attr(member, entry.get());
  if (own == nullptr) t.region.provenance.guard(Kind::HAS_ATTR, source, entry.copy());
  if (own == nullptr && meta == nullptr && t.region.lookups.type_lookup(Py_TYPE(member), "__getattr__") != nullptr) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "__getattr__ for '" + text + "'"}, {"type", Py_TYPE(member)->tp_name}});
  }
  auto value = py::Owned<>::steal(PyObject_GetAttr(member, name));
  if (!value) return t.raise_pending(py::PythonError());
  if (own != nullptr) {
    t.region.provenance.note_read(own, t.region.capture->sources.instance_attr(source, entry.get()));
  } else {
    t.region.provenance.note_constant(value.get());
  }
  return Result::of(std::move(value));
}

// What the getter of `meta` raises is named as PyObject_GetAttr does.
Result named(Interpreter& t, Result bound, PyObject* meta, PyObject* object, PyObject* name) {
  if (bound.is_value() || (!PyObject_TypeCheck(meta, &PyProperty_Type) && !has_python_get(meta))) return bound;
  return t.and_then(std::move(bound), Continuation(C::NamesAttribute, object, name));
}

Result bind(Interpreter& t, PyObject* meta, PyObject* object, PyObject* type) {
  PyTypeObject* kind = Py_TYPE(meta);
  if (kind->tp_descr_get == nullptr) return Result::of(py::Owned<>::share(meta));
  if (PyFunction_Check(meta)) {
    if (object == nullptr) return Result::of(py::Owned<>::share(meta));
    return Result::of(py::take(PyMethod_New(meta, object)));
  }
  if (PyObject_TypeCheck(meta, &PyProperty_Type)) {
    if (object == nullptr) return Result::of(py::Owned<>::share(meta));
    auto fget = py::take(PyObject_GetAttr(meta, region::names().fget));
    if (fget.get() == Py_None) {
      (void)PyProperty_Type.tp_descr_get(meta, object, type);  // CPython words the error
      return t.raise_pending(py::PythonError());
    }
    t.region.provenance.note_constant(fget.get());
    return call1(t, fget.get(), object);
  }
  if (has_python_get(meta)) {
    PyObject* get = t.region.lookups.type_lookup(kind, region::names().__get__);
    return call3(t, get, meta, object == nullptr ? Py_None : object, type);
  }
  if (Py_IS_TYPE(meta, &PyClassMethod_Type)) {
    auto function = py::take(PyObject_GetAttrString(meta, "__func__"));
    t.region.provenance.note_constant(function.get());
    if (Py_TYPE(function.get())->tp_descr_get == nullptr)  // a class, a C function, a callable object
      return Result::of(py::take(PyMethod_New(function.get(), type)));
    return bind(t, function.get(), type, type);
  }
  if (Py_IS_TYPE(meta, &PyStaticMethod_Type)) {
    auto function = py::take(PyObject_GetAttrString(meta, "__func__"));
    t.region.provenance.note_constant(function.get());
    return Result::of(std::move(function));
  }
  if (PyType_HasFeature(kind, Py_TPFLAGS_HEAPTYPE) && cat_of(kind) == Cat::Instance) {
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__get__"}, {"type", kind->tp_name}});
  }
  // method descriptors, wrapper descriptors, CompiledFunction, lru_cache wrappers, C functions with __get__: binding
  // has no effect
  auto bound = py::Owned<>::steal(kind->tp_descr_get(meta, object, type));
  if (!bound) return t.raise_pending(py::PythonError());
  return Result::of(std::move(bound));
}

Result module_getattr(Interpreter& t, PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  t.region.provenance.note_constant(dict);
  bool found = false;
  Result value = t.region.reads.dict_get(dict, name, &found);
  if (found) return value;
  if (PyObject* meta = py::type_lookup(Py_TYPE(module), name)) {
    if (name == region::names().__dict__) return instance_dict(t, module);
    if (cat_of(meta) == Cat::Instance) {  // a setting of torch.backends: its getter is Python code over C state
      if (has_python_get(meta)) return bind(t, meta, module, reinterpret_cast<PyObject*>(Py_TYPE(module)));
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__get__"}, {"type", Py_TYPE(meta)->tp_name}});
    }
    return native_attribute(t, module, name);
  }
  if (t.region.shadows.is_shadowed(dict))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", "module that the region changed"}});
  // The class of a module may have a rule for what it lacks: of settings of torch.
  if (PyObject* own = py::type_lookup(Py_TYPE(module), region::names().__getattr__); own != nullptr && find(own))
    return call2(t, own, module, name);
  // A lazy module imports on first use and stores the result: let it, then read what it stored.
  auto real = py::Owned<>::steal(PyObject_GetAttr(module, name));
  if (!real) return t.raise_pending(py::PythonError());
  PyObject* stored = PyDict_GetItemWithError(dict, name);
  if (stored == nullptr) {
    if (!PyType_Check(real.get()) && !PyModule_Check(real.get()) && !PyFunction_Check(real.get()) &&
        !PyCFunction_Check(real.get())) {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", "module"}});
    }
    t.region.provenance.note_constant(real.get());
    return Result::of(std::move(real));
  }
  return t.region.reads.dict_get(dict, name, &found);
}

Result type_getattr(Interpreter& t, PyObject* type, PyObject* name) {
  PyTypeObject* metatype = Py_TYPE(type);
  PyObject* meta =
      metatype == &PyType_Type ? py::type_lookup(metatype, name) : t.region.lookups.type_lookup(metatype, name);
  auto* self = reinterpret_cast<PyTypeObject*>(type);
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (Py_IS_TYPE(meta, &PyProperty_Type) || has_python_get(meta))
      return named(t, bind(t, meta, type, reinterpret_cast<PyObject*>(metatype)), meta, type, name);
    if (name == region::names().__dict__) unsupported(Reason::Reflection, {{"callee", "the __dict__ of a class"}});
    return native_attribute(t, type, name);
  }
  if (PyObject* found = t.region.lookups.type_lookup(self, name)) {
    return named(t, bind(t, found, nullptr, type), found, type, name);
  }
  if (meta != nullptr) return named(t, bind(t, meta, type, reinterpret_cast<PyObject*>(metatype)), meta, type, name);
  if (PyObject* hook = py::type_lookup(metatype, region::names().__getattr__)) {
    if (PyFunction_Check(hook)) {
      t.region.provenance.note_constant(hook);
      return t.and_then(call2(t, hook, type, name), Continuation(C::NamesAttribute, type, name));
    }
  }
  return attribute_error(t, type, name);
}

Result super_getattr(Interpreter& t, PyObject* super, PyObject* name) {
  static PyObject* const of_this_class = py::interned("__thisclass__").release();
  static PyObject* const of_self = py::interned("__self__").release();
  static PyObject* const of_self_class = py::interned("__self_class__").release();
  auto this_class = py::take(PyObject_GetAttr(super, of_this_class));
  auto self = py::take(PyObject_GetAttr(super, of_self));
  auto self_class = py::take(PyObject_GetAttr(super, of_self_class));
  if (self_class.get() == Py_None || name == region::names().__class__) return native_attribute(t, super, name);
  // One that existed before leads to an object that existed before.
  (void)t.region.provenance.note_attribute(super, of_self, self.get());
  (void)t.region.provenance.note_attribute(super, of_this_class, this_class.get());
  auto* type = reinterpret_cast<PyTypeObject*>(self_class.get());
  t.region.lookups.guard_mro(type);
  const Py_ssize_t count = PyTuple_GET_SIZE(type->tp_mro);
  Py_ssize_t i = 0;
  while (i < count && PyTuple_GET_ITEM(type->tp_mro, i) != this_class.get()) ++i;
  if (PyObject* found = t.region.lookups.mro_lookup(type, i + 1, name)) {
    PyObject* object = self.get() == self_class.get() ? nullptr : self.get();
    return named(t, bind(t, found, object, self_class.get()), found, super, name);
  }
  auto text = "'super' object has no attribute '" + py::text_of(name) + "'";
  return t.raise(PyExc_AttributeError, text);
}

namespace {

// What list[int] has of its own (attr_exceptions of genericaliasobject.c): all else is an attribute of list.
bool is_own_name_of_alias(PyObject* name) {
  const std::string text = py::text_of(name);
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"__class__", "__origin__", "__args__", "__unpacked__", "__parameters__",
                                              "__typing_unpacked_tuple_args__", "__mro_entries__", "__reduce_ex__",
                                              "__reduce__", "__copy__", "__deepcopy__"},
      [&](std::string_view own) { return own == text; });
}

Result alias_getattr(Interpreter& t, PyObject* alias, PyObject* name) {
  if (is_own_name_of_alias(name)) return generic_getattr(t, alias, name);
  static PyObject* const origin = py::interned("__origin__").release();
  const Result of = native_attribute(t, alias, origin);
  return getattr(t, of.value.get(), name);
}

}  // namespace

Result generic_getattr(Interpreter& t, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* meta = t.region.lookups.type_lookup(type, name);
  if (meta != nullptr && cat_of(meta) == Cat::Instance && is_mutable_class(Py_TYPE(meta))) {
    // What this object is as a descriptor is up to its class.
    for (PyObject* slot : {region::names().__get__, region::names().__set__, region::names().__delete__})
      t.region.lookups.type_lookup(Py_TYPE(meta), slot);
  }
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (name == region::names().__dict__ && Py_IS_TYPE(meta, &PyGetSetDescr_Type)) return instance_dict(t, object);
    if (name == region::names().__class__ && Py_IS_TYPE(meta, &PyGetSetDescr_Type)) {
      t.region.provenance.note_constant(reinterpret_cast<PyObject*>(type));
      return Result::of(py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
    }
    if (Py_IS_TYPE(meta, &PyGetSetDescr_Type) || Py_IS_TYPE(meta, &PyMemberDescr_Type)) {
      if (Py_IS_TYPE(meta, &PyMemberDescr_Type)) {
        if (const region::AttributeWrite* written = t.region.attributes.find(object, name)) {
          if (!written->value) return attribute_error(t, object, name);
          return Result::of(written->value.copy());
        }
      }
      return native_attribute(t, object, name);
    }
    return named(t, bind(t, meta, object, reinterpret_cast<PyObject*>(type)), meta, object, name);
  }
  if (PyObject* value = t.region.lookups.instance_get(object, name)) {
    return Result::of(py::Owned<>::share(value));
  }
  if (meta != nullptr) return named(t, bind(t, meta, object, reinterpret_cast<PyObject*>(type)), meta, object, name);
  return attribute_error(t, object, name);
}

// A class without hooks of its own may be given some.
void guard_generic_getattr(Interpreter& t, PyTypeObject* type) {
  if (cat_of(type) == Cat::Tensor || cat_of(type) == Cat::EnumMember || !is_mutable_class(type)) return;
  t.region.lookups.type_lookup(type, region::names().__getattribute__);
  if (type->tp_getattro == PyObject_GenericGetAttr) t.region.lookups.type_lookup(type, region::names().__getattr__);
}

namespace {

// torch.ops makes a namespace, an operator and an overload when it is first asked for, and keeps it. Made before the
// region looks there, it is there at every call; that it was missing would be so at no other one.
void make_operator(PyObject* object, PyTypeObject* type, PyObject* name) {
  static const auto type_named = [](const char* of) {
    return reinterpret_cast<PyTypeObject*>(py::import_attr("torch._ops", of).release());
  };
  static PyTypeObject* const all = type_named("_Ops");
  static PyTypeObject* const some = type_named("_OpNamespace");
  static PyTypeObject* const packet = type_named("OpOverloadPacket");
  if (type != all && type != some && type != packet) return;
  if (py::instance_attr(object, name) != nullptr || py::type_lookup(type, name) != nullptr) return;
  if (!py::Owned<>::steal(PyObject_GetAttr(object, name))) PyErr_Clear();
}

}  // namespace

Result getattr(Interpreter& t, PyObject* object, PyObject* name) {
  t.region.doing = "reads an attribute";
  if (PyObject* real = t.region.shadows.original(object); real != object) object = real;
  PyTypeObject* type = Py_TYPE(object);
  make_operator(object, type, name);
  switch (cat_of(type)) {
    case Cat::Tensor:
      return tensor_getattr(t, object, name);
    case Cat::Array:
      return array_getattr(t, object, name);
    case Cat::Type:
      return type_getattr(t, object, name);
    case Cat::Module:
      return module_getattr(t, object, name);
    case Cat::Other:
      // Not what ours have of `object`: __repr__.
      if (PyGen_CheckExact(object) && PyDict_GetItem(region::generator_type()->tp_dict, name) != nullptr) {
        if (PyObject* twin = t.twin_of_generator(object)) return generic_getattr(t, twin, name);
      }
      break;
    case Cat::Generator:
      if (is_polyfill(object) && name != region::names().__next__ && name != region::names().__iter__)
        unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a builtin iterator"}});
      if (PyObject* own = py::type_lookup(type, name); own != nullptr && name != region::names().__class__) {
        // What generators have of their own and ours only of `object`: __repr__.
        if (!Py_IS_TYPE(own, &PyWrapperDescr_Type) || PyDescr_TYPE(own) != &PyBaseObject_Type ||
            own == py::type_lookup(&PyGen_Type, name))
          break;
      }
      if (py::type_lookup(&PyGen_Type, name) == nullptr) {
        return t.raise(PyExc_AttributeError, "'generator' object has no attribute '" + py::text_of(name) + "'");
      }
      unsupported(Reason::Reflection, {{"callee", "attribute '" + py::text_of(name) + "' of a generator"}});
    case Cat::EnumMember: {
      PyObject* meta = py::type_lookup(type, name);
      if (meta == nullptr ||
          (!PyFunction_Check(meta) && !Py_IS_TYPE(meta, &PyProperty_Type) && !Py_IS_TYPE(meta, &PyClassMethod_Type))) {
        return enum_attribute(t, object, name);  // name, value, members, C methods of str or int
      }
      return generic_getattr(t, object, name);
    }
    case Cat::BoundMethod: {
      if (name == region::names().dunder_func || name == region::names().__self__)
        return native_attribute(t, object, name);
      if (py::type_lookup(type, name) != nullptr) return native_attribute(t, object, name);
      auto function = native_attribute(t, object, region::names().dunder_func);
      return getattr(t, function.value.get(), name);
    }
    default:
      break;
  }
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_getattr(t, object, name);
  if (type->tp_getattro == Py_GenericAliasType.tp_getattro) return alias_getattr(t, object, name);
  // All but `__module__`, which it has of its class.
  static PyObject* const union_type = py::import_attr("types", "UnionType").release();
  if (reinterpret_cast<PyObject*>(type) == union_type && PyUnicode_CompareWithASCIIString(name, "__module__") != 0)
    return generic_getattr(t, object, name);
  if (type->tp_getattro == PyObject_GenericGetAttr) {
    guard_generic_getattr(t, type);
    return generic_getattr(t, object, name);
  }
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "attribute '" + py::text_of(name) + "'"}, {"type", type->tp_name}});
  }
  PyObject* getattribute = t.region.lookups.type_lookup(type, region::names().__getattribute__);
  PyObject* hook = t.region.lookups.type_lookup(type, region::names().__getattr__);
  if (hook != nullptr && !is_method_hook(hook))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", type->tp_name}});
  const bool is_objects = py::is_generic_getattribute(getattribute);
  if (!is_objects && (getattribute == nullptr || !PyFunction_Check(getattribute)))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattribute__"}, {"type", type->tp_name}});
  Result found = is_objects
                     ? generic_getattr(t, object, name)
                     : t.and_then(call2(t, getattribute, object, name), Continuation(C::NamesAttribute, object, name));
  if (hook == nullptr || found.is_value()) return found;
  return t.and_then(std::move(found), Continuation(C::GetAttrFallback, object, name, hook));
}

Result getattr_method(Interpreter& t, PyObject* object, PyObject* name, bool* unbound) {
  *unbound = false;
  if (PyGen_CheckExact(object)) return getattr(t, object, name);
  PyTypeObject* type = Py_TYPE(object);
  const Cat cat = cat_of(type);
  if (cat == Cat::Array) return array_method(t, object, name, unbound);
  const bool generic =
      type->tp_getattro == PyObject_GenericGetAttr ||
      (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && cat == Cat::Instance &&
       py::is_generic_getattribute(t.region.lookups.type_lookup(type, region::names().__getattribute__)));
  if (generic) guard_generic_getattr(t, type);
  if (generic && cat != Cat::Tensor && cat != Cat::Type && cat != Cat::Module && cat != Cat::EnumMember &&
      !Py_IS_TYPE(object, &PySuper_Type)) {
    t.region.doing = "calls a method";
    PyObject* meta = t.region.lookups.type_lookup(type, name);
    if (meta != nullptr && (PyFunction_Check(meta) || Py_IS_TYPE(meta, &PyMethodDescr_Type)) &&
        t.region.lookups.instance_get(t.region.shadows.original(object), name) == nullptr) {
      *unbound = true;
      return Result::of(py::Owned<>::share(meta));
    }
    // _PyObject_GetMethod leaves an AttributeError of a property as it is.
    if (meta != nullptr && Py_IS_TYPE(meta, &PyProperty_Type) && type->tp_getattro == PyObject_GenericGetAttr)
      return bind(t, meta, t.region.shadows.original(object), reinterpret_cast<PyObject*>(type));
  }
  return getattr(t, object, name);
}

Result special(Interpreter& t, PyObject* object, const char* name, std::span<PyObject* const> args) {
  auto interned = py::interned(name);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* method = t.region.lookups.type_lookup(type, interned.get());
  if (method == nullptr) unsupported(Reason::UnsupportedProtocol, {{"protocol", name}, {"type", type->tp_name}});
  std::vector<PyObject*> values;
  if (PyFunction_Check(method) || Py_IS_TYPE(method, &PyMethodDescr_Type) || Py_IS_TYPE(method, &PyWrapperDescr_Type)) {
    values.push_back(object);
    values.insert(values.end(), args.begin(), args.end());
    return call(t, method, Args{values, nullptr});
  }
  Result bound = bind(t, method, object, reinterpret_cast<PyObject*>(type));
  if (!bound.is_value()) unsupported(Reason::UnsupportedProtocol, {{"protocol", name}, {"type", type->tp_name}});
  return call(t, bound.value.get(), Args{args, nullptr});
}

Result generic_setattr(Interpreter& t, PyObject* object, PyObject* name, PyObject* value) {
  object = t.region.shadows.original(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* meta = t.region.lookups.type_lookup(type, name);
  if (meta != nullptr && is_data_descriptor(meta)) {
    if (Py_IS_TYPE(meta, &PyProperty_Type)) {
      auto setter = py::take(PyObject_GetAttrString(meta, value == nullptr ? "fdel" : "fset"));
      if (setter.get() == Py_None) {
        PyProperty_Type.tp_descr_set(meta, object, value);  // CPython words the error
        return t.raise_pending(py::PythonError());
      }
      t.region.provenance.note_constant(setter.get());
      if (value == nullptr) return t.and_then(call1(t, setter.get(), object), Continuation(C::Drop));
      return t.and_then(call2(t, setter.get(), object, value), Continuation(C::Drop));
    }
    PyObject* set =
        py::type_lookup(Py_TYPE(meta), value == nullptr ? region::names().__delete__ : region::names().__set__);
    if (set != nullptr && PyFunction_Check(set)) {
      t.region.lookups.type_lookup(Py_TYPE(meta),
                                   value == nullptr ? region::names().__delete__ : region::names().__set__);
      if (value == nullptr) return t.and_then(call2(t, set, meta, object), Continuation(C::Drop));
      return t.and_then(call3(t, set, meta, object, value), Continuation(C::Drop));
    }
    if (t.region.provenance.is_outside(object) && Py_IS_TYPE(meta, &PyMemberDescr_Type) &&
        cat_of(type) == Cat::Instance)
      return slot_setattr(t, object, meta, name, value);
    if (t.region.provenance.is_outside(object) || cat_of(type) == Cat::Tensor || cat_of(type) == Cat::Array) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + type->tp_name}});
    }
    if (PyObject_GenericSetAttr(object, name, value) < 0) return t.raise_pending(py::PythonError());
    return Result::done();
  }
  if (!t.region.provenance.is_outside(object)) {
    // Members have no source: their class, which is a constant, says which they are.
    if (cat_of(type) == Cat::EnumMember && !t.region.provenance.is_made(reinterpret_cast<PyObject*>(type))) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute '") + py::text_of(name) + "' of a member of " + type->tp_name}});
    }
    if (PyObject_GenericSetAttr(object, name, value) < 0) return t.raise_pending(py::PythonError());
    return Result::done();
  }
  Result dict = instance_dict(t, object);
  if (!dict.is_value() && meta != nullptr) {
    return t.raise(PyExc_AttributeError,
                   std::string("'") + type->tp_name + "' object attribute '" + py::text_of(name) + "' is read-only");
  }
  if (!dict.is_value()) return attribute_error(t, object, name, false);
  if (value == nullptr && t.region.lookups.instance_get(object, name) == nullptr)
    return attribute_error(t, object, name, false);
  t.region.shadows.dict_set(dict.value.get(), name, value);
  return Result::done();
}

namespace {

// Guards and emitted code read and write it as attributes, about which a class with torch functions would be asked.
void refuse_grad_of_subclass(Interpreter& t, PyObject* tensor) {
  const bool is_silent = region::is_wrapper_subclass(tensor) && !has_torch_function(t, tensor);
  if (region::is_subclassed(tensor) && !is_silent)
    unsupported(Reason::UnsupportedTensor,
                {{"what", std::string("attribute 'grad' of a tensor of class ") + Py_TYPE(tensor)->tp_name}});
}

// A fact about a tensor as its fake has it, which a tensor that it gives is a node of.
Result recorded_attribute(Interpreter& t, PyObject* tensor, PyObject* name) {
  // A block that is checkpointed reads the memory again in the backward pass; a compiler does not see who wrote to it.
  if (name == region::names().data && !t.region.numbers.policy.runs_as_captured() && !t.region.capture->bodies->empty())
    unsupported(Reason::UnsupportedTensor, {{"what", "attribute 'data' of a tensor behind a body"}});
  static PyObject* const getattr_builtin = py::import_attr("builtins", "getattr").release();
  PyObject* args[] = {tensor, name};
  return t.region.recorder.torch_call(graph::Op::CallFunction, getattr_builtin, getattr_builtin, Args{args, nullptr});
}

// `tensor.grad`: what the region has set counts, which is set for good behind the graph.
Result grad_of(Interpreter& t, PyObject* tensor) {
  refuse_grad_of_subclass(t, tensor);
  PyObject* const name = region::names().grad;
  if (const region::AttributeWrite* write = t.region.attributes.find(tensor, name))
    return Result::of(py::Owned<>::share(write->value.get()));
  return aten::is_fake(tensor) ? recorded_attribute(t, tensor, name) : native_attribute(t, tensor, name);
}

// torch checks the tensor, and words the error: on the fakes, which are like the tensors.
Result set_grad(Interpreter& t, PyObject* tensor, PyObject* value) {
  PyObject* const name = region::names().grad;
  const bool is_tensor = value != nullptr && cat_of(value) == Cat::Tensor;
  if (value == nullptr || (value != Py_None && !is_tensor)) {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("attribute 'grad' of a ") + Py_TYPE(tensor)->tp_name}});
  }
  Result before = grad_of(t, tensor);
  if (!before.is_value()) return before;
  static PyObject* const set = py::import_attr("builtins", "setattr").release();
  const auto fake = t.region.recorder.lift(tensor);
  const auto fake_value = is_tensor ? t.region.recorder.lift(value) : py::Owned<>::share(value);
  PyObject* const values[] = {fake.get(), name, fake_value.get()};
  try {
    const auto done = t.region.recorder.fakes().call(set, values, 3, nullptr);
  } catch (const py::PythonError& error) {
    if (t.region.numbers.space().symbols() > 0)  // the error names sizes, which other calls have others of
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute 'grad' of a ") + Py_TYPE(tensor)->tp_name + " to a misfit"}});
    return t.raise_pending(error);
  }
  t.region.drops.guard_drop_of_item(before.value.get());
  t.region.attributes.write(tensor, name, value);
  return Result::done();
}

bool have_one_layout(PyObject* one, PyObject* other) {
  const aten::Meta a = aten::meta_of(one), b = aten::meta_of(other);
  static PyObject* const dtype = py::interned("dtype").release();
  const auto dtype_of = [](PyObject* fake) { return py::take(PyObject_GetAttr(fake, dtype)); };
  return a.storage_offset == b.storage_offset && a.sizes == b.sizes && a.strides == b.strides &&
         dtype_of(one).get() == dtype_of(other).get();
}

bool share_memory(PyObject* one, PyObject* other) { return aten::meta_of(one).storage == aten::meta_of(other).storage; }

// A compiler replays a move to memory that the region has made, and that has the layout and dtype of the old one.
bool may_move_when_compiled(Interpreter& t, PyObject* tensor, PyObject* fake, PyObject* value, PyObject* from) {
  if (aten::is_fake(tensor) || !aten::is_fake(value) || !t.region.capture->bodies->empty()) return false;
  const std::int64_t before = t.region.recorder.leaves_before;
  if (before >= 0 && t.region.steps >= before) return false;
  return !share_memory(fake, from) && have_one_layout(fake, from);
}

// `tensor.data = value`: the tensor moves to the memory of the value, which no version counter tells.
Result set_data(Interpreter& t, PyObject* tensor, PyObject* value) {
  PyObject* const name = region::names().data;
  region::Recorder& recorder = t.region.recorder;
  const auto refuse = [&] {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("attribute 'data' of a ") + Py_TYPE(tensor)->tp_name}});
  };
  if (value == nullptr || cat_of(value) != Cat::Tensor || aten::is_below_transform()) refuse();
  const auto fake = recorder.lift(tensor), from = recorder.lift(value);
  if (share_memory(fake.get(), from.get()) && have_one_layout(fake.get(), from.get()))
    return Result::done();  // what `tensor.data += …` ends with
  if (aten::has_open_sizes(fake.get()) || aten::has_open_sizes(from.get()) || t.region.deferred.has_tensors() ||
      t.region.grad_flags.is_aliased(tensor))
    refuse();
  const bool as_captured = t.region.numbers.policy.runs_as_captured();
  if (!as_captured && !may_move_when_compiled(t, tensor, fake.get(), value, from.get())) refuse();
  static PyObject* const set = py::import_attr("builtins", "setattr").release();
  std::vector<std::shared_ptr<const void>> places;
  const auto note_place = [&] {
    places.emplace_back(aten::meta_of(fake.get()).storage,
                        [held = std::make_shared<py::Owned<>>(fake.copy())](const void*) {});
  };
  note_place();
  (void)aten::take_facts();
  PyObject* const values[] = {fake.get(), name, from.get()};
  try {
    const auto done = recorder.fakes().call(set, values, 3, nullptr);
  } catch (const py::PythonError& error) {
    return t.raise_pending(error);
  }
  note_place();
  PyObject* recorded[] = {tensor, name, value};
  graph::Node* node = nullptr;
  if (as_captured) {
    node = recorder.record(graph::Op::CallFunction, set, Args{recorded, nullptr}, Py_None, true);
  } else {
    static PyObject* const move = py::import_attr("pellucid._tensor_data", "move_to").release();
    PyObject* moved[] = {tensor, value};
    node = recorder.record(graph::Op::CallFunction, move, Args{moved, nullptr}, Py_None, true);
    t.region.capture->moved.push_back({t.region.steps, fake.copy(), node, places.front(), places.back()});
  }
  for (auto& place : places) node->written.push_back(std::move(place));  // an input is put back when the graph raises
  return Result::done();
}

}  // namespace

Result write_of_torch(Interpreter& t, PyObject* tensor, PyObject* name, PyObject* value) {
  if (name == region::names().grad) return set_grad(t, tensor, value);
  unsupported(Reason::UnsupportedMutation,
              {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + Py_TYPE(tensor)->tp_name}});
}

Result setattr(Interpreter& t, PyObject* object, PyObject* name, PyObject* value) {
  t.region.doing = "sets an attribute";
  object = t.region.shadows.original(object);
  PyTypeObject* type = Py_TYPE(object);
  const Cat cat = cat_of(type);
  if (cat == Cat::Type) return class_setattr(t, object, name, value);
  if (cat == Cat::Module) {
    PyObject* dict = PyModule_GetDict(object);
    t.region.provenance.note_constant(dict);
    if (value == nullptr && !t.region.reads.dict_contains(dict, name)) return attribute_error(t, object, name, false);
    t.region.shadows.dict_set(dict, name, value);
    return Result::done();
  }
  PyObject* setter = value == nullptr ? region::names().__delattr__ : region::names().__setattr__;
  PyObject* hook = t.region.lookups.type_lookup(type, setter);
  if (!sets_natively(hook)) {
    if (!is_method_hook(hook))
      unsupported(Reason::UnsupportedProtocol, {{"protocol", py::text_of(setter)}, {"type", type->tp_name}});
    if (value == nullptr) return t.and_then(call2(t, hook, object, name), Continuation(C::Drop));
    return t.and_then(call3(t, hook, object, name, value), Continuation(C::Drop));
  }
  if (cat == Cat::Tensor) {
    if (region::is_wrapper_subclass(object) && name != region::names().grad)
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + type->tp_name}});
    PyObject* meta = t.region.lookups.type_lookup(type, name);
    const bool of_torch = meta != nullptr && Py_IS_TYPE(meta, &PyGetSetDescr_Type);
    if (of_torch && value != nullptr) {
      if (auto answer = setattr_by_torch_function(t, object, name, value))
        return t.and_then(std::move(*answer), Continuation(C::Drop));
    }
    if (of_torch && name == region::names().grad) return set_grad(t, object, value);
    const bool is_plain = of_torch && !region::is_subclassed(object);
    if (is_plain && name == region::names().data) return set_data(t, object, value);
    const auto is_leaf = [&] { return aten::meta_of(t.region.recorder.lift(object).get()).is_leaf; };
    // Of other tensors it cannot be set, whatever it is.
    if (is_plain && name == region::names().requires_grad && value != nullptr && PyBool_Check(value) && is_leaf()) {
      static PyObject* const set = [] {
        return py::take(PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "requires_grad_")).release();
      }();
      return t.and_then(call2(t, set, object, value), Continuation(C::Drop));
    }
  }
  if (type->tp_setattro == PyObject_GenericSetAttr || hook == object_setattr() || cat == Cat::Instance ||
      cat == Cat::Tensor) {
    return generic_setattr(t, object, name, value);
  }
  unsupported(Reason::UnsupportedMutation,
              {{"target", std::string("attribute '") + py::text_of(name) + "' of a " + type->tp_name}});
}

Result read_of_torch(Interpreter& t, PyObject* tensor, PyObject* name) {
  if (region::reads_unguarded_state(name))
    unsupported(Reason::UnsupportedTensor, {{"what", "attribute '" + py::text_of(name) + "', which is not guarded"}});
  return name == region::names().grad ? grad_of(t, tensor) : recorded_attribute(t, tensor, name);
}

// What a tensor around tensors holds that the region computes: a part of an input of the graph, or what the graph
// reads.
static Result part_of(Interpreter& t, PyObject* tensor, PyObject* name, PyObject* own) {
  region::Recorder& recorder = t.region.recorder;
  if (cat_of(own) == Cat::Tensor && aten::is_fake(own)) {
    if (PyObject* real = t.region.shadows.original(own); real != own) return Result::of(py::Owned<>::share(real));
    if (recorder.node_of(own) == nullptr) {
      static PyObject* const get = py::import_attr("builtins", "getattr").release();
      (void)aten::take_facts();
      PyObject* args[] = {tensor, name};
      recorder.give(own, recorder.record(graph::Op::CallFunction, get, Args{args, nullptr}, own, false));
    }
    return Result::of(py::Owned<>::share(recorder.tensor_behind(own)));
  }
  bool is_value = is_atom(cat_of(own));
  if (PyTuple_CheckExact(own)) {
    is_value = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(own); ++i) is_value &= is_atom(cat_of(PyTuple_GET_ITEM(own, i)));
  }
  if (is_value) return Result::of(py::Owned<>::share(own));
  unsupported(Reason::UnknownOrigin, {{"detail", "attribute '" + py::text_of(name) + "' of a " +
                                                     Py_TYPE(tensor)->tp_name + " of the region"}});
}

Result tensor_getattr(Interpreter& t, PyObject* tensor, PyObject* name) {
  PyTypeObject* type = Py_TYPE(tensor);
  const bool fake = aten::is_fake(tensor) || t.region.recorder.wrappers.is_fake(tensor);
  if (!fake && !t.region.provenance.is_outside(tensor))
    unsupported(Reason::UnknownOrigin, {{"detail", "attribute of a tensor"}});
  PyObject* meta = t.region.lookups.type_lookup(type, name);
  if (name == region::names().__class__) {
    t.region.provenance.note_constant(reinterpret_cast<PyObject*>(type));
    return Result::of(py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
  }
  if (name == region::names().__dict__) {
    if (region::is_wrapper_subclass(tensor))
      unsupported(Reason::Reflection, {{"callee", "the __dict__ of a tensor subclass"}});
    return instance_dict(t, tensor);
  }
  if (meta != nullptr && Py_IS_TYPE(meta, &PyGetSetDescr_Type)) {
    if (auto answer = getattr_by_torch_function(t, tensor, name)) return std::move(*answer);
    return read_of_torch(t, tensor, name);
  }
  if (meta != nullptr && region::is_subclassed(tensor) && is_data_descriptor(meta))
    return named(t, bind(t, meta, tensor, reinterpret_cast<PyObject*>(type)), meta, tensor, name);
  PyObject* hook =
      region::is_subclassed(tensor) ? t.region.lookups.type_lookup(type, region::names().__getattr__) : nullptr;
  if (PyObject* own = t.region.lookups.instance_get(tensor, name); own != nullptr) {
    if (t.region.recorder.wrappers.is_fake(tensor)) return part_of(t, tensor, name, own);
    return Result::of(py::Owned<>::share(own));
  }
  if (meta == nullptr) {
    // nn.Parameter and friends define no __getattr__, so the miss is final.
    Result miss = attribute_error(t, tensor, name);
    return hook == nullptr ? std::move(miss)
                           : t.and_then(std::move(miss), Continuation(C::GetAttrFallback, tensor, name, hook));
  }
  return named(t, bind(t, meta, tensor, reinterpret_cast<PyObject*>(type)), meta, tensor, name);
}

}  // namespace pellucid::protocols
