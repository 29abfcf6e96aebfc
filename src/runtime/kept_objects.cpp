#include "runtime/kept_objects.h"

#include <cmath>

#include "py/cpython.h"
#include "py/native_lookup.h"
#include "region/torch_module.h"
#include "region/types.h"
#include "runtime/kept_places.h"

namespace pellucid::runtime {

using namespace places;  // NOLINT: the words of this file
using region::Cat;

namespace {

// Of these the type is all that can be relied on without a guard.
bool may_be_known_by_type(PyObject* object) {
  switch (region::cat_of(object)) {
    case Cat::List:
    case Cat::Dict:
    case Cat::Set:
    case Cat::Deque:
    case Cat::Cell:
    case Cat::Instance:
    case Cat::Builtin:
      return true;
    default:
      return Py_IS_TYPE(object, &PyProperty_Type) || is_wrapper_of_function(object);
  }
}

}  // namespace

ObjectWriter::ObjectWriter(PyFunctionObject* entry) : entry_(entry) { need(reinterpret_cast<PyObject*>(entry)); }

std::uint32_t ObjectWriter::id(PyObject* object) {
  if (solved_) return ids_.at(object);
  need(object);
  return 0;
}

void ObjectWriter::need(PyObject* object) {
  if (!known_.insert(object).second) return;
  held_.push_back(py::Owned<>::share(object));
  needed_.push_back(object);
}

void ObjectWriter::note_part(PyObject* base, Part part, PyObject* object, std::int64_t index, PyObject* name) {
  if (object == nullptr) return;
  Candidate candidate;
  candidate.part = part;
  candidate.base = base;
  candidate.index = index;
  candidate.name = py::Owned<>::share(name);
  held_.push_back(py::Owned<>::share(object));
  candidates_[object].push_back(std::move(candidate));
}

void ObjectWriter::note_lookup(PyObject* type, PyObject* name, PyObject* found) {
  if (!solved_) note_part(type, Part::Lookup, found, 0, name);
}

void ObjectWriter::note_source(PyObject* object, const source::Source* source) {
  if (solved_ || object == nullptr) return;
  Candidate candidate;
  candidate.place = Place::AtSource;
  candidate.source = source;
  held_.push_back(py::Owned<>::share(object));
  candidates_[object].push_back(std::move(candidate));
}

void ObjectWriter::note_parts(PyObject* object) {
  if (PyFunction_Check(object)) {
    auto* const f = reinterpret_cast<PyFunctionObject*>(object);
    note_part(object, Part::Code, f->func_code);
    note_part(object, Part::Defaults, f->func_defaults);
    note_part(object, Part::KwDefaults, f->func_kwdefaults);
    note_part(object, Part::Globals, f->func_globals);
    note_part(object, Part::Builtins, f->func_builtins);
    note_part(object, Part::Closure, f->func_closure);
    for (Py_ssize_t i = 0; f->func_closure != nullptr && i < PyTuple_GET_SIZE(f->func_closure); ++i)
      note_part(object, Part::Cell, PyTuple_GET_ITEM(f->func_closure, i), i);
  } else if (PyType_Check(object)) {
    auto* const type = reinterpret_cast<PyTypeObject*>(object);
    note_part(object, Part::ClassDict, type->tp_dict);
    note_part(object, Part::Mro, type->tp_mro);
    note_part(object, Part::Bases, type->tp_bases);
    note_part(object, Part::Class, as_object(Py_TYPE(object)));
    if (PyObject* const members = enum_members(object)) {
      PyObject *name = nullptr, *member = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(members, &at, &name, &member) != 0;)
        note_part(object, Part::Member, member, 0, name);
    }
  } else if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      note_part(object, Part::Item, PyTuple_GET_ITEM(object, i), i);
  } else if (Py_IS_TYPE(object, &PyProperty_Type)) {
    note_part(object, Part::Getter, getter_of(object, "fget"));
    note_part(object, Part::Setter, getter_of(object, "fset"));
    note_part(object, Part::Deleter, getter_of(object, "fdel"));
  } else if (is_wrapper_of_function(object)) {
    note_part(object, Part::Function, function_in(object));
  } else if (PyMethod_Check(object)) {
    note_part(object, Part::Function, PyMethod_GET_FUNCTION(object));
    note_part(object, Part::Self, PyMethod_GET_SELF(object));
  } else if (Py_IS_TYPE(object, cache_wrapper_type())) {
    note_part(object, Part::Wrapped, wrapped_by_cache(object));
  } else if (region::cat_of(object) == Cat::Instance) {
    note_part(object, Part::Class, as_object(Py_TYPE(object)));
  }
}

