// Digests of code and classes, and what objects are compared by value.
#include <Python.h>

#include <algorithm>
#include <unordered_map>

#include "base/digest.h"
#include "guards/equality.h"
#include "py/code_bytes.h"
#include "py/cpython.h"
#include "region/types.h"
#include "runtime/kept_objects.h"

namespace pellucid::runtime {
namespace {

std::string text_in(PyObject* dict, const char* name) {
  PyObject* const found = dict == nullptr ? nullptr : PyDict_GetItemString(dict, name);
  return found != nullptr && PyUnicode_Check(found) ? py::text_of(found) : std::string();
}

}  // namespace

std::string code_digest(PyObject* code) {
  std::string bytes;
  py::add_code_bytes(bytes, code);
  return digest(bytes);
}

std::string class_digest(PyTypeObject* type) {
  std::string text;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    text.append(text_in(base->tp_dict, "__module__")).append(".").append(base->tp_name).append(":");
    text.append(Py_TYPE(base)->tp_name).append(":").append(std::to_string(base->tp_basicsize));
    if (!region::is_mutable_class(base)) continue;
    std::vector<std::string> special;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &key, &value) != 0;) {
      const bool may_be_special = PyUnicode_Check(key) && PyUnicode_GET_LENGTH(key) > 4 &&
                                  PyUnicode_READ_CHAR(key, 0) == '_' && PyUnicode_READ_CHAR(key, 1) == '_';
      if (!may_be_special) continue;
      std::string name = py::text_of(key);
      // What is written there while a program runs says nothing of the class.
      const bool is_special = name.starts_with("__") && name.ends_with("__") && name != "__annotations__" &&
                              name != "__doc__" && name != "__abstractmethods__";
      if (is_special) special.push_back(std::move(name));
    }
    std::ranges::sort(special);
    for (const std::string& name : special) text.append(" ").append(name);
    text.append(";");
  }
  return digest(text);
}

bool is_kept_by_value(PyObject* object) {
  const region::Cat cat = region::cat_of(object);
  return cat == region::Cat::Singleton || cat == region::Cat::Number || cat == region::Cat::Text ||
         cat == region::Cat::Range;
}

}  // namespace pellucid::runtime
