#include "region/drops.h"

#include <algorithm>

#include "aten/memory.h"
#include "frames/finalizers.h"
#include "frames/generators.h"
#include "py/cpython.h"
#include "region/generator.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/unread.h"

namespace pellucid::region {
namespace {

[[noreturn]] void refuse_end(PyObject* value) { unsupported(Reason::Finalizer, {{"type", Py_TYPE(value)->tp_name}}); }

bool holds_tensors_alone(PyObject* value) {
  if (!aten::is_tensor(value) || !aten::is_plain_tensor(value) || aten::meta_of(value).requires_grad) return false;
  if (!aten::has_own_memory(value)) return false;
  PyObject** dict = _PyObject_GetDictPtr(value);
  return dict == nullptr || *dict == nullptr || PyDict_GET_SIZE(*dict) == 0;
}

}  // namespace

void Drops::refuse_to_hold(PyObject* value) {
  if (!is_atom(cat_of(value)) && frames::runs_when_dropped(value, frames::Referrers::All)) refuse_end(value);
}

bool Drops::may_have_held(PyObject* object) const { return any_ || (any_tensor_ && cat_of(object) == Cat::Tensor); }

void Drops::note_live(PyObject* value, const Source* source, Py_ssize_t references) {
  const Cat cat = cat_of(value);
  if (is_atom(cat) || known_by_identity(cat) || cat == Cat::Tensor || cat == Cat::Array) return;
  Live& taken = live_.emplace_back();
  taken.value = value, taken.source = source, taken.references = references;
  taken.runs =
      Py_REFCNT(value) <= references && frames::runs_when_dropped(value, frames::Referrers::Counted, &taken.generators);
}

// False: it is known to run nothing, as long as the guards hold that there are.
bool Drops::may_drop(PyObject* value) {
  if (value == nullptr) return true;  // there may be something in a later call
  if (is_atom(cat_of(value))) return true;
  (holds_tensors_alone(value) ? any_tensor_ : any_) = true;
  const bool has_twin = PyGen_CheckExact(value) && region_.generators.twin_of(value) != nullptr;
  if (has_twin ? would_run(value) : would_run(value) || frames::runs_when_dropped(value, frames::Referrers::All)) {
    refuse_end(value);
  }
  return !has_twin;  // where a twin stands is guarded
}

void Drops::guard_drop_of_live(const Live& taken) {
  const bool one_runs = std::ranges::any_of(live_, [](const Live& each) { return each.runs; });
  if (taken.runs || (!one_runs && run_together_)) refuse_end(taken.value);
  region_.provenance.guard(taken.generators.empty() ? Kind::NO_FINALIZER_OWNED : Kind::NO_FINALIZER_BUT_GENERATORS,
                           taken.source, {}, taken.references);
}

void Drops::guard_drop_of_entry(const Source* source, PyObject* key, PyObject* before) {
  if (!may_drop(before)) return;
  if (source->step == source::Step::DictOf && PyUnicode_CheckExact(key)) {
    region_.provenance.guard(Kind::NO_FINALIZER_ATTR, source->base, py::Owned<>::share(key));
  } else {
    region_.provenance.guard(Kind::NO_FINALIZER_KEY, source, py::Owned<>::share(key));
  }
}

void Drops::guard_drop_of_slot(PyObject* object, PyObject* slot, PyObject* before) {
  if (may_drop(before))
    region_.provenance.guard(Kind::NO_FINALIZER_SLOT, region_.provenance.source_of(object), py::Owned<>::share(slot));
}

void Drops::guard_drop_of_contents(PyObject* cell) {
  if (may_drop(PyCell_GET(cell)))
    region_.provenance.guard(Kind::NO_FINALIZER, region_.provenance.source_of(cell), {}, 1);
}

void Drops::guard_drop_of_walked(PyObject* iterator) {
  const Source* const own = region_.provenance.source_of(iterator);
  for (const Source* source = own; source != nullptr;
       source = source->step == source::Step::Part ? source->base : nullptr) {
    const auto taken = std::ranges::find(live_, source, &Live::source);
    if (taken != live_.end()) return guard_drop_of_live(*taken);
  }
  if (own != nullptr && may_drop(iterator)) region_.provenance.guard(Kind::NO_FINALIZER, own);
}

void Drops::guard_drop_of_item(PyObject* item) {
  const Source* source = region_.provenance.source_of(item);
  if (source != nullptr && !is_atom(cat_of(item)) && may_drop(item))
    region_.provenance.guard(Kind::NO_FINALIZER, source);
}

void Drops::guard_drop_of_item_at(PyObject* list, PyObject* index) {
  PyObject* view = region_.shadows.readable(list);
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at == -1 && PyErr_Occurred()) PyErr_Clear();  // the store says so
  if (at < 0) at += PyList_GET_SIZE(view);
  if (at >= 0 && at < PyList_GET_SIZE(view)) guard_drop_of_item(PyList_GET_ITEM(view, at));
}

void Drops::guard_drop_of_items(PyObject* container) {
  if (!drained_.insert(container).second) return;
  switch (cat_of(container)) {
    case Cat::Dict:
      for (const auto& [key, value] : entries_now(container)) guard_drop_of_item(value.get());
      return;
    case Cat::List:
      for (const auto& item : items_now(container)) guard_drop_of_item(item.get());
      return;
    case Cat::Set:
    case Cat::Deque: {
      const auto items = elements_now(container);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) guard_drop_of_item(PyList_GET_ITEM(items.get(), i));
      return;
    }
    default:
      return;
  }
}

