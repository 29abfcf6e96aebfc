// isinstance() and issubclass().
#include <array>

#include "protocols/protocols.h"
#include "py/cpython.h"
#include "region/arrays.h"
#include "region/names.h"

namespace pellucid::protocols {

using K = Continuation::Kind;
namespace {

// torch.FloatTensor and its like: their metaclass looks at dtype, layout and device of the tensor.
bool is_legacy_tensor_type(PyObject* type) {
  static PyObject* const meta = [] {
    auto tensor_type = py::import_attr("torch", "FloatTensor");
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(tensor_type.get())));
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(type)) == meta;
}

bool has_legacy_tensor_type(Interpreter& t, PyObject* tensor, PyObject* type) {
  for (const char* fact : {"dtype", "layout", "is_cuda"}) {
    auto name = py::interned(fact);
    auto wanted = py::take(PyObject_GetAttr(type, name.get()));
    if (getattr(t, tensor, name.get()).value.get() != wanted.get()) return false;
  }
  return true;
}

bool checks_in_python(Interpreter& t, PyObject* type, const char* hook_name) {
  static PyObject* abc_meta = py::import_attr("abc", "ABCMeta").release();
  if (!PyType_Check(type) || Py_TYPE(type) == &PyType_Type) return false;
  PyObject* hook = t.region.lookups.type_lookup(Py_TYPE(type), hook_name);
  if (hook == nullptr || !PyFunction_Check(hook)) return false;
  auto name = py::interned(hook_name);
  return hook != py::type_lookup(reinterpret_cast<PyTypeObject*>(abc_meta), name.get());  // ABCMeta's own only asks C
}

// isinstance() of an object that is no instance by its type asks for `object.__class__`, which may be Python code.
bool class_is_computed(Interpreter& t, PyObject* object, PyObject* type) {
  PyTypeObject* real = Py_TYPE(object);
  if (!PyType_HasFeature(real, Py_TPFLAGS_HEAPTYPE) || cat_of(real) == Cat::Tensor) return false;
  if (PyType_CheckExact(type) && PyType_IsSubtype(real, reinterpret_cast<PyTypeObject*>(type))) return false;
  PyObject* descriptor = t.region.lookups.type_lookup(real, region::names().__class__);
  if (descriptor == nullptr || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return true;
  if (real->tp_getattro == PyObject_GenericGetAttr) return false;
  PyObject* getattribute = t.region.lookups.type_lookup(real, region::names().__getattribute__);
  return getattribute != nullptr && PyFunction_Check(getattribute);
}

void guard_abc(Interpreter& t, PyObject* type) {
  static PyObject* abc_meta = py::import_attr("abc", "ABCMeta").release();
  static PyObject* token = py::import_attr("abc", "get_cache_token").release();
  if (!PyType_Check(type) || !PyType_IsSubtype(Py_TYPE(type), reinterpret_cast<PyTypeObject*>(abc_meta))) return;
  auto value = py::take(PyObject_CallNoArgs(token));
  t.region.provenance.guard(region::Kind::ABC_TOKEN, nullptr, {}, PyLong_AsLongLong(value.get()));
}

// Classes that no builtin iterator is an instance of: those iterators have no base but object.
bool is_no_iterator_type(PyObject* type) {
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) {
      if (!is_no_iterator_type(PyTuple_GET_ITEM(type, i))) return false;
    }
    return true;
  }
  if (!PyType_CheckExact(type)) return false;
  const auto* known = reinterpret_cast<PyTypeObject*>(type);
  return known != &PyBaseObject_Type && known->tp_iternext == nullptr;
}

}  // namespace

// isinstance(object, type) or issubclass(object, type)
Result is_instance(Interpreter& t, PyObject* object, PyObject* type, bool subclass) {
  object = t.region.shadows.original(object);
  if (!subclass && is_polyfill(object)) {
    if (!is_no_iterator_type(type)) unsupported(Reason::Reflection, {{"callee", "isinstance() of a builtin iterator"}});
    return Result::boolean(false);
  }
  const char* hook_name = subclass ? "__subclasscheck__" : "__instancecheck__";
  if (PyTuple_Check(type)) {
    // All native checks first: only a metaclass with Python code needs the polyfill.
    bool python = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i)
      python |=
          checks_in_python(t, PyTuple_GET_ITEM(type, i), hook_name) || is_legacy_tensor_type(PyTuple_GET_ITEM(type, i));
    if (python) {
      PyObject* args[] = {object, type};
      return call_polyfill(t, subclass ? "issubclass_of_any" : "isinstance_of_any", args);
    }
  } else if (!subclass && cat_of(object) == Cat::Tensor && is_legacy_tensor_type(type)) {
    return Result::boolean(has_legacy_tensor_type(t, object, type));
  } else if (checks_in_python(t, type, hook_name)) {
    if (!subclass && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type) return Result::boolean(true);
    PyObject* hook = t.region.lookups.type_lookup(Py_TYPE(type), hook_name);
    return t.and_then(call2(t, hook, type, object), Continuation(K::Bool));
  }
  if (!subclass) object = region::of_same_type(t.region.numbers, object);
  const auto presented = subclass ? py::Owned<>() : region::of_presented_type(object);
  if (presented) object = presented.get();
  if (!PyType_Check(type) && cat_of(type) == Cat::Instance)  // its __bases__ are asked
    unsupported(Reason::UnsupportedProtocol, {{"protocol", hook_name}, {"type", Py_TYPE(type)->tp_name}});
  if (!subclass && class_is_computed(t, object, type)) {
    PyObject* args[] = {object, type};
    return call_polyfill(t, "isinstance_by_class", args);
  }
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) guard_abc(t, PyTuple_GET_ITEM(type, i));
  } else {
    guard_abc(t, type);
  }
  auto* looked_at = subclass && PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  if (reinterpret_cast<PyObject*>(looked_at) != type && cat_of(looked_at) != Cat::Tensor)
    t.region.lookups.guard_mro(looked_at);
  int yes = 0;
  if (!subclass && is_generator(object)) {
    yes = PyObject_IsSubclass(reinterpret_cast<PyObject*>(&PyGen_Type), type);
  } else {
    yes = subclass ? PyObject_IsSubclass(object, type) : PyObject_IsInstance(object, type);
  }
  if (yes < 0) return t.raise_pending(py::PythonError());
  return Result::boolean(yes == 1);
}

}  // namespace pellucid::protocols
