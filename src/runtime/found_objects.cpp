// ObjectReader: the objects of a kept capture as this process has them.
#include <cmath>

#include "guards/equality.h"
#include "py/cpython.h"
#include "py/native_lookup.h"
#include "region/torch_module.h"
#include "region/types.h"
#include "runtime/kept_objects.h"
#include "runtime/kept_places.h"

namespace pellucid::runtime {

using namespace places;  // NOLINT: the words of this file
using region::Cat;

ObjectReader::ObjectReader(ByteReader& in, PyFunctionObject* entry) : entry_(entry) {
  const std::size_t count = in.count();
  rows_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) rows_.push_back(read_row(in, count));
}

ObjectReader::Row ObjectReader::read_row(ByteReader& in, std::size_t count) {
  Row row;
  row.place = static_cast<Place>(in.below(static_cast<std::size_t>(Place::AtSource) + 1));
  const auto read_items = [&] {
    row.has_items = true;
    const std::size_t size = in.count();
    for (std::size_t i = 0; i < size; ++i) row.items.push_back(in.below(count));
  };
  switch (row.place) {
    case Place::Singleton:
      row.index = static_cast<std::int64_t>(in.below(5));
      return row;
    case Place::CoreType:
      row.index = static_cast<std::int64_t>(in.below(64));
      return row;
    case Place::Float:
      row.real = in.real();
      return row;
    case Place::Complex:
      row.real = in.real();
      row.imaginary = in.real();
      return row;
    case Place::Int:
    case Place::Text:
    case Place::Bytes:
    case Place::Device:
      row.name = in.text();
      return row;
    case Place::Tuple:
    case Place::FrozenSet:
    case Place::Slice:
    case Place::Range:
    case Place::Size:
      read_items();
      return row;
    case Place::Entry:
      break;
    case Place::Module:
    case Place::Namespace:
      row.module = in.text();
      break;
    case Place::Named:
      row.module = in.text();
      row.name = in.text();
      break;
    case Place::Part:
      row.part = static_cast<Part>(in.below(static_cast<std::size_t>(Part::Class) + 1));
      row.base = in.below(count);
      row.index = in.signed_number();
      row.name = in.text();
      break;
    case Place::AtSource:
      row.source = static_cast<std::size_t>(in.number());
      break;
  }
  row.type = in.below(count + 1);
  row.globals = in.below(count + 1);
  row.digest = in.text();
  if (in.flag()) read_items();
  if (in.flag()) row.name = in.text();
  return row;
}

py::Owned<> ObjectReader::made(Row& row) {
  const auto item = [&](std::size_t i) { return at(row.items.at(i)); };
  switch (row.place) {
    case Place::Singleton:
      return py::Owned<>::share(singleton_at(static_cast<std::size_t>(row.index)));
    case Place::CoreType: {
      PyTypeObject* const type = core_type(static_cast<std::size_t>(row.index));
      if (type == nullptr) throw Miss{"there is no such class"};
      return py::Owned<>::share(as_object(type));
    }
    case Place::Size: {
      auto list = py::take(PyList_New(0));
      for (std::size_t i = 0; i < row.items.size(); ++i) {
        if (!PyLong_CheckExact(item(i))) throw Miss{"a size is no number"};
        py::check(PyList_Append(list.get(), item(i)));
      }
      auto size = py::Owned<>::steal(PyObject_CallOneArg(as_object(region::torch_size_type()), list.get()));
      if (size) return size;
      PyErr_Clear();
      throw Miss{"a size is none"};
    }
    case Place::Float:
      if (std::isnan(row.real)) throw Miss{"a NaN"};
      return py::take(PyFloat_FromDouble(row.real));
    case Place::Complex:
      if (std::isnan(row.real) || std::isnan(row.imaginary)) throw Miss{"a NaN"};
      return py::take(PyComplex_FromDoubles(row.real, row.imaginary));
    case Place::Int: {
      if (row.name.size() > 4096) throw Miss{"a number is too large"};
      auto number = py::Owned<>::steal(PyLong_FromString(std::string(row.name).c_str(), nullptr, 16));
      if (number) return number;
      PyErr_Clear();
      throw Miss{"a number is none"};
    }
    case Place::Text: {
      auto text =
          py::Owned<>::steal(PyUnicode_DecodeUTF8(row.name.data(), static_cast<Py_ssize_t>(row.name.size()), nullptr));
      if (text) return py::interned(text.get());
      PyErr_Clear();
      throw Miss{"a text is none"};
    }
    case Place::Bytes:
      return py::take(PyBytes_FromStringAndSize(row.name.data(), static_cast<Py_ssize_t>(row.name.size())));
    case Place::Device: {
      auto device =
          py::Owned<>::steal(PyObject_CallFunction(as_object(device_type()), "s", std::string(row.name).c_str()));
      if (device) return device;
      PyErr_Clear();
      throw Miss{"a device is none"};
    }
    case Place::Tuple: {
      auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(row.items.size())));
      for (std::size_t i = 0; i < row.items.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(item(i)));
      return tuple;
    }
    case Place::FrozenSet: {
      auto list = py::take(PyList_New(0));
      for (std::size_t i = 0; i < row.items.size(); ++i) {
        if (!is_kept_by_value(item(i)) && !PyType_Check(item(i))) throw Miss{"a set holds what is no plain value"};
        py::check(PyList_Append(list.get(), item(i)));
      }
      return py::take(PyFrozenSet_New(list.get()));
    }
    case Place::Slice:
      if (row.items.size() != 3) throw Miss{"a slice has three parts"};
      return py::take(PySlice_New(item(0), item(1), item(2)));
    case Place::Range: {
      if (row.items.size() != 3) throw Miss{"a range has three parts"};
      for (std::size_t i = 0; i < 3; ++i) {
        if (!PyLong_CheckExact(item(i))) throw Miss{"a range is of numbers"};
      }
      auto range = py::Owned<>::steal(
          PyObject_CallFunctionObjArgs(as_object(&PyRange_Type), item(0), item(1), item(2), nullptr));
      if (range) return range;
      PyErr_Clear();
      throw Miss{"a range is none"};
    }
    default:
      throw Miss{"no value"};
  }
}

