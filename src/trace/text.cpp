// str(), repr(), format(), and isinstance().
#include <array>

#include "objects/enums.h"
#include "py/cpython311.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using objects::Contents;
using objects::names;

namespace {

// The polyfills that print containers, by name.
bool prints_container(PyCodeObject* code) {
  static PyObject* const names[] = {py::interned("repr_of_sequence").release(), py::interned("repr_of_dict").release()};
  return code->co_name == names[0] || code->co_name == names[1];
}

// A container whose repr() is under way: it prints as [...] inside of itself.
bool is_being_printed(Executor& ex, PyObject* value) {
  for (const Frame* frame = ex.top(); frame != nullptr; frame = frame->back.get()) {
    if (frame->hidden && prints_container(frame->code.get()) && frame->local(0) != nullptr &&
        ex.original(frame->local(0)) == value)
      return true;
  }
  return false;
}

// Other exceptions print what they keep in members.
bool prints_its_arguments(PyObject* exception) {
  const auto str_of = [](PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_str; };
  const auto own = Py_TYPE(exception)->tp_str;
  return own == str_of(PyExc_BaseException) || own == str_of(PyExc_KeyError);
}

}  // namespace

Result Executor::to_text(PyObject* value, const char* how) {
  value = original(value);
  doing = "prints";
  Continuation as_text(K::Str);
  as_text.number = how[2] == 'r';
  if (capture().region_ids.contains(value)) unsupported(Reason::RegionIdentity, {{"operation", "printing"}});
  const Cat cat = objects::cat_of(value);
  auto native = [&](PyObject* v) {
    auto text = py::Owned<>::steal(how[2] == 's' ? PyObject_Str(v) : PyObject_Repr(v));
    if (!text) return raise_pending(py::PythonError());
    return Result::of(std::move(text));
  };
  if (cat == Cat::EnumMember || (cat == Cat::Type && Py_TYPE(value) != &PyType_Type)) {
    PyObject* own = type_lookup(Py_TYPE(value), how);
    if (own != nullptr && PyFunction_Check(own) && !objects::is_enums_own(own)) {
      return and_then(special(value, how, {}), std::move(as_text));
    }
  }
  if (cat == Cat::EnumMember) enum_attribute(value, py::interned("name").get());
  if (cat == Cat::Type) {
    for (PyObject* part : {names().__qualname__, names().__module__}) native_attribute(value, part);
  }
  if (objects::is_atom(cat) || cat == Cat::Range || cat == Cat::Type) return native(value);
  if (cat == Cat::Slice) {
    const Contents inside = deep_touch(value);
    if (inside.tensor || inside.user || inside.shadowed)
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "printing"}, {"type", "slice"}});
    return native(value);
  }
  if (cat == Cat::Tensor) unsupported(Reason::DataDependent, {{"operation", "printing a tensor"}});
  if (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Set || cat == Cat::FrozenSet ||
      cat == Cat::Deque) {
    const Contents inside = deep_touch(value);
    PyObject* own = objects::is_exact_builtin(Py_TYPE(value)) ? nullptr : type_lookup(Py_TYPE(value), "__repr__");
    if (!inside.tensor && !inside.user && !inside.shadowed && (own == nullptr || !PyFunction_Check(own))) {
      PyObject* contents = readable(value);  // which may be of the builtin type itself
      if (Py_TYPE(contents) != Py_TYPE(value) && cat != Cat::List && cat != Cat::Tuple && cat != Cat::Dict)
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "printing"}, {"type", Py_TYPE(value)->tp_name}});
      return native(contents);
    }
  }
  if (cat == Cat::Module || cat == Cat::Code || cat == Cat::Function || cat == Cat::Builtin) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "printing"}, {"type", Py_TYPE(value)->tp_name}});  // holds an address
  }
  PyObject* method = type_lookup(Py_TYPE(value), how);
  if (method != nullptr && PyFunction_Check(method)) return and_then(special(value, how, {}), std::move(as_text));
  if (how[2] == 'r') {
    if (is_being_printed(*this, value)) {  // Py_ReprEnter
      const char* text = PyDict_Check(value) ? "{...}" : PyList_Check(value) ? "[...]" : "(...)";
      return Result::of(py::take(PyUnicode_FromString(text)));
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value))
      return call_polyfill(PyDict_Check(value) ? "repr_of_dict" : "repr_of_sequence", std::span(&value, 1));
    const bool plain = method != nullptr && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
                       reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_repr == Py_TYPE(value)->tp_repr;
    if (PyExceptionInstance_Check(value) && plain) return call_polyfill("repr_of_exception", std::span(&value, 1));
  }
  if (how[2] == 's') {
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value))
      return to_text(value, "__repr__");
    if (method != nullptr && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
        reinterpret_cast<PyDescrObject*>(method)->d_type == &PyBaseObject_Type) {
      return to_text(value, "__repr__");
    }
    auto* group = reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup);
    if (PyObject_TypeCheck(value, group) && Py_TYPE(value)->tp_str == group->tp_str)
      return call_polyfill("str_of_group", std::span(&value, 1));
    if (PyExceptionInstance_Check(value) && (!is_outside(value) || prints_its_arguments(value))) {
      const Result args = native_attribute(value, names().args);
      const Contents inside = deep_touch(args.value.get());
      if (!inside.tensor && !inside.user && !inside.shadowed) return native(value);
    }
  }
  unsupported(Reason::UnsupportedProtocol, {{"protocol", how}, {"type", Py_TYPE(value)->tp_name}});
}

