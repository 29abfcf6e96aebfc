// The end of a capture: net effects on what existed before, and the guards that keep objects apart.
#include <algorithm>

#include "objects/tracer.h"

namespace pellucid::objects {

void Tracer::defer_call(PyObject* callable, PyObject* args, PyObject* kwargs) {
  Effect effect;
  effect.kind = Effect::Kind::Call;
  effect.value = py::Owned<>::share(callable);
  effect.args = py::Owned<>::share(args);
  effect.kwargs = py::Owned<>::share(kwargs);
  deferred_.push_back(std::move(effect));
}

void Tracer::add_effects() {
  auto& effects = capture_->effects;
  // First: an iterator over a dict that has changed would not advance.
  for (PyObject* iterator : order_of_iterators_) {
    const IteratorState& state = iterators_.at(iterator);
    if (state.taken == 0 && !state.ended) continue;
    Effect effect;
    effect.kind = Effect::Kind::Advance;
    effect.target = py::Owned<>::share(iterator);
    effect.count = state.taken;
    effect.ends = state.ended;
    effects.push_back(std::move(effect));
  }
  for (PyObject* generator : order_of_generators_) {
    Effect effect;
    effect.kind = Effect::Kind::SetGenerator;
    effect.target = py::Owned<>::share(generator);
    effect.value = generators_.at(generator).copy();
    effects.push_back(std::move(effect));
  }
  for (Effect& call : deferred_) effects.push_back(std::move(call));
  for (PyObject* object : order_of_shadows_) {
    auto it = shadows_.find(object);
    if (it == shadows_.end() || !it->second.changed) continue;
    Effect effect;
    switch (cat_of(object)) {
      case Cat::List:
        effect.kind = Effect::Kind::SetList;
        break;
      case Cat::Dict:
        effect.kind = Effect::Kind::SetDict;
        break;
      case Cat::Set:
        effect.kind = Effect::Kind::SetSet;
        break;
      default:
        effect.kind = Effect::Kind::SetDeque;
        break;
    }
    effect.target = py::Owned<>::share(object);
    effect.value = it->second.object.copy();
    effects.push_back(std::move(effect));
  }
  for (PyObject* object : order_of_attribute_effects_) {
    for (AttributeWrite& write : attribute_effects_[object]) {
      if (!write.value && !write.was_there) continue;
      Effect& effect = effects.emplace_back();
      effect.kind = Effect::Kind::SetAttr;
      effect.target = py::Owned<>::share(object);
      effect.name = std::move(write.name);
      effect.value = std::move(write.value);
    }
  }
  for (auto& [cell, value] : cell_values_) {
    Effect effect;
    effect.kind = Effect::Kind::SetCell;
    effect.target = py::Owned<>::share(cell);
    effect.value = value.copy();
    effects.push_back(std::move(effect));
  }
}

void Tracer::add_aliasing_guards() {
  // Tensors: all inputs are pairwise different objects (equal sources were merged when they were seen).
  std::vector<const Source*> tensors;
  for (PyObject* object : outside_) {
    if (cat_of(object) == Cat::Tensor && source_of(object)->root()->step != source::Step::Const)
      tensors.push_back(source_of(object));
    else if (cat_of(object) == Cat::Tensor)
      tensors.push_back(source_of(object));
  }
  if (tensors.size() > 1) {
    auto ids = py::take(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      PyTuple_SET_ITEM(ids.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(tensors[i]->id)).release());
    }
    doing = "uses these tensors as different objects";
    guard(Kind::DISTINCT, nullptr, std::move(ids));
  }
  // A container that the region changes must not be reachable by another name it read.
  doing = "changes an object";
  for (PyObject* changed : order_of_shadows_) {
    auto it = shadows_.find(changed);
    if (it == shadows_.end() || !it->second.changed) continue;
    const Source* source = source_of(changed);
    for (PyObject* other : outside_) {
      if (other == changed || Py_TYPE(other) != Py_TYPE(changed)) continue;
      const Source* second = source_of(other);
      if (source->step == source::Step::Const && second->step == source::Step::Const) continue;
      guard(Kind::IS_NOT, source, {}, 0, second);
    }
  }
  doing = "advances an iterator";
  for (auto one = order_of_generators_.begin(); one != order_of_generators_.end(); ++one) {
    for (auto other = order_of_generators_.begin(); other != one; ++other) same(*one, *other);
  }
  for (auto one = order_of_iterators_.begin(); one != order_of_iterators_.end(); ++one) {
    for (auto other = order_of_iterators_.begin(); other != one; ++other) {
      if (Py_TYPE(*one) == Py_TYPE(*other)) same(*one, *other);
    }
  }
}

std::unique_ptr<Capture> Tracer::finish(py::Owned<> result) {
  add_aliasing_guards();
  add_effects();
  capture_->result = std::move(result);
  // A shadow that leaves the region (a view or iterator holds it) means the object it stands for. The tracer goes
  // before codegen reads the map, so the capture keeps the shadows: a dead one's address could be that of an object
  // made later.
  for (auto& [shadow, object] : shadowed_by_) keep(shadow);
  capture_->stands_for = std::move(shadowed_by_);
  guards::Guard state;
  state.kind = Kind::GLOBAL_STATE;
  state.why.operation = "global state of torch";
  capture_->guards.add(std::move(state));
  return std::move(capture_);
}

}  // namespace pellucid::objects
