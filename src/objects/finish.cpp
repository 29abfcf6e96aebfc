// The end of a capture: net effects on what existed before, and the guards that keep objects apart.
#include <algorithm>

#include "objects/snapshot.h"
#include "objects/tracer.h"
#include "py/set_table.h"

namespace pellucid::objects {
namespace {

// The arguments of deferred calls are private copies: exact tuples, lists and dicts, finitely deep.
template <class Visit>
void each_tensor_below(PyObject* value, Visit&& visit) {
  if (cat_of(value) == Cat::Tensor) {
    visit(value);
  } else if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    for (const auto& item : items_now(value)) each_tensor_below(item.get(), visit);
  } else if (PyDict_CheckExact(value)) {
    for (const auto& [key, item] : entries_now(value)) each_tensor_below(item.get(), visit);
  }
}

py::Owned<> with_tensors(PyObject* value, const std::unordered_map<PyObject*, PyObject*>& in_place_of) {
  if (const auto found = in_place_of.find(value); found != in_place_of.end()) return py::Owned<>::share(found->second);
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    auto list = py::take(PyList_New(0));
    for (const auto& item : items_now(value))
      py::check(PyList_Append(list.get(), with_tensors(item.get(), in_place_of).get()));
    return PyTuple_CheckExact(value) ? py::take(PyList_AsTuple(list.get())) : std::move(list);
  }
  if (PyDict_CheckExact(value)) {
    auto dict = py::take(PyDict_New());
    for (const auto& [key, item] : entries_now(value))
      py::check(PyDict_SetItem(dict.get(), key.get(), with_tensors(item.get(), in_place_of).get()));
    return dict;
  }
  return py::Owned<>::share(value);
}

}  // namespace

void Tracer::defer_call(PyObject* callable, PyObject* args, PyObject* kwargs) {
  Effect effect;
  effect.kind = Effect::Kind::Call;
  effect.value = py::Owned<>::share(callable);
  effect.args = py::Owned<>::share(args);
  effect.kwargs = py::Owned<>::share(kwargs);
  deferred_.push_back(std::move(effect));
  watch_late_tensors(args);
  watch_late_tensors(kwargs);
}

void Tracer::defer_call_in_order(PyObject* callable, PyObject* args, PyObject* kwargs) {
  for (PyObject* object : order_of_shadows_) {
    const Shadow& shadow = shadows_.at(object);
    PyTypeObject* type = Py_TYPE(shadow.object.get());
    if (shadow.changed && !is_exact_builtin(type) && cat_of(type) != Cat::Deque &&
        !PyODict_CheckExact(shadow.object.get()))
      unsupported(Reason::SideEffect, {{"callee", "a logging call after a change of a " + std::string(type->tp_name)}});
  }
  if (!order_of_attribute_effects_.empty())
    unsupported(Reason::SideEffect, {{"callee", "a logging call after a change of slots or of a class"}});
  changes_until_now(deferred_, true);
  defer_call(callable, args, kwargs);
}

// ---- tensors that deferred calls get

void Tracer::watch_late_tensors(PyObject* value) {
  each_tensor_below(value, [&](PyObject* tensor) {
    const auto fake = aten::is_fake(tensor) ? fake_of_.end() : fake_of_.find(tensor);
    PyObject* watched = fake == fake_of_.end() ? tensor : fake->second.get();
    late_tensors_.push_back({deferred_.size() - 1,
                             py::Owned<>::share(tensor),
                             {},
                             aten::version_of(watched),
                             aten::meta_of(watched).sizes});
  });
}

