#include "runtime/kept_objects.h"

#include <array>
#include <cmath>

#include "aten/aten.h"
#include "guards/equality.h"
#include "py/cpython.h"
#include "py/native_lookup.h"
#include "region/torch_module.h"
#include "region/types.h"

namespace pellucid::runtime {
namespace {

using region::Cat;

PyObject* modules() { return PyImport_GetModuleDict(); }

PyObject* singleton_at(std::size_t i) {
  const std::array<PyObject*, 5> all = {Py_None, Py_True, Py_False, Py_Ellipsis, Py_NotImplemented};
  return all[i];
}

// Classes without a name that leads to them.
PyTypeObject* core_type(std::size_t i) {
  PyTypeObject* const all[] = {&PyDictKeys_Type,      &PyDictValues_Type,   &PyDictItems_Type,     &PyODictKeys_Type,
                               &PyODictValues_Type,   &PyODictItems_Type,   &PyListIter_Type,      &PyTupleIter_Type,
                               &PyRangeIter_Type,     &PyDictIterKey_Type,  &PyDictIterValue_Type, &PyDictIterItem_Type,
                               &PySetIter_Type,       &PyODictIter_Type,    &PyUnicodeIter_Type,   &PyFunction_Type,
                               &PyCFunction_Type,     &PyMethodDescr_Type,  &PyWrapperDescr_Type,  &PyGetSetDescr_Type,
                               &PyMemberDescr_Type,   &PyClassMethodDescr_Type, &PyCell_Type,      &PyCode_Type,
                               &PyMethod_Type,        &_PyMethodWrapper_Type, &PyModule_Type,      &PyDictProxy_Type,
                               &PyGen_Type,           Py_TYPE(Py_None),     Py_TYPE(Py_Ellipsis),  Py_TYPE(Py_NotImplemented),
                               &PyODict_Type};
  return i < std::size(all) ? all[i] : nullptr;
}

PyTypeObject* type_named(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(py::import_attr(module, name).release());
}
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

// The dict of a loaded module; null: there is none. Runs no Python code.
PyObject* namespace_named(PyObject* name) {
  PyObject* const module = PyDict_GetItemWithError(modules(), name);
  if (module == nullptr || !PyModule_Check(module)) return nullptr;
  return PyModule_GetDict(module);
}

PyObject* entry_named(PyObject* space, std::string_view name) {
  const auto text = py::str(std::string(name));
  return py::native_dict_get(space, text.get());
}

// Through the dicts of a module and of classes in it. Borrowed; null: there is no such thing.
PyObject* object_named(std::string_view module, std::string_view name) {
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

// staticmethod and classmethod have one layout, which is private: their member says the same.
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

// What C functions, C descriptors and atoms of torch call themselves: another one may stand where it was.
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


}  // namespace

// ---- writing

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
    if (name == nullptr || !PyUnicode_Check(name) || PyDict_GetItemWithError(modules(), name) != object) return false;
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
    return is_it(py::text_of(f->func_module), py::text_of(f->func_qualname));
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

// ---- reading

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
      auto text = py::Owned<>::steal(
          PyUnicode_DecodeUTF8(row.name.data(), static_cast<Py_ssize_t>(row.name.size()), nullptr));
      if (text) return py::interned(text.get());
      PyErr_Clear();
      throw Miss{"a text is none"};
    }
    case Place::Bytes:
      return py::take(PyBytes_FromStringAndSize(row.name.data(), static_cast<Py_ssize_t>(row.name.size())));
    case Place::Device: {
      auto device = py::Owned<>::steal(
          PyObject_CallFunction(as_object(device_type()), "s", std::string(row.name).c_str()));
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
  PyObject* const module = PyDict_GetItemWithError(modules(), name.get());
  return module != nullptr && PyModule_Check(module) ? module : nullptr;
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