bool ObjectWriter::is_ready(const source::Source* source) const {
  for (const source::Source* s = source; s != nullptr; s = s->base) {
    const bool has_object = s->step == source::Step::Const || s->step == source::Step::DictItem;
    if (!has_object) continue;
    PyObject* const operand = s->operand.get();
    if (!ids_.contains(operand) && !is_kept_by_value(operand)) return false;
  }
  return true;
}

bool ObjectWriter::is_ready(const Candidate& candidate) const {
  return candidate.place == Place::AtSource ? is_ready(candidate.source) : ids_.contains(candidate.base);
}

void ObjectWriter::add(Row row) {
  ids_.emplace(row.object, static_cast<std::uint32_t>(rows_.size()));
  PyObject* const object = row.object;
  for (PyObject* item : row.items) need(item);
  if (row.type != nullptr) need(row.type);
  if (row.globals != nullptr) need(row.globals);
  if (row.at.source != nullptr) {
    used_.push_back(row.at.source);
    for (const source::Source* s = row.at.source; s != nullptr; s = s->base) {
      if (s->step == source::Step::Const || s->step == source::Step::DictItem) need(s->operand.get());
    }
  }
  const bool is_located = row.at.place >= Place::Entry;
  rows_.push_back(std::move(row));
  if (is_located) note_parts(object);
}

bool ObjectWriter::locate_value(PyObject* object) {
  Row row;
  row.object = object;
  for (std::size_t i = 0; i < 5; ++i) {
    if (object != singleton_at(i)) continue;
    row.at.place = Place::Singleton;
    row.at.index = static_cast<std::int64_t>(i);
    add(std::move(row));
    return true;
  }
  for (std::size_t i = 0; core_type(i) != nullptr; ++i) {
    if (object != as_object(core_type(i))) continue;
    row.at.place = Place::CoreType;
    row.at.index = static_cast<std::int64_t>(i);
    add(std::move(row));
    return true;
  }
  if (Py_IS_TYPE(object, region::torch_size_type())) {
    row.at.place = Place::Size;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) row.items.push_back(PyTuple_GET_ITEM(object, i));
  } else if (PyLong_CheckExact(object)) {
    row.at.place = Place::Int;
    row.name = py::text_of(py::take(_PyLong_Format(object, 16)).get());
    if (row.name.size() > 4096) refuse(object);
  } else if (PyFloat_CheckExact(object)) {
    row.at.place = Place::Float;
    // A NaN is known by its identity.
    if (std::isnan(PyFloat_AS_DOUBLE(object))) refuse(object);
  } else if (PyComplex_CheckExact(object)) {
    row.at.place = Place::Complex;
    const Py_complex value = PyComplex_AsCComplex(object);
    if (std::isnan(value.real) || std::isnan(value.imag)) refuse(object);
  } else if (PyUnicode_CheckExact(object)) {
    row.at.place = Place::Text;
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) {
      PyErr_Clear();
      refuse(object);  // lone surrogates
    }
    row.name.assign(text, static_cast<std::size_t>(size));
  } else if (PyBytes_CheckExact(object)) {
    row.at.place = Place::Bytes;
    row.name.assign(PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object)));
  } else if (Py_IS_TYPE(object, device_type())) {
    row.at.place = Place::Device;
    row.name = py::text_of(py::take(PyObject_Str(object)).get());
  } else if (PySlice_Check(object)) {
    row.at.place = Place::Slice;
    auto* const slice = reinterpret_cast<PySliceObject*>(object);
    row.items = {slice->start, slice->stop, slice->step};
  } else if (PyRange_Check(object)) {
    row.at.place = Place::Range;
    for (const char* name : {"start", "stop", "step"}) {
      held_.push_back(py::take(PyObject_GetAttrString(object, name)));
      row.items.push_back(held_.back().get());
    }
  } else if (PyFrozenSet_CheckExact(object)) {
    row.at.place = Place::FrozenSet;
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    for (Py_ssize_t at = 0; _PySet_NextEntry(object, &at, &item, &hash) != 0;) row.items.push_back(item);
  } else {
    return false;
  }
  add(std::move(row));
  return true;
}