// An operator has just written into tensors, its node is not recorded yet: copies come before it.
void Tracer::freeze_late_tensors() {
  static PyObject* const clone = py::import_attr("torch", "clone").release();
  for (std::size_t i = 0; i < late_tensors_.size(); ++i) {
    LateTensor& late = late_tensors_[i];
    PyObject* tensor = late.tensor.get();
    const auto fake = aten::is_fake(tensor) ? fake_of_.end() : fake_of_.find(tensor);
    PyObject* watched = fake == fake_of_.end() ? tensor : fake->second.get();
    if (late.frozen || aten::version_of(watched) == late.version) continue;
    if (aten::meta_of(watched).sizes != late.sizes)
      unsupported(Reason::SideEffect, {{"callee", "logging a tensor that changes its shape later"}});
    PyObject* args[] = {tensor};
    auto frozen = torch_call(graph::Op::CallFunction, clone, clone, Args{args, nullptr}).value;
    late_tensors_[i].frozen = std::move(frozen);
  }
}

void Tracer::put_frozen_tensors() {
  std::unordered_map<PyObject*, PyObject*> frozen;
  for (std::size_t i = 0; i < late_tensors_.size(); ++i) {
    const LateTensor& late = late_tensors_[i];
    if (late.frozen) frozen.emplace(late.tensor.get(), late.frozen.get());
    const bool last = i + 1 == late_tensors_.size() || late_tensors_[i + 1].call != late.call;
    if (!last) continue;
    Effect& call = deferred_[late.call];
    if (!frozen.empty()) {
      call.args = with_tensors(call.args.get(), frozen);
      call.kwargs = with_tensors(call.kwargs.get(), frozen);
    }
    frozen.clear();
  }
}

// The net changes of containers and cells. `as_copies`: the region goes on changing them.
void Tracer::changes_until_now(std::vector<Effect>& out, bool as_copies) {
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
        effect.keys = it->second.written.copy();
        break;
      case Cat::Set:
        effect.kind = Effect::Kind::SetSet;
        break;
      default:
        effect.kind = Effect::Kind::SetDeque;
        break;
    }
    effect.target = py::Owned<>::share(object);
    PyObject* shadow = it->second.object.get();
    effect.value = !as_copies            ? py::Owned<>::share(shadow)
                   : PySet_Check(shadow) ? py::copy_with_table(shadow, py::finger_of(shadow))
                                         : py::take(PyObject_CallMethod(shadow, "copy", nullptr));
    out.push_back(std::move(effect));
  }
  for (PyObject* object : order_of_attribute_effects_) {
    for (AttributeWrite& write : attribute_effects_[object]) {
      if (!write.value && !write.was_there) continue;
      Effect& effect = out.emplace_back();
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
    out.push_back(std::move(effect));
  }
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
  for (Effect& closed : closed_frames_) effects.push_back(std::move(closed));
  put_frozen_tensors();
  for (Effect& call : deferred_) effects.push_back(std::move(call));
  changes_until_now(capture_->effects, false);
}

void Tracer::guard_distinct(const std::vector<const Source*>& sources) {
  if (sources.size() < 2) return;
  auto ids = py::take(PyTuple_New(static_cast<Py_ssize_t>(sources.size())));
  for (std::size_t i = 0; i < sources.size(); ++i)
    PyTuple_SET_ITEM(ids.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(sources[i]->id)).release());
  guard(Kind::DISTINCT, nullptr, std::move(ids));
}

void Tracer::add_aliasing_guards() {
  // Tensors: all inputs are pairwise different objects (equal sources were merged when they were seen).
  std::vector<const Source*> tensors;
  for (PyObject* object : outside_) {
    if (cat_of(object) == Cat::Tensor) tensors.push_back(source_of(object));
  }
  doing = "uses these tensors as different objects";
  guard_distinct(tensors);
  std::vector<const Source*> keys;
  std::unordered_set<PyObject*> met;
  bool known = true;
  for (PyObject* key : keys_) {
    if (!met.insert(key).second) continue;
    keys.push_back(source_of(key));
    known = known && keys.back()->step == source::Step::Const;
  }
  doing = "uses these objects as different keys";
  if (!known) guard_distinct(keys);
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