PyObject* ObjectReader::named(const Row& row) const {
  if (row.place == Place::Named) return object_named(row.module, row.name);
  const auto name = py::str(std::string(row.module));
  if (row.place == Place::Namespace) return namespace_named(name.get());
  return module_named(name.get());
}

PyObject* ObjectReader::part(Row& row) {
  PyObject* const base = at(row.base);
  if (row.place == Place::Part && row.part == Part::Class) return as_object(Py_TYPE(base));
  if (PyFunction_Check(base)) {
    auto* const f = reinterpret_cast<PyFunctionObject*>(base);
    switch (row.part) {
      case Part::Code:
        return f->func_code;
      case Part::Defaults:
        return f->func_defaults;
      case Part::KwDefaults:
        return f->func_kwdefaults;
      case Part::Globals:
        return f->func_globals;
      case Part::Builtins:
        return f->func_builtins;
      case Part::Closure:
        return f->func_closure;
      case Part::Cell: {
        const bool is_there =
            f->func_closure != nullptr && row.index >= 0 && row.index < PyTuple_GET_SIZE(f->func_closure);
        return is_there ? PyTuple_GET_ITEM(f->func_closure, row.index) : nullptr;
      }
      default:
        return nullptr;
    }
  }
  if (PyType_Check(base)) {
    auto* const type = reinterpret_cast<PyTypeObject*>(base);
    const auto name = py::str(std::string(row.name));
    PyObject* const members = row.part == Part::Member ? enum_members(base) : nullptr;
    switch (row.part) {
      case Part::ClassDict:
        return type->tp_dict;
      case Part::Mro:
        return type->tp_mro;
      case Part::Bases:
        return type->tp_bases;
      case Part::Lookup:
        return py::type_lookup(type, py::interned(name.get()).get());
      case Part::Member:
        return members == nullptr ? nullptr : PyDict_GetItemWithError(members, name.get());
      default:
        return nullptr;
    }
  }
  if (PyTuple_Check(base)) {
    const bool is_there = row.part == Part::Item && row.index >= 0 && row.index < PyTuple_GET_SIZE(base);
    return is_there ? PyTuple_GET_ITEM(base, row.index) : nullptr;
  }
  if (Py_IS_TYPE(base, &PyProperty_Type)) {
    if (row.part == Part::Getter) return getter_of(base, "fget");
    if (row.part == Part::Setter) return getter_of(base, "fset");
    return row.part == Part::Deleter ? getter_of(base, "fdel") : nullptr;
  }
  if (is_wrapper_of_function(base)) return row.part == Part::Function ? function_in(base) : nullptr;
  if (PyMethod_Check(base)) {
    if (row.part == Part::Function) return PyMethod_GET_FUNCTION(base);
    return row.part == Part::Self ? PyMethod_GET_SELF(base) : nullptr;
  }
  if (Py_IS_TYPE(base, cache_wrapper_type())) return row.part == Part::Wrapped ? wrapped_by_cache(base) : nullptr;
  return nullptr;
}

