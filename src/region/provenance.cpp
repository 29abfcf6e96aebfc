#include "region/provenance.h"

#include "aten/aten.h"
#include "aten/wrapper_subclass.h"
#include "guards/equality.h"
#include "py/cpython.h"
#include "region/jagged.h"
#include "region/names.h"
#include "region/region.h"
#include "region/subclasses.h"
#include "region/unread.h"

namespace pellucid::region {

void Provenance::keep(PyObject* object) { region_.capture->alive.push_back(py::Owned<>::share(object)); }

const Source* Provenance::source_of(PyObject* object) const {
  if (is_unread(object)) return source_of_unread(object);
  const auto& sources = region_.capture->source_of;
  if (const auto it = sources.find(object); it != sources.end()) return it->second;
  const auto unread = unread_of_.find(object);
  if (unread == unread_of_.end()) return nullptr;
  // Another object led to a live value that the program has not read by its variable.
  (void)const_cast<Provenance*>(this)->read(unread->second);
  const auto it = sources.find(object);
  return it == sources.end() ? nullptr : it->second;
}

void Provenance::add_guard(guards::Guard guard) {
  guards::Guard* const added = region_.capture->guards.add(std::move(guard));
  if (added == nullptr) return;
  if (const Frame* frame = region_.top) {
    added->why.code = py::Owned<PyCodeObject>::share(frame->code.get());
    added->why.offset = frame->at;
  }
  added->why.operation = region_.doing;
}

void Provenance::guard(Kind kind, const Source* source, py::Owned<> operand, std::int64_t number, const Source* other) {
  guards::Guard guard;
  guard.kind = kind;
  guard.source = source;
  guard.operand = std::move(operand);
  guard.number = number;
  guard.other = other;
  add_guard(std::move(guard));
}

namespace {

PyObject* type_of(PyObject* value) { return reinterpret_cast<PyObject*>(Py_TYPE(value)); }

bool only_atoms(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    const Cat cat = cat_of(item);
    if (cat == Cat::EnumMember || cat == Cat::TorchAtom) return false;
    if (!is_atom(cat) && !(Py_IS_TYPE(item, &PyTuple_Type) && only_atoms(item))) return false;
  }
  return true;
}

// Objects of these kinds are what they hold, which never changes: a guard compares them.
bool is_value(PyObject* object, Cat cat) {
  if (cat != Cat::Slice) return is_atom(cat) || cat == Cat::Range;
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  auto parts = py::take(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
  return only_atoms(parts.get());
}

}  // namespace

void Provenance::note_made(PyObject* object) {
  made_.insert(object);
  if (PyType_Check(object)) region_.capture->made_classes.insert(object);
  keep(object);
}

void Provenance::note_constant(PyObject* value) {
  if (is_made(value)) return;
  if (is_value(value, cat_of(value))) return;
  note_read(value, region_.capture->sources.constant(value));
}

std::string Provenance::module_path(const Source* source) const {
  std::string below;
  // A path may lead through itself (a child that refers to its parent), so the newest names are taken a few times only.
  for (int renamed = 0;;) {
    const auto newer = seen_as_.find(source);
    if (newer != seen_as_.end() && renamed++ < 8) source = newer->second;
    const Source* members = source->base;
    if (source->step != source::Step::DictItem || members->step != source::Step::InstanceAttr ||
        members->operand.get() != names()._modules)
      return source::print(source) + below;
    below.insert(0, std::string(".").append(py::text_of(source->operand.get())));
    source = members->base;
  }
}

void Provenance::note_existing(PyObject* object, const Source* source) {
  keep(object);
  region_.capture->source_of.emplace(object, source);
  existing_.push_back(object);
}

py::Owned<> Provenance::note_unread(PyObject* value, const Source* source, Py_ssize_t references) {
  auto unread = new_unread(value, source, references);
  keep(unread.get());
  keep(value);
  unread_.push_back(unread.copy());
  if (!is_value(value, cat_of(value))) unread_of_.try_emplace(value, unread.get());
  return unread;
}

py::Owned<> Provenance::read(PyObject* held) {
  if (!is_unread(held)) return py::Owned<>::share(held);
  auto* unread = reinterpret_cast<Unread*>(held);
  unread->read = true;
  return region_.numbers.read(unread->value, unread->source);
}

py::Owned<> Provenance::note_attribute(PyObject* object, PyObject* name, PyObject* value) {
  const Source* source = source_of(object);
  if (source == nullptr) return py::Owned<>::share(value);
  // C descriptors of functions, classes and instances read state that may be set; the other objects known by identity
  // never change.
  PyObject* meta = py::type_lookup(Py_TYPE(object), name);
  const bool readable_again =
      meta != nullptr && (Py_IS_TYPE(meta, &PyGetSetDescr_Type) || Py_IS_TYPE(meta, &PyMemberDescr_Type));
  const Cat cat = cat_of(object);
  const bool may_change = cat == Cat::Function || cat == Cat::Instance || cat == Cat::Tensor || cat == Cat::Other ||
                          (cat == Cat::Type && is_mutable_class(reinterpret_cast<PyTypeObject*>(object)));
  if (source->step == source::Step::Const && !(readable_again && may_change)) {
    note_constant(value);
    return py::Owned<>::share(value);
  }
  if (cat == Cat::Slice) return py::Owned<>::share(value);  // noted with the slice (open_tuples.h)
  const Source* member = region_.capture->sources.member(source, name);
  if (cat == Cat::Instance) return region_.numbers.read(value, member);
  note_read(value, member);
  return py::Owned<>::share(value);
}

void Provenance::note_read(PyObject* value, const Source* source) {
  const Cat cat = cat_of(value);
  const bool constant = source->step == source::Step::Const;
  if (is_value(value, cat)) {
    if (constant) return;
    const bool identity = cat == Cat::Singleton || cat == Cat::EnumMember;
    guard(identity ? Kind::ID_MATCH : Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
    return;
  }
  if (cat == Cat::Tuple || cat == Cat::Slice) region_.numbers.tuples.settle(value);
  auto& sources = region_.capture->source_of;
  const bool by_identity =
      known_by_identity(cat) || (cat == Cat::Function && source->root()->step == source::Step::Const);
  if (const auto found = sources.find(value); found != sources.end())
    return note_met_again(value, found->second, source);
  keep(value);
  if (by_identity) {
    if (!constant) guard(Kind::ID_MATCH, source, py::Owned<>::share(value));
    sources.emplace(value, region_.capture->sources.constant(value));
    return;
  }
  sources.emplace(value, source);
  note_contents(value, cat, source);
}

// The object was read before, from `known`.
void Provenance::note_met_again(PyObject* value, const Source* known, const Source* source) {
  if (known == source && !seen_as_.empty()) seen_as_.erase(source);
  const bool constant = source->step == source::Step::Const;
  if (known == source || (constant && known->step == source::Step::Const)) return;
  // Equal tuples may be one object by chance (constants); what counts is the content.
  if (Py_IS_TYPE(value, &PyTuple_Type) && only_atoms(value)) {
    if (!constant) guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
  } else if (constant) {
    guard(Kind::ID_MATCH, known, py::Owned<>::share(value));  // one object in two places: another one is in one alone
  } else if (known->step == source::Step::Const) {
    guard(Kind::ID_MATCH, source, py::Owned<>::share(value));
  } else {
    guard(Kind::IS, source, {}, 0, known);
    seen_as_[known] = source;
  }
}

// Met for the first time, and not known by identity.
void Provenance::note_contents(PyObject* value, Cat cat, const Source* source) {
  auto& table = region_.capture->sources;
  const bool constant = source->step == source::Step::Const;
  switch (cat) {
    case Cat::Tensor: {
      const bool wraps =
          is_subclassed(value) && is_wrapper_subclass(value) && (is_jagged(value) || aten::has_own_layout(value));
      if (is_subclassed(value) && !wraps && !is_traced_subclass(Py_TYPE(value))) {
        guard(Kind::TYPE_MATCH, source, py::Owned<>::share(type_of(value)));
        return;  // refused where it is used
      }
      guards::Guard guard;
      guard.kind = Kind::TENSOR_MATCH;
      guard.source = source;
      const bool has_sizes = !wraps || !is_jagged(value);
      guard.tensor = has_sizes ? region_.numbers.tensors.spec_of(value, source) : aten::TensorSpec::of(value);
      add_guard(std::move(guard));
      existing_.push_back(value);
      return;
    }
    case Cat::Array:
      // A constant array is known by its path, not by its sizes, which may be set.
      guard(Kind::ARRAY_MATCH, source,
            region_.numbers.tensors.layout_of(value, source, !region_.numbers.policy.runs_as_captured()));
      existing_.push_back(value);
      return;
    case Cat::Tuple: {
      if (Py_IS_TYPE(value, &PyTuple_Type) && only_atoms(value)) {
        if (!constant) guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
        if (PyTuple_GET_SIZE(value) == 0) region_.capture->source_of.erase(value);
        return;
      }
      guard(Kind::TYPE_MATCH, source, py::Owned<>::share(type_of(value)));
      if (!constant) guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(value));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        PyObject* item = PyTuple_GET_ITEM(value, i);
        note_read(item, constant ? table.constant(item) : table.item(source, i));
      }
      return;
    }
    case Cat::Slice: {
      if (!constant) guard(Kind::TYPE_MATCH, source, py::Owned<>::share(type_of(value)));
      auto* slice = reinterpret_cast<PySliceObject*>(value);
      for (const auto& [name, part] :
           {std::pair{"start", slice->start}, std::pair{"stop", slice->stop}, std::pair{"step", slice->step}}) {
        note_read(part, constant ? table.constant(part) : table.member(source, py::interned(name).get()));
      }
      return;
    }
    case Cat::Cell:
      return;
    default:
      if (!constant && cat == Cat::Other && guards::has_builtin_value(value)) {
        guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
      } else if (!constant || cat == Cat::Instance || cat == Cat::Dict || cat == Cat::List) {
        guard(Kind::TYPE_MATCH, source, py::Owned<>::share(type_of(value)));
      }
      existing_.push_back(value);
  }
}