Result Executor::format(PyObject* value, PyObject* spec) {
  value = original(value);
  if (capture().region_ids.contains(value)) unsupported(Reason::RegionIdentity, {{"operation", "printing"}});
  const Cat cat = objects::cat_of(value);
  if (cat == Cat::EnumMember) {
    PyObject* own = type_lookup(Py_TYPE(value), names().__format__);
    if (own != nullptr && PyFunction_Check(own)) return call_polyfill("format_of", std::array{value, spec});
  }
  if (objects::is_atom(cat)) {
    auto text = py::Owned<>::steal(PyObject_Format(value, spec));
    if (!text) return raise_pending(py::PythonError());
    return Result::of(std::move(text));
  }
  if (cat == Cat::Tensor) unsupported(Reason::DataDependent, {{"operation", "printing a tensor"}});
  PyObject* method = type_lookup(Py_TYPE(value), names().__format__);
  if (method != nullptr && PyFunction_Check(method)) return call_polyfill("format_of", std::array{value, spec});
  if (method != py::type_lookup(&PyBaseObject_Type, names().__format__))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__format__"}, {"type", Py_TYPE(value)->tp_name}});
  if (PyUnicode_GET_LENGTH(spec) == 0) return to_text(value, "__str__");
  return raise(PyExc_TypeError,
               std::string("unsupported format string passed to ") + Py_TYPE(value)->tp_name + ".__format__");
}

namespace {
// torch.FloatTensor and its like: their metaclass looks at dtype, layout and device of the tensor.
bool is_legacy_tensor_type(PyObject* type) {
  static PyObject* const meta = [] {
    auto tensor_type = py::import_attr("torch", "FloatTensor");
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(tensor_type.get())));
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(type)) == meta;
}

bool has_legacy_tensor_type(Executor& executor, PyObject* tensor, PyObject* type) {
  for (const char* fact : {"dtype", "layout", "is_cuda"}) {
    auto name = py::interned(fact);
    auto wanted = py::take(PyObject_GetAttr(type, name.get()));
    if (executor.getattr(tensor, name.get()).value.get() != wanted.get()) return false;
  }
  return true;
}
}  // namespace