PyObject* ObjectReader::found(Row& row) {
  switch (row.place) {
    case Place::Entry:
      return reinterpret_cast<PyObject*>(entry_);
    case Place::Module:
    case Place::Namespace:
    case Place::Named:
      return named(row);
    case Place::Part:
      return part(row);
    case Place::AtSource:
      return values_->value_of(row.source);
    default:
      return nullptr;
  }
}

void ObjectReader::check(Row& row, PyObject* object) {
  const auto differs = [&](const char* what) { throw Miss{source::describe(object) + " has another " + what}; };
  const bool is_type_itself = object == as_object(&PyType_Type);
  if (!is_type_itself && (row.type == 0 || as_object(Py_TYPE(object)) != at(row.type - 1))) differs("class");
  if (PyFunction_Check(object)) {
    auto* const f = reinterpret_cast<PyFunctionObject*>(object);
    if (row.digest != code_digest(f->func_code)) differs("code");
    if (row.globals == 0 || at(row.globals - 1) != f->func_globals) differs("namespace");
  } else if (PyType_Check(object)) {
    if (row.digest != class_digest(reinterpret_cast<PyTypeObject*>(object))) differs("definition");
  } else if (PyCode_Check(object)) {
    if (row.digest != code_digest(object)) differs("code");
  } else if (PyTuple_CheckExact(object)) {
    if (!row.has_items || static_cast<std::size_t>(PyTuple_GET_SIZE(object)) != row.items.size()) differs("length");
    for (std::size_t i = 0; i < row.items.size(); ++i)
      (void)same(row.items[i], PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
  } else if (Py_IS_TYPE(object, cache_wrapper_type())) {
    PyObject* const wrapped = wrapped_by_cache(object);
    if (row.items.size() != 1 || wrapped == nullptr || at(row.items[0]) != wrapped) differs("function");
  } else if (PyMethod_Check(object)) {
    if (row.items.size() != 2 || at(row.items[0]) != PyMethod_GET_FUNCTION(object) ||
        at(row.items[1]) != PyMethod_GET_SELF(object))
      differs("function");
  } else if (region::cat_of(object) == Cat::EnumMember) {
    PyObject* const value = py::native_instance_attr(object, py::interned("_value_").get());
    if (row.items.size() != 2 || value == nullptr || at(row.items[0]) != as_object(Py_TYPE(object))) differs("value");
    (void)same(row.items[1], value);
  } else if (PyCFunction_Check(object) && row.place != Place::Named) {
    PyObject* const self = PyCFunction_GET_SELF(object);
    if (self == nullptr || row.items.size() != 1 || at(row.items[0]) != self ||
        row.name != reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name)
      differs("function");
  }
  const bool has_name = PyCFunction_Check(object) || is_c_descriptor(object) || is_atom_of_torch(object);
  if (has_name && row.digest != own_name(object)) differs("name");
}

PyObject* ObjectReader::at(std::size_t id) {
  Row& row = rows_.at(id);
  if (row.object) return row.object.get();
  constexpr int kDeepest = 100;
  if (row.open || depth_ >= kDeepest) throw Miss{"its objects lead in a circle"};
  row.open = true;
  ++depth_;
  if (row.place < Place::Entry) {
    row.object = made(row);
  } else {
    PyObject* const object = found(row);
    if (object == nullptr) {
      throw Miss{row.place == Place::AtSource || row.place == Place::Part
                     ? "an object is not there"
                     : "there is no " + std::string(row.module) + "." + std::string(row.name)};
    }
    auto held = py::Owned<>::share(object);
    // Before the check: what is checked of it may lead back to it.
    row.object = held.copy();
    if (!by_object_.emplace(object, id).second) throw Miss{"two objects of the capture are one here"};
    check(row, object);
  }
  row.open = false;
  --depth_;
  return row.object.get();
}

PyObject* ObjectReader::same(std::size_t id, PyObject* found) {
  PyObject* const expected = at(id);
  if (expected == found) return found;
  const bool is_equal = found != nullptr && is_value(id) && Py_TYPE(expected) == Py_TYPE(found) &&
                        guards::equal_constants(expected, found);
  if (!is_equal) throw Miss{"something else is where " + source::describe(expected) + " was"};
  return found;
}

void ObjectReader::check_all() {
  for (std::size_t i = 0; i < rows_.size(); ++i) (void)at(i);
}

}  // namespace pellucid::runtime
