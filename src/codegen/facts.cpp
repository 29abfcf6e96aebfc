#include "codegen/facts.h"

#include <structmember.h>

#include <cmath>
#include <cstring>
#include <string>
#include <unordered_set>

#include "region/number.h"
#include "region/torch_module.h"

namespace pellucid::codegen {
namespace {

PyTypeObject* type_of(py::Owned<> object) {
  return reinterpret_cast<PyTypeObject*>(object.release());
}  // kept for the process

bool is_c_slot(PyObject* found) { return found != nullptr && Py_TYPE(found) == &PyWrapperDescr_Type; }

// A type attribute of an already imported module, or null. Never imports.
PyTypeObject* imported_type(const char* module, const char* name) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  if (found == nullptr || !PyModule_Check(found)) return nullptr;
  PyObject* type = PyDict_GetItemString(PyModule_GetDict(found), name);
  return type != nullptr && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}

bool is_instance_of(PyObject* object, const char* module, const char* name) {
  PyTypeObject* type = imported_type(module, name);
  return type != nullptr && PyObject_TypeCheck(object, type);
}

// Types whose instances are what they are by identity or are immutable; matched exactly.
bool has_constant_type(PyObject* object) {
  struct Name {
    const char *module, *name;
  };
  static constexpr Name kNames[] = {
      {"torch", "dtype"},
      {"torch", "device"},
      {"torch", "layout"},
      {"torch", "memory_format"},
      {"torch", "qscheme"},
      {"torch", "finfo"},
      {"torch", "iinfo"},
      {"torch._ops", "OpOverload"},
      {"torch._ops", "OpOverloadPacket"},
      {"re", "Pattern"},
      {"types", "GenericAlias"},
      {"types", "UnionType"},
      {"collections.abc", "_CallableGenericAlias"},
      {"typing", "TypeVar"},
      {"typing", "ParamSpec"},
      {"typing", "_GenericAlias"},
      {"typing", "_SpecialForm"},
      {"typing", "_UnionGenericAlias"},
      {"typing", "_CallableGenericAlias"},
      {"typing", "_SpecialGenericAlias"},
      {"datetime", "date"},
      {"datetime", "datetime"},
      {"datetime", "timedelta"},
      {"datetime", "time"},
      {"decimal", "Decimal"},
  };
  PyTypeObject* type = Py_TYPE(object);
  for (const Name& row : kNames) {
    if (std::strcmp(row.name, _PyType_Name(type)) == 0 && imported_type(row.module, row.name) == type) return true;
  }
  return is_instance_of(object, "numpy", "generic") || is_instance_of(object, "numpy", "dtype");
}

bool is_builtin_by_identity(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return self == nullptr || PyModule_Check(self) || PyType_Check(self);
}

bool is_descriptor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
         type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type;
}

bool is_enum_member(PyObject* object) {
  PyTypeObject* meta = imported_type("enum", "EnumType");
  return meta != nullptr && PyObject_TypeCheck(reinterpret_cast<PyObject*>(Py_TYPE(object)), meta);
}

bool is_number_or_text(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
         object == Py_Ellipsis;
}

template <class Test>
bool all_items(PyObject* tuple, Test&& test) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (!test(PyTuple_GET_ITEM(tuple, i))) return false;
  }
  return true;
}

constexpr int kMaxConstantDepth = 20;

bool is_constant_below(PyObject* object, const Varies& varies, int depth) {
  if (varies && varies(object)) return false;
  if (is_number_or_text(object) || object == Py_NotImplemented || PyCode_Check(object) || PyModule_Check(object)) {
    return true;
  }
  if (PyType_Check(object)) return !is_local_class(object);
  if (depth > kMaxConstantDepth) return false;
  if (PyTuple_CheckExact(object) || Py_TYPE(object) == region::torch_size_type()) {
    return all_items(object, [&](PyObject* item) { return is_constant_below(item, varies, depth + 1); });
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_constant_below(slice->start, varies, depth + 1) && is_constant_below(slice->stop, varies, depth + 1) &&
           is_constant_below(slice->step, varies, depth + 1);
  }
  if (PyRange_Check(object)) return true;
  if (PyFrozenSet_CheckExact(object)) {
    for (PyObject* item : set_items(object)) {
      if (!is_constant_below(item, varies, depth + 1)) return false;
    }
    return true;
  }
  return is_builtin_by_identity(object) || is_descriptor(object) || is_enum_member(object) || has_constant_type(object);
}

bool has_c_hash_below(PyObject* key, int depth) {
  if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || region::is_number(key)) return true;
  if (depth > kMaxConstantDepth) return false;
  if (is_enum_member(key) || is_instance_of(key, "torch", "Tensor")) return true;  // Python code, but pure and known
  PyTypeObject* type = Py_TYPE(key);
  if (PyTuple_Check(key) && is_c_slot(lookup(type, "__hash__"))) {
    return all_items(key, [&](PyObject* item) { return has_c_hash_below(item, depth + 1); });
  }
  return is_c_slot(lookup(type, "__hash__"));
}

}  // namespace

