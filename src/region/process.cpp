#include "region/process.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "region/region.h"

namespace pellucid::region {
namespace {

// PyAnySet_Check, which walks the bases of everything else: no other class of C code is one.
bool is_set(PyObject* object) {
  if (PyAnySet_CheckExact(object)) return true;
  return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && PyAnySet_Check(object);
}

std::string_view name_of(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const bool is_descriptor = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
  if (!is_descriptor) return Py_IS_TYPE(callable, &_PyMethodWrapper_Type) ? "a method wrapper" : "";
  PyObject* const name = reinterpret_cast<PyDescrObject*>(callable)->d_name;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<std::size_t>(size));
}

// Asked of a set, each gives the same in any order.
bool asks_no_order(PyObject* callable, PyObject* const* args, std::size_t count, std::string_view name) {
  PyObject* const self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  const bool is_of_set = (self != nullptr && is_set(self)) || (count > 0 && is_set(args[0]));
  if (!is_of_set) return false;
  static constexpr std::array<std::string_view, 13> kNames{
      "add",        "clear", "copy",         "discard", "issubset", "issuperset", "remove",
      "isdisjoint", "len",   "__contains__", "__len__", "update",   "bool",
  };
  return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

bool has_hash_of_every_process(PyObject* key) {
  if (PyLong_CheckExact(key) || PyFloat_CheckExact(key) || PyComplex_CheckExact(key) || PyBool_Check(key)) return true;
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!has_hash_of_every_process(PyTuple_GET_ITEM(key, i))) return false;
    }
    return true;
  }
  if (!PyFrozenSet_CheckExact(key)) return false;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(key, &at, &item, &hash) != 0;) {
    if (!has_hash_of_every_process(item)) return false;
  }
  return true;
}

bool has_order_of_this_process(PyObject* container) {
  if (!is_set(container) || PySet_GET_SIZE(container) < 2) return false;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(container, &at, &item, &hash) != 0;) {
    if (!has_hash_of_every_process(item)) return true;
  }
  return false;
}

void note_order(Region& region, PyObject* container) {
  if (has_order_of_this_process(container)) region.capture->of_this_process = "it looks at the order of a set";
}

LooksAtNoOrder::LooksAtNoOrder(Region& region, PyObject* container)
    : region_(region), before_(region.capture->of_this_process), container_(py::Owned<>::share(container)) {}

LooksAtNoOrder::~LooksAtNoOrder() {
  const char*& now = region_.capture->of_this_process;
  if (now != before_ && is_set(container_.get())) now = before_;
}

void note_call(Region& region, PyObject* callable, PyObject* const* args, std::size_t count, PyObject* result) {
  const std::string_view name = name_of(callable);
  if (name == "__hash__" || name == "hash") {
    if (count != 1 || !has_hash_of_every_process(args[0])) region.capture->of_this_process = "it asks for a hash";
    return;
  }
  if (name == "id") region.capture->of_this_process = "it asks for an address";
  if (asks_no_order(callable, args, count, name) || is_set(result)) return;
  for (std::size_t i = 0; i < count; ++i) note_order(region, args[i]);
}

}  // namespace pellucid::region
