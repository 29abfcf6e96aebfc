#include "runtime/kept_places.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "aten/aten.h"
#include "py/cpython.h"
#include "py/native_lookup.h"
#include "py/ref.h"
#include "region/types.h"

namespace pellucid::runtime::places {

using region::Cat;
PyObject* modules() { return PyImport_GetModuleDict(); }

PyObject* singleton_at(std::size_t i) {
  const std::array<PyObject*, 5> all = {Py_None, Py_True, Py_False, Py_Ellipsis, Py_NotImplemented};
  return all[i];
}

PyTypeObject* core_type(std::size_t i) {
  PyTypeObject* const all[] = {
      &PyDictKeys_Type,    &PyDictValues_Type,       &PyDictItems_Type,     &PyODictKeys_Type,
      &PyODictValues_Type, &PyODictItems_Type,       &PyListIter_Type,      &PyTupleIter_Type,
      &PyRangeIter_Type,   &PyDictIterKey_Type,      &PyDictIterValue_Type, &PyDictIterItem_Type,
      &PySetIter_Type,     &PyODictIter_Type,        &PyUnicodeIter_Type,   &PyFunction_Type,
      &PyCFunction_Type,   &PyMethodDescr_Type,      &PyWrapperDescr_Type,  &PyGetSetDescr_Type,
      &PyMemberDescr_Type, &PyClassMethodDescr_Type, &PyCell_Type,          &PyCode_Type,
      &PyMethod_Type,      &_PyMethodWrapper_Type,   &PyModule_Type,        &PyDictProxy_Type,
      &PyGen_Type,         Py_TYPE(Py_None),         Py_TYPE(Py_Ellipsis),  Py_TYPE(Py_NotImplemented),
      &PyODict_Type};
  return i < std::size(all) ? all[i] : nullptr;
}

namespace {
PyTypeObject* type_named(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(py::import_attr(module, name).release());
}
}  // namespace
PyTypeObject* device_type() {
  static PyTypeObject* const type = type_named("torch", "device");
  return type;
}
PyTypeObject* cache_wrapper_type() {
  static PyTypeObject* const type = type_named("functools", "_lru_cache_wrapper");
  return type;
}

bool is_atom_of_torch(PyObject* object) {
  return region::cat_of(object) == Cat::TorchAtom && !Py_IS_TYPE(object, device_type());
}

namespace {

// Those of torch itself; what a library has registered may be another operator in each process.
constexpr std::string_view kOperators[] = {"torch.ops.aten", "torch.ops.profiler"};

bool is_of_operators(std::string_view module) { return std::ranges::find(kOperators, module) != std::end(kOperators); }

// torch.ops makes its namespaces, and these their operators and overloads, when they are asked for first. Each holds
// what it has made.
py::Owned<> space_of_operators(std::string_view module) {
  static PyObject* const all = py::import_attr("torch", "ops").release();
  const std::string name(module.substr(std::string_view("torch.ops.").size()));
  auto found = py::Owned<>::steal(PyObject_GetAttrString(all, name.c_str()));
  if (!found) PyErr_Clear();
  return found;
}

}  // namespace

PyObject* module_named(PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(modules(), name);
  if (found == nullptr && is_of_operators(py::text_of(name))) found = space_of_operators(py::text_of(name)).get();
  return found != nullptr && PyModule_Check(found) ? found : nullptr;
}

PyObject* namespace_named(PyObject* name) {
  PyObject* const module = module_named(name);
  return module == nullptr ? nullptr : PyModule_GetDict(module);
}

PyObject* entry_named(PyObject* space, std::string_view name) {
  const auto text = py::str(std::string(name));
  return py::native_dict_get(space, text.get());
}

namespace {

PyObject* operator_named(std::string_view module, std::string_view name) {
  auto at = space_of_operators(module);
  const std::string path(name);
  for (std::size_t start = 0; at && start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    at = py::Owned<>::steal(PyObject_GetAttrString(at.get(), path.substr(start, dot - start).c_str()));
    start = dot + 1;
  }
  if (!at) PyErr_Clear();
  return operator_name(at.get()).empty() ? nullptr : at.get();
}

// What it calls itself: namespace::name, and the name of an overload that has one.
std::string name_in_torch(PyObject* object) {
  static PyTypeObject* const packet = type_named("torch._ops", "OpOverloadPacket");
  static PyTypeObject* const overload = type_named("torch._ops", "OpOverload");
  static PyTypeObject* const of_objects = type_named("torch._ops", "TorchBindOpOverload");
  if (object == nullptr) return "";
  const bool is_packet = Py_IS_TYPE(object, packet);
  if (!is_packet && !Py_IS_TYPE(object, overload) && !Py_IS_TYPE(object, of_objects)) return "";
  PyObject* const found =
      py::native_instance_attr(object, py::interned(is_packet ? "_qualified_op_name" : "_name").get());
  std::string name = found == nullptr ? "" : py::text_of(found);
  if (!is_packet && name.find('.') == std::string::npos) name += ".default";
  return name;
}

}  // namespace

std::string operator_name(PyObject* object) {
  std::string name = name_in_torch(object);
  const std::size_t colons = name.find("::");
  if (colons == std::string::npos) return "";
  const std::string space = "torch.ops." + name.substr(0, colons);
  return is_of_operators(space) ? space + "." + name.substr(colons + 2) : "";
}

PyObject* object_named(std::string_view module, std::string_view name) {
  if (is_of_operators(module)) return operator_named(module, name);
  PyObject* const space = namespace_named(py::str(std::string(module)).get());
  if (space == nullptr) return nullptr;
  PyObject* at = nullptr;
  for (PyObject* dict = space; dict != nullptr;) {
    const std::size_t dot = name.find('.');
    at = entry_named(dict, name.substr(0, dot));
    if (at == nullptr || dot == std::string_view::npos) return at;
    name.remove_prefix(dot + 1);
    dict = PyType_Check(at) ? reinterpret_cast<PyTypeObject*>(at)->tp_dict : nullptr;
  }
  return nullptr;
}

PyObject* getter_of(PyObject* property, const char* name) {
  auto found = py::Owned<>::steal(PyObject_GetAttrString(property, name));
  if (!found) PyErr_Clear();
  return found.get();  // the property holds it
}

PyObject* function_in(PyObject* wrapper) { return getter_of(wrapper, "__func__"); }

PyObject* wrapped_by_cache(PyObject* wrapper) {
  PyObject* const dict = py::instance_dict_now(wrapper);
  return dict == nullptr ? nullptr : PyDict_GetItemString(dict, "__wrapped__");
}

PyObject* enum_members(PyObject* type) {
  PyObject* const found = PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict, "_member_map_");
  return found != nullptr && PyDict_Check(found) ? found : nullptr;
}

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