// What a suspended frame holds goes with it: an inner generator of a `yield from`, say.
template <class Values>
bool Drops::would_run_with(PyCodeObject* code, int at, const Values& values, int depth) const {
  const bytecode::DecodedCode& instructions = decoded_code(code);
  if (instructions.handler_of(instructions.index_at(at)) != nullptr) return true;
  return std::ranges::any_of(
      values, [&](const auto& value) { return static_cast<bool>(value) && would_run(value.get(), depth + 1); });
}

bool Drops::would_run(PyObject* value, int depth) const {
  constexpr int kDeepest = 3, kDeepestGenerator = 20;
  if (kept_.contains(value) || depth > kDeepestGenerator) return false;
  const auto any = [&](const std::vector<py::Owned<>>& items) {
    return std::ranges::any_of(items, [&](const auto& item) { return would_run(item.get(), depth + 1); });
  };
  const auto any_in_frame = [&](const Frame& frame) {
    return would_run_with(frame.code.get(), frame.at, frame.fast, depth) ||
           would_run_with(frame.code.get(), frame.at, frame.stack, depth);
  };
  if (is_generator(value)) {
    const auto* made = reinterpret_cast<const TracedGenerator*>(value);
    return made->frame != nullptr && made->started && any_in_frame(*made->frame);
  }
  if (depth > kDeepest && !PyGen_CheckExact(value)) return false;
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) return any(items_now(value));
  if (PyDict_CheckExact(value)) {
    return std::ranges::any_of(entries_now(value),
                               [&](const auto& entry) { return would_run(entry.second.get(), depth + 1); });
  }
  if (!PyGen_CheckExact(value) || frames::is_running(value) || frames::has_ended(value)) return false;
  if (PyObject* twin = region_.generators.twin_of(value)) return would_run(twin, depth);
  const frames::GeneratorState state = frames::state_of_generator(value);
  if (!state.started) return false;
  std::vector<py::Owned<>> values;
  for (PyObject* held : state.values) values.push_back(py::Owned<>::share(held));
  return would_run_with(state.code, std::max(state.next - 2, 0), values, depth);
}

namespace {
[[noreturn]] void refuse_generator() { unsupported(Reason::Finalizer, {{"type", "generator inside a block"}}); }
}  // namespace

void Drops::refuse_lost(PyObject* result, const std::vector<PyObject*>& taken) {
  kept_.insert(result);
  if (PyTuple_CheckExact(result)) {
    for (const auto& item : items_now(result)) kept_.insert(item.get());
  }
  const Frame& last = *region_.top;
  guard_unread(last);
  for (PyObject* value : taken) {
    if (would_run(value)) refuse_generator();
  }
  const auto stays = [&](PyObject* value) {  // the frame that returns lets go of its variables at the end
    const auto is_it = [&](const py::Owned<>& variable) { return variable.get() == value; };
    return kept_.contains(value) || (!last.back && std::ranges::any_of(last.fast, is_it));
  };
  for (const Live& each : live_) {
    if (stays(each.value)) continue;
    if (std::ranges::any_of(each.generators, [&](PyObject* one) { return would_run(one); })) refuse_generator();
    guard_drop_of_live(each);
  }
  refuse_lost_contents();
}

// Nobody has looked at these values. One that goes on with the program is kept, whatever it is; one that was dropped is
// another in the next call perhaps, with code of the program to run.
void Drops::guard_unread(const Frame& last) {
  for (const auto& held : region_.provenance.unread()) {
    const auto& unread = *reinterpret_cast<const Unread*>(held.get());
    const auto is_it = [&](const py::Owned<>& variable) { return variable.get() == held.get(); };
    if (unread.read) continue;
    if (kept_.contains(held.get()) || (!last.back && std::ranges::any_of(last.fast, is_it))) {
      kept_.insert(unread.value);
    } else if (std::ranges::find(live_, unread.source, &Live::source) == live_.end()) {
      region_.provenance.guard(Kind::NO_FINALIZER_OWNED, unread.source, {}, unread.references);
    }
  }
}

// What the containers that the region changed held before.
void Drops::refuse_lost_contents() {
  for (PyObject* object : region_.shadows.in_order()) {
    const Shadow* shadow = region_.shadows.find_as_it_is(object);
    if (!shadow->changed) continue;
    if (shadow->added) {
      for (const auto& item : items_now(shadow->added.get())) kept_.insert(item.get());
      continue;
    }
    PyObject* now = shadow->object.get();
    std::vector<py::Owned<>> before;
    if (PyList_CheckExact(object) && PyList_CheckExact(now)) {
      for (const auto& item : items_now(now)) kept_.insert(item.get());
      before = items_now(object);
    } else if (PyDict_CheckExact(object) && PyDict_CheckExact(now)) {
      for (const auto& [key, item] : entries_now(now)) kept_.insert(item.get());
      for (auto& [key, item] : entries_now(object)) before.push_back(std::move(item));
    }
    if (std::ranges::any_of(before, [&](const auto& item) { return would_run(item.get()); })) refuse_generator();
  }
}

}  // namespace pellucid::region