void Provenance::guard_identity(PyObject* object) {
  const Source* source = source_of(object);
  if (source == nullptr || source->step == source::Step::Const) return;
  guard(Kind::ID_MATCH, source, py::Owned<>::share(object));
}

void Provenance::guard_function(PyObject* function) {
  const Source* source = source_of(function);
  if (source == nullptr) {
    if (made_.contains(function)) return;
    note_constant(function);  // reached through something that is known by identity
    source = source_of(function);
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  auto or_none = [](PyObject* o) { return o == nullptr ? Py_None : o; };
  if (!guarded_functions_.insert(function).second) return;
  const Py_ssize_t count = source->step == source::Step::Const ? 3 : 5;
  auto parts = py::take(PyTuple_Pack(count, f->func_code, or_none(f->func_defaults), or_none(f->func_kwdefaults),
                                     f->func_globals, f->func_builtins));
  guard(Kind::FUNCTION, source, std::move(parts));
  auto& table = region_.capture->sources;
  if (f->func_defaults != nullptr) {
    note_read(f->func_defaults, source->step == source::Step::Const ? table.constant(f->func_defaults)
                                                                    : table.member(source, names().__defaults__));
  }
  if (f->func_kwdefaults != nullptr) {
    note_read(f->func_kwdefaults, source->step == source::Step::Const ? table.constant(f->func_kwdefaults)
                                                                      : table.member(source, names().__kwdefaults__));
  }
}

void Provenance::guard_distinct(const std::vector<const Source*>& sources) {
  if (sources.size() < 2) return;
  auto ids = py::take(PyTuple_New(static_cast<Py_ssize_t>(sources.size())));
  for (std::size_t i = 0; i < sources.size(); ++i)
    PyTuple_SET_ITEM(ids.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(sources[i]->id)).release());
  guard(Kind::DISTINCT, nullptr, std::move(ids));
}

void Provenance::guard_not_handling(const std::string& reader) {
  if (py::Owned<>::steal(PyErr_GetHandledException())) unsupported(Reason::StackInspection, {{"callee", reader}});
  guard(Kind::NOT_HANDLING, nullptr);
}

}  // namespace pellucid::region