bool is_c_descriptor(PyObject* object) {
  const PyTypeObject* const kind = Py_TYPE(object);
  return kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyGetSetDescr_Type ||
         kind == &PyMemberDescr_Type || kind == &PyClassMethodDescr_Type;
}

bool is_wrapper_of_function(PyObject* object) {
  return Py_IS_TYPE(object, &PyStaticMethod_Type) || Py_IS_TYPE(object, &PyClassMethod_Type);
}

std::string own_name(PyObject* object) {
  if (PyCFunction_Check(object)) {
    const auto* const f = reinterpret_cast<PyCFunctionObject*>(object);
    PyObject* const self = f->m_self;
    std::string text = f->m_ml->ml_name;
    text.append(" of ").append(f->m_module == nullptr ? "" : py::text_of(f->m_module));
    text.append(" of ").append(self == nullptr ? "" : Py_TYPE(self)->tp_name);
    if (self != nullptr && PyType_Check(self)) text.append(" ").append(reinterpret_cast<PyTypeObject*>(self)->tp_name);
    return text;
  }
  if (is_c_descriptor(object))
    return py::text_of(PyDescr_NAME(object)) + " of " + (PyDescr_TYPE(object)->tp_name + std::string());
  if (is_atom_of_torch(object)) return py::repr_of(object);
  return "";
}

}  // namespace pellucid::runtime::places