bool ObjectWriter::locate_named(PyObject* object, Row& row) {
  const auto is_it = [&](std::string module, std::string name) {
    if (module.empty() || name.empty() || object_named(module, name) != object) return false;
    row.at.place = Place::Named;
    row.module = std::move(module);
    row.name = std::move(name);
    return true;
  };
  if (PyModule_Check(object)) {
    PyObject* const name = PyDict_GetItemString(PyModule_GetDict(object), "__name__");
    if (name == nullptr || !PyUnicode_Check(name) || module_named(name) != object) return false;
    row.at.place = Place::Module;
    row.module = py::text_of(name);
    return true;
  }
  if (PyDict_CheckExact(object)) {
    if (object == modules()) return is_it("sys", "modules");
    PyObject* const name = PyDict_GetItemString(object, "__name__");
    if (name == nullptr || !PyUnicode_Check(name) || namespace_named(name) != object) return false;
    row.at.place = Place::Namespace;
    row.module = py::text_of(name);
    return true;
  }
  if (PyType_Check(object)) {
    auto* const type = reinterpret_cast<PyTypeObject*>(object);
    const auto name = py::take(PyType_GetQualName(type));
    PyObject* const module = PyDict_GetItemString(type->tp_dict, "__module__");
    const bool is_heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    const std::string full = type->tp_name;
    const std::size_t dot = full.rfind('.');
    std::string of = is_heap ? py::text_of(module) : dot == std::string::npos ? "builtins" : full.substr(0, dot);
    if (is_it(of, py::text_of(name.get()))) return true;
    return false;
  }
  if (PyFunction_Check(object)) {
    auto* const f = reinterpret_cast<PyFunctionObject*>(object);
    const std::string module = py::text_of(f->func_module);
    return is_it(module, py::text_of(f->func_qualname)) || is_it(module, py::text_of(f->func_name));
  }
  if (PyCFunction_Check(object)) {
    const std::string name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
    PyObject* const module = reinterpret_cast<PyCFunctionObject*>(object)->m_module;
    if (module != nullptr && PyUnicode_Check(module) && is_it(py::text_of(module), name)) return true;
    for (const char* other : {"torch", "torch._C", "torch._C._nn", "torch._C._special", "torch._C._linalg",
                              "torch._C._fft", "torch._VF", "builtins", "_operator", "math"}) {
      if (is_it(other, name)) return true;
    }
    PyObject* const self = PyCFunction_GET_SELF(object);
    if (self == nullptr || !PyType_Check(self)) return false;
    const auto qualified = py::take(PyType_GetQualName(reinterpret_cast<PyTypeObject*>(self)));
    PyObject* const of = PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(self)->tp_dict, "__module__");
    return is_it(of == nullptr ? "builtins" : py::text_of(of), py::text_of(qualified.get()) + "." + name);
  }
  if (const std::string name = operator_name(object); !name.empty()) {
    const std::size_t dot = name.find('.', std::string_view("torch.ops.").size());
    return is_it(name.substr(0, dot), name.substr(dot + 1));
  }
  if (is_atom_of_torch(object)) {
    const std::string text = py::repr_of(object);
    return text.starts_with("torch.") && is_it("torch", text.substr(6));
  }
  if (Py_IS_TYPE(object, cache_wrapper_type())) {
    PyObject* const dict = py::instance_dict_now(object);
    if (dict == nullptr) return false;
    return is_it(py::text_of(PyDict_GetItemString(dict, "__module__")),
                 py::text_of(PyDict_GetItemString(dict, "__qualname__")));
  }
  return false;
}