PyObject* lookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }
PyObject* lookup(PyTypeObject* type, const char* name) { return _PyType_Lookup(type, py::interned(name).get()); }

bool has_plain_setattr(PyTypeObject* type) {
  return is_c_slot(lookup(type, "__setattr__")) && is_c_slot(lookup(type, "__delattr__"));
}
bool has_plain_getattr(PyTypeObject* type) { return is_c_slot(lookup(type, "__getattribute__")); }

bool has_data_descriptor(PyTypeObject* type, PyObject* name) {
  PyObject* found = lookup(type, name);
  return found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr;
}

bool has_c_hash(PyObject* key) { return has_c_hash_below(key, 0); }

bool is_python_class(PyTypeObject* type) {
  // Every class statement gets CPython's own deallocator for heap types, whose address is not exported.
  static const destructor kOfClassStatement = type_of(py::import_attr("enum", "Enum"))->tp_dealloc;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_dealloc == kOfClassStatement;
}

PyTypeObject* native_base(PyTypeObject* type) {
  while (is_python_class(type)) type = type->tp_base;
  return type;
}

bool is_local_class(PyObject* object) {
  if (!PyType_Check(object) || !is_python_class(reinterpret_cast<PyTypeObject*>(object))) return false;
  const std::string path = py::text_of(reinterpret_cast<PyHeapTypeObject*>(object)->ht_qualname);
  return path.find("<locals>") != std::string::npos;
}

bool is_constant(PyObject* object, const Varies& varies) { return is_constant_below(object, varies, 0); }

bool is_nan(PyObject* object) {
  if (PyFloat_CheckExact(object)) return std::isnan(PyFloat_AS_DOUBLE(object));
  if (!PyComplex_CheckExact(object)) return false;
  const Py_complex value = reinterpret_cast<PyComplexObject*>(object)->cval;
  return std::isnan(value.real) || std::isnan(value.imag);
}

bool is_literal(PyObject* object) {
  if (is_number_or_text(object) || PyCode_Check(object)) return true;
  return PyTuple_CheckExact(object) && is_constant(object) && all_items(object, is_literal);
}

bool is_singleton(PyObject* object) {
  if (object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (PyUnicode_CheckExact(object)) return PyUnicode_CHECK_INTERNED(object) != 0;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(object, &overflow);
  return overflow == 0 && value >= -5 && value <= 256;
}

bool is_importable(PyObject* function) {
  auto* made = reinterpret_cast<PyFunctionObject*>(function);
  const std::string path = py::text_of(made->func_qualname);
  if (path.empty() || path.find('<') != std::string::npos) return false;
  PyObject* scope = made->func_globals;
  PyObject* found = nullptr;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    auto name = py::str(path.substr(start, dot - start));
    found = PyDict_Check(scope) ? PyDict_GetItemWithError(scope, name.get()) : nullptr;
    if (found == nullptr) return PyErr_Clear(), false;
    scope = PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found)->tp_dict : found;
    start = dot + 1;
  }
  return found == function;
}

PyTypeObject* ordered_dict_type() { return &PyODict_Type; }
PyTypeObject* default_dict_type() {
  static PyTypeObject* const type = type_of(py::import_attr("collections", "defaultdict"));
  return type;
}
PyTypeObject* deque_type() {
  static PyTypeObject* const type = type_of(py::import_attr("collections", "deque"));
  return type;
}
PyTypeObject* partial_type() {
  static PyTypeObject* const type = type_of(py::import_attr("functools", "partial"));
  return type;
}
PyTypeObject* simple_namespace_type() {
  static PyTypeObject* const type = type_of(py::import_attr("types", "SimpleNamespace"));
  return type;
}

Pairs dict_items(PyObject* dict) {
  Pairs pairs;
  if (PyObject_TypeCheck(dict, &PyODict_Type)) {  // its order is not the order of the underlying dict
    auto keys = py::take(PyODict_Type.tp_iter(dict));
    while (auto key = py::Owned<>::steal(PyIter_Next(keys.get()))) {
      pairs.emplace_back(key.get(), PyDict_GetItemWithError(dict, key.get()));
    }
    if (PyErr_Occurred() != nullptr) py::throw_pending();
    return pairs;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value) != 0) pairs.emplace_back(key, value);
  return pairs;
}

std::vector<PyObject*> list_items(PyObject* sequence) {
  PyObject** first = PySequence_Fast_ITEMS(sequence);
  return {first, first + PySequence_Fast_GET_SIZE(sequence)};
}

std::vector<PyObject*> set_items(PyObject* set) {
  std::vector<PyObject*> items;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &position, &key, &hash) != 0) items.push_back(key);
  return items;
}

std::vector<PyObject*> deque_items(PyObject* deque) {
  std::vector<PyObject*> items;
  auto iterator = py::take(deque_type()->tp_iter(deque));
  while (auto item = py::Owned<>::steal(PyIter_Next(iterator.get())))
    items.push_back(item.get());  // the deque holds them
  if (PyErr_Occurred() != nullptr) py::throw_pending();
  return items;
}

}  // namespace pellucid::codegen
