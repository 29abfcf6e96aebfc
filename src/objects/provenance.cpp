// Where values come from, and the guards that reading them needs.
#include "guards/equality.h"
#include "objects/snapshot.h"
#include "objects/tracer.h"
#include "py/keys.h"

namespace pellucid::objects {

Tracer::Tracer(PyFunctionObject* function, PyCodeObject* code)
    : capture_(std::make_unique<Capture>()), fakes_(std::make_unique<aten::FakeScope>()) {
  capture_->function = py::Owned<PyFunctionObject>::share(function);
  capture_->code = py::Owned<PyCodeObject>::share(code);
}
Tracer::~Tracer() = default;

PyObject* Args::keyword(const char* name) const {
  for (std::size_t i = 0; i < keyword_count(); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), name) == 0) return values[size() + i];
  }
  return nullptr;
}

void Tracer::keep(PyObject* object) { capture_->alive.push_back(py::Owned<>::share(object)); }

const Source* Tracer::source_of(PyObject* object) const {
  auto it = capture_->source_of.find(object);
  return it == capture_->source_of.end() ? nullptr : it->second;
}

void Tracer::guard(Kind kind, const Source* source, py::Owned<> operand, std::int64_t number, const Source* other) {
  guards::Guard g;
  g.kind = kind;
  g.source = source;
  g.operand = std::move(operand);
  g.number = number;
  g.other = other;
  const Frame* frame = top();
  if (frame != nullptr) {
    g.why.code = py::Owned<PyCodeObject>::share(frame->code.get());
    g.why.offset = frame->at;
  }
  g.why.operation = doing;
  capture_->guards.add(std::move(g));
}

static bool only_atoms(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    const Cat cat = cat_of(item);
    if (cat == Cat::EnumMember || cat == Cat::TorchAtom) return false;
    if (!is_atom(cat) && !(Py_IS_TYPE(item, &PyTuple_Type) && only_atoms(item))) return false;
  }
  return true;
}

// Objects of these kinds are what they hold, which never changes: a guard compares them.
static bool is_value(PyObject* object, Cat cat) {
  if (cat != Cat::Slice) return is_atom(cat) || cat == Cat::Range;
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  auto parts = py::take(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
  return only_atoms(parts.get());
}

void Tracer::made(PyObject* object) {
  made_functions.insert(object);
  if (PyType_Check(object)) capture_->made_classes.insert(object);
  keep(object);
}

void Tracer::saw_constant(PyObject* value) {
  if (is_made(value)) return;
  if (is_value(value, cat_of(value))) return;
  saw(value, capture_->sources.constant(value));
}

std::string Tracer::module_path(const Source* source) const {
  std::string below;
  // A path may lead through itself (a child that refers to its parent), so the newest names are taken a few times only.
  for (int renamed = 0;;) {
    const auto newer = seen_as_.find(source);
    if (newer != seen_as_.end() && renamed++ < 8) source = newer->second;
    const Source* members = source->base;
    if (source->step != source::Step::DictItem || members->step != source::Step::InstanceAttr ||
        members->operand.get() != names()._modules)
      return source::print(source) + below;
    below = "." + py::text_of(source->operand.get()) + below;
    source = members->base;
  }
}

void Tracer::saw(PyObject* value, const Source* source) {
  const Cat cat = cat_of(value);
  const bool constant = source->step == source::Step::Const;
  if (is_value(value, cat)) {
    if (constant) return;
    const bool identity = cat == Cat::Singleton || cat == Cat::EnumMember;
    guard(identity ? Kind::ID_MATCH : Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
    return;
  }
  auto& sources = capture_->source_of;
  auto found = sources.find(value);
  const bool by_identity =
      known_by_identity(cat) || (cat == Cat::Function && source->root()->step == source::Step::Const);
  if (found != sources.end()) {
    if (found->second == source && !seen_as_.empty()) seen_as_.erase(source);
    if (found->second == source || constant) return;
    if (Py_IS_TYPE(value, &PyTuple_Type)) {
      // Equal tuples may be one object by chance (constants); what counts is the content.
      if (only_atoms(value)) {
        guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
        return;
      }
    }
    if (by_identity || found->second->step == source::Step::Const) {
      guard(Kind::ID_MATCH, source, py::Owned<>::share(value));
    } else {
      guard(Kind::IS, source, {}, 0, found->second);
      seen_as_[found->second] = source;
    }
    return;
  }
  keep(value);
  if (by_identity) {
    if (!constant) guard(Kind::ID_MATCH, source, py::Owned<>::share(value));
    sources.emplace(value, capture_->sources.constant(value));
    return;
  }
  sources.emplace(value, source);
  switch (cat) {
    case Cat::Tensor: {
      if (!aten::is_plain_tensor(value)) {
        guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(value))));
        return;  // refused where it is used
      }
      guards::Guard g;
      g.kind = Kind::TENSOR_MATCH;
      g.source = source;
      g.tensor = aten::TensorSpec::of(value);
      if (const Frame* frame = top()) {
        g.why.code = py::Owned<PyCodeObject>::share(frame->code.get());
        g.why.offset = frame->at;
      }
      g.why.operation = doing;
      capture_->guards.add(std::move(g));
      outside_.push_back(value);
      return;
    }
    case Cat::Tuple: {
      if (Py_IS_TYPE(value, &PyTuple_Type) && only_atoms(value)) {
        if (!constant) guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
        if (PyTuple_GET_SIZE(value) == 0) sources.erase(value);
        return;
      }
      guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(value))));
      if (!constant) guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(value));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        saw(PyTuple_GET_ITEM(value, i),
            constant ? capture_->sources.constant(PyTuple_GET_ITEM(value, i)) : capture_->sources.item(source, i));
      }
      return;
    }
    case Cat::Slice: {
      if (!constant) guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(&PySlice_Type)));
      auto* slice = reinterpret_cast<PySliceObject*>(value);
      auto& table = capture_->sources;
      for (const auto& [name, part] :
           {std::pair{"start", slice->start}, std::pair{"stop", slice->stop}, std::pair{"step", slice->step}}) {
        saw(part, constant ? table.constant(part) : table.member(source, py::interned(name).get()));
      }
      return;
    }
    case Cat::Cell:
      return;
    default:
      if (!constant && cat == Cat::Other && guards::has_builtin_value(value)) {
        guard(Kind::EQUALS_MATCH, source, py::Owned<>::share(value));
      } else if (!constant || cat == Cat::Instance || cat == Cat::Dict || cat == Cat::List) {
        guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(value))));
      }
      outside_.push_back(value);
  }
}