bool ObjectWriter::locate(PyObject* object) {
  if (object == reinterpret_cast<PyObject*>(entry_)) {
    Row row;
    row.object = object;
    row.at.place = Place::Entry;
    row.type = as_object(&PyFunction_Type);
    row.digest = code_digest(entry_->func_code);
    row.globals = entry_->func_globals;
    add(std::move(row));
    return true;
  }
  const bool is_tuple = PyTuple_CheckExact(object);
  if (!is_tuple && locate_value(object)) return true;
  Row row;
  row.object = object;
  // C descriptors stand in the dict of their class.
  PyTypeObject* const kind = Py_TYPE(object);
  const bool is_descriptor = is_c_descriptor(object);
  if (region::cat_of(object) == Cat::EnumMember) need(as_object(kind));  // it is a part of its class
  bool is_located = !is_tuple && !is_descriptor && locate_named(object, row);
  if (is_descriptor) {
    PyTypeObject* const owner = PyDescr_TYPE(object);
    PyObject* const name = PyDescr_NAME(object);
    PyObject* const there = owner->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(owner->tp_dict, name);
    if (there == object && py::type_lookup(owner, name) == object) {
      need(as_object(owner));
      if (ids_.contains(as_object(owner))) {
        row.at.part = Part::Lookup;
        row.at.base = as_object(owner);
        row.at.name = py::Owned<>::share(name);
        is_located = true;
      }
    }
  }
  if (!is_located) {
    const auto found = candidates_.find(object);
    if (found != candidates_.end()) {
      for (Candidate& candidate : found->second) {
        if (!is_ready(candidate)) continue;
        row.at.place = candidate.place;
        row.at.part = candidate.part;
        row.at.base = candidate.base;
        row.at.index = candidate.index;
        row.at.name = candidate.name.copy();
        row.at.source = candidate.source;
        is_located = true;
        break;
      }
    }
  }
  if (is_tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) row.items.push_back(PyTuple_GET_ITEM(object, i));
    if (!is_located) {
      // Nobody holds it that could be found: it is what its items are. It waits for a place of its own until there is
      // nothing else to do.
      return false;
    }
    row.type = as_object(&PyTuple_Type);
    add(std::move(row));
    return true;
  }
  if (!is_located) return false;
  if (PyFunction_Check(object)) {
    auto* const f = reinterpret_cast<PyFunctionObject*>(object);
    row.digest = code_digest(f->func_code);
    row.globals = f->func_globals;
  } else if (PyType_Check(object)) {
    row.digest = class_digest(reinterpret_cast<PyTypeObject*>(object));
  } else if (PyCode_Check(object)) {
    row.digest = code_digest(object);
  } else if (Py_IS_TYPE(object, cache_wrapper_type())) {
    PyObject* const wrapped = wrapped_by_cache(object);
    if (wrapped == nullptr) return false;
    row.items.push_back(wrapped);
  } else if (PyMethod_Check(object)) {
    row.items = {PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)};
  } else if (region::cat_of(object) == Cat::EnumMember) {
    row.items.push_back(as_object(Py_TYPE(object)));
    PyObject* const value = py::native_instance_attr(object, py::interned("_value_").get());
    if (value == nullptr) return false;
    row.items.push_back(value);
  } else if (!PyModule_Check(object) && !is_atom_of_torch(object)) {
    if (!may_be_known_by_type(object)) refuse(object);
    if (PyCFunction_Check(object) && row.at.place != Place::Named) {
      PyObject* const self = PyCFunction_GET_SELF(object);
      if (self == nullptr) refuse(object);
      row.name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
      row.items.push_back(self);
    }
  }
  if (row.digest.empty()) row.digest = own_name(object);
  if (object != as_object(&PyType_Type)) row.type = as_object(Py_TYPE(object));
  add(std::move(row));
  return true;
}