// isinstance(object, type) or issubclass(object, type)
Result Executor::is_instance(PyObject* object, PyObject* type, bool subclass) {
  object = original(object);
  if (!subclass && is_ours(object)) unsupported(Reason::Reflection, {{"callee", "isinstance() of a builtin iterator"}});
  const char* hook_name = subclass ? "__subclasscheck__" : "__instancecheck__";
  if (PyTuple_Check(type)) {
    // All native checks first: only a metaclass with Python code needs the polyfill.
    bool python = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i)
      python |=
          checks_in_python(PyTuple_GET_ITEM(type, i), hook_name) || is_legacy_tensor_type(PyTuple_GET_ITEM(type, i));
    if (python) {
      PyObject* args[] = {object, type};
      return call_polyfill(subclass ? "issubclass_of_any" : "isinstance_of_any", args);
    }
  } else if (!subclass && objects::cat_of(object) == Cat::Tensor && is_legacy_tensor_type(type)) {
    return Result::boolean(has_legacy_tensor_type(*this, object, type));
  } else if (checks_in_python(type, hook_name)) {
    if (!subclass && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type) return Result::boolean(true);
    PyObject* hook = type_lookup(Py_TYPE(type), hook_name);
    return and_then(call2(hook, type, object), Continuation(K::Bool));
  }
  if (!PyType_Check(type) && objects::cat_of(type) == Cat::Instance)  // its __bases__ are asked
    unsupported(Reason::UnsupportedProtocol, {{"protocol", hook_name}, {"type", Py_TYPE(type)->tp_name}});
  if (!subclass && class_is_computed(object, type)) {
    PyObject* args[] = {object, type};
    return call_polyfill("isinstance_by_class", args);
  }
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) guard_abc(PyTuple_GET_ITEM(type, i));
  } else {
    guard_abc(type);
  }
  auto* looked_at = subclass && PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  if (reinterpret_cast<PyObject*>(looked_at) != type && objects::cat_of(looked_at) != Cat::Tensor) guard_mro(looked_at);
  int yes = 0;
  if (!subclass && objects::is_generator(object)) {
    yes = PyObject_IsSubclass(reinterpret_cast<PyObject*>(&PyGen_Type), type);
  } else {
    yes = subclass ? PyObject_IsSubclass(object, type) : PyObject_IsInstance(object, type);
  }
  if (yes < 0) return raise_pending(py::PythonError());
  return Result::boolean(yes == 1);
}

bool Executor::checks_in_python(PyObject* type, const char* hook_name) {
  static PyObject* abc_meta = py::import_attr("abc", "ABCMeta").release();
  if (!PyType_Check(type) || Py_TYPE(type) == &PyType_Type) return false;
  PyObject* hook = type_lookup(Py_TYPE(type), hook_name);
  if (hook == nullptr || !PyFunction_Check(hook)) return false;
  auto name = py::interned(hook_name);
  return hook != py::type_lookup(reinterpret_cast<PyTypeObject*>(abc_meta), name.get());  // ABCMeta's own only asks C
}

// isinstance() of an object that is no instance by its type asks for `object.__class__`, which may be Python code.
bool Executor::class_is_computed(PyObject* object, PyObject* type) {
  PyTypeObject* real = Py_TYPE(object);
  if (!PyType_HasFeature(real, Py_TPFLAGS_HEAPTYPE) || objects::cat_of(real) == Cat::Tensor) return false;
  if (PyType_CheckExact(type) && PyType_IsSubtype(real, reinterpret_cast<PyTypeObject*>(type))) return false;
  PyObject* descriptor = type_lookup(real, names().__class__);
  if (descriptor == nullptr || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return true;
  if (real->tp_getattro == PyObject_GenericGetAttr) return false;
  PyObject* getattribute = type_lookup(real, names().__getattribute__);
  return getattribute != nullptr && PyFunction_Check(getattribute);
}

void Executor::guard_abc(PyObject* type) {
  static PyObject* abc_meta = py::import_attr("abc", "ABCMeta").release();
  static PyObject* token = py::import_attr("abc", "get_cache_token").release();
  if (!PyType_Check(type) || !PyType_IsSubtype(Py_TYPE(type), reinterpret_cast<PyTypeObject*>(abc_meta))) return;
  auto value = py::take(PyObject_CallNoArgs(token));
  guard(objects::Kind::ABC_TOKEN, nullptr, {}, PyLong_AsLongLong(value.get()));
}

}  // namespace pellucid::trace