void Tracer::guard_function(PyObject* function) {
  const Source* source = source_of(function);
  if (source == nullptr) {
    if (made_functions.contains(function)) return;
    saw_constant(function);  // reached through something that is known by identity
    source = source_of(function);
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  auto or_none = [](PyObject* o) { return o == nullptr ? Py_None : o; };
  auto parts = py::take(PyTuple_Pack(3, f->func_code, or_none(f->func_defaults), or_none(f->func_kwdefaults)));
  if (!touched_.insert(function).second) return;
  guard(Kind::FUNCTION, source, std::move(parts));
  auto& table = capture_->sources;
  if (f->func_defaults != nullptr) {
    saw(f->func_defaults, source->step == source::Step::Const ? table.constant(f->func_defaults)
                                                              : table.member(source, names().__defaults__));
  }
  if (f->func_kwdefaults != nullptr) {
    saw(f->func_kwdefaults, source->step == source::Step::Const ? table.constant(f->func_kwdefaults)
                                                                : table.member(source, names().__kwdefaults__));
  }
}

bool Tracer::same(PyObject* a, PyObject* b) {
  a = original(a);
  b = original(b);
  if (a == b) return true;
  const Source* left = source_of(a);
  const Source* right = source_of(b);
  // Two outside objects that are different now could be one object in another call. Constants and type guards settle
  // most cases.
  if (left != nullptr && right != nullptr) {
    const bool left_const = left->step == source::Step::Const, right_const = right->step == source::Step::Const;
    if (left_const && right_const) return false;
    if (left_const) {
      guard(Kind::NOT_ID, right, py::Owned<>::share(a));
    } else if (right_const) {
      guard(Kind::NOT_ID, left, py::Owned<>::share(b));
    } else {
      guard(Kind::IS_NOT, left, {}, 0, right);
    }
  }
  return false;
}

// C code finds such a key, or a part of it, by comparing identities: with the keys of a container from outside, which
// are known objects, or with what the region has put into its own. Values need nothing: they are guarded where they
// are read.
void Tracer::guard_key(PyObject* container, PyObject* key, bool part) {
  if (is_atom(cat_of(key))) return;
  if (cat_of(key) == Cat::BoundMethod) {
    for (PyObject* name : {names().__self__, names().dunder_func})
      guard_key(container, native_attribute(key, name).value.get(), true);
    return;
  }
  for (Py_ssize_t i = 0; PyObject* inner = py::key_part(key, i); ++i) guard_key(container, original(inner), true);
  const Source* source = source_of(key);
  if (source == nullptr || source->step == source::Step::Const) return;
  if (!part && !py::is_key_by_identity(Py_TYPE(key))) return;
  if (part && py::key_family(Py_TYPE(key)) != py::KeyFamily::Unknown && !py::is_key_by_identity(Py_TYPE(key))) return;
  PyObject* view = readable(container);
  const Py_ssize_t size = PyDict_Check(view) ? PyDict_GET_SIZE(view) : PyAnySet_Check(view) ? PySet_GET_SIZE(view) : 0;
  if (is_outside(original(container))) {
    guard(Kind::ID_MATCH, source, py::Owned<>::share(key));
    return;
  }
  if (size == 0) return;
  const auto others = elements_now(view);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others.get()); ++i) {
    PyObject* other = PyList_GET_ITEM(others.get(), i);
    if (part && !is_atom(cat_of(other)))
      guard(Kind::ID_MATCH, source, py::Owned<>::share(key));
    else if (is_outside(other))
      same(key, other);
  }
}

}  // namespace pellucid::objects