void ObjectWriter::refuse(PyObject* object) const {
  throw Unkept{"it knows " + source::describe(object) + " (" + Py_TYPE(object)->tp_name +
               "), for which another process has no name"};
}

void ObjectWriter::solve() {
  std::vector<PyObject*> open;
  for (;;) {
    bool moved = false;
    open.insert(open.end(), needed_.begin(), needed_.end());
    needed_.clear();
    std::vector<PyObject*> left;
    for (PyObject* object : open) {
      if (ids_.contains(object)) continue;
      if (locate(object)) {
        moved = true;
      } else {
        left.push_back(object);
      }
    }
    open = std::move(left);
    if (open.empty() && needed_.empty()) break;
    if (moved || !needed_.empty()) continue;
    // Tuples that nothing leads to are made anew.
    for (PyObject* object : open) {
      if (!PyTuple_CheckExact(object)) continue;
      Row row;
      row.object = object;
      row.at.place = Place::Tuple;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) row.items.push_back(PyTuple_GET_ITEM(object, i));
      add(std::move(row));
      moved = true;
      break;
    }
    if (!moved) refuse(open.front());
  }
  solved_ = true;
}

void ObjectWriter::write_row(ByteWriter& out, const Row& row, std::uint32_t source) {
  out.number(static_cast<std::uint64_t>(row.at.place));
  const auto write_items = [&] {
    out.number(row.items.size());
    for (PyObject* item : row.items) out.number(ids_.at(item));
  };
  switch (row.at.place) {
    case Place::Singleton:
    case Place::CoreType:
      return out.number(static_cast<std::uint64_t>(row.at.index));
    case Place::Float:
      return out.real(PyFloat_AS_DOUBLE(row.object));
    case Place::Complex: {
      const Py_complex value = PyComplex_AsCComplex(row.object);
      out.real(value.real);
      return out.real(value.imag);
    }
    case Place::Int:
    case Place::Text:
    case Place::Bytes:
    case Place::Device:
      return out.text(row.name);
    case Place::Tuple:
    case Place::FrozenSet:
    case Place::Slice:
    case Place::Range:
    case Place::Size:
      return write_items();
    case Place::Entry:
      break;
    case Place::Module:
    case Place::Namespace:
      out.text(row.module);
      break;
    case Place::Named:
      out.text(row.module);
      out.text(row.name);
      break;
    case Place::Part:
      out.number(static_cast<std::uint64_t>(row.at.part));
      out.number(ids_.at(row.at.base));
      out.signed_number(row.at.index);
      out.text(py::text_of(row.at.name.get()));
      break;
    case Place::AtSource:
      out.number(source);
      break;
  }
  out.number(row.type == nullptr ? 0 : ids_.at(row.type) + 1);
  out.number(row.globals == nullptr ? 0 : ids_.at(row.globals) + 1);
  out.text(row.digest);
  out.flag(PyTuple_CheckExact(row.object) || !row.items.empty());
  if (PyTuple_CheckExact(row.object) || !row.items.empty()) write_items();
  out.flag(PyCFunction_Check(row.object) && row.at.place != Place::Named);
  if (PyCFunction_Check(row.object) && row.at.place != Place::Named) out.text(row.name);
}

}  // namespace pellucid::runtime
