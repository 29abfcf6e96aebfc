// What the region lets go of: objects from outside that it writes over or takes out of a container. They die when the
// region's effects are done, at its end, so what runs code of the program then must be let go of in real frames.
#include <algorithm>

#include "frames/finalizers.h"
#include "objects/snapshot.h"
#include "objects/tracer.h"
#include "objects/types.h"
#include "py/cpython311.h"

namespace pellucid::objects {

namespace {
[[noreturn]] void refuse_end(Tracer& tracer, PyObject* value) {
  tracer.unsupported(Reason::Finalizer, {{"type", Py_TYPE(value)->tp_name}});
}
}  // namespace

void Tracer::refuse_to_hold(PyObject* value) {
  if (!is_atom(cat_of(value)) && frames::runs_when_dropped(value, frames::Heirs::All)) refuse_end(*this, value);
}

void Tracer::takes_over(PyObject* value, const Source* source, Py_ssize_t references) {
  const Cat cat = cat_of(value);
  if (is_atom(cat) || known_by_identity(cat) || cat == Cat::Tensor) return;
  TakenOver& taken = taken_over_.emplace_back();
  taken.value = value, taken.source = source, taken.references = references;
  taken.runs =
      Py_REFCNT(value) <= references && frames::runs_when_dropped(value, frames::Heirs::Counted, &taken.generators);
}

// False: it is known to run nothing, as long as the guards hold that there are.
bool Tracer::lets_go(PyObject* value) {
  if (value == nullptr) return true;  // there may be something in a later call
  if (is_atom(cat_of(value))) return true;
  let_go_ = true;
  const bool has_twin = PyGen_CheckExact(value) && known_twin(value) != nullptr;
  if (has_twin ? would_run_when_lost(value)
               : would_run_when_lost(value) || frames::runs_when_dropped(value, frames::Heirs::All)) {
    refuse_end(*this, value);
  }
  return !has_twin;  // where a twin stands is guarded
}

void Tracer::lost(const TakenOver& taken) {
  const bool one_runs = std::ranges::any_of(taken_over_, [](const TakenOver& each) { return each.runs; });
  if (taken.runs || (!one_runs && run_together)) refuse_end(*this, taken.value);
  guard(taken.generators.empty() ? Kind::QUIET_OWNED : Kind::QUIET_BUT_GENERATORS, taken.source, {}, taken.references);
}

void Tracer::lets_go_of_entry(const Source* source, PyObject* key, PyObject* before) {
  if (!lets_go(before)) return;
  if (source->step == source::Step::DictOf && PyUnicode_CheckExact(key)) {
    guard(Kind::QUIET_ATTR, source->base, py::Owned<>::share(key));
  } else {
    guard(Kind::QUIET_KEY, source, py::Owned<>::share(key));
  }
}

void Tracer::lets_go_of_slot(PyObject* object, PyObject* slot, PyObject* before) {
  if (lets_go(before)) guard(Kind::QUIET_SLOT, source_of(object), py::Owned<>::share(slot));
}

void Tracer::lets_go_of_contents(PyObject* cell) {
  if (lets_go(PyCell_GET(cell))) guard(Kind::QUIET, source_of(cell), {}, 1);
}

void Tracer::lets_go_of_walked(PyObject* iterator) {
  const Source* const own = source_of(iterator);
  for (const Source* source = own; source != nullptr;
       source = source->step == source::Step::Part ? source->base : nullptr) {
    const auto taken = std::ranges::find(taken_over_, source, &TakenOver::source);
    if (taken != taken_over_.end()) return lost(*taken);
  }
  if (own != nullptr && lets_go(iterator)) guard(Kind::QUIET, own);
}

// Of a container that was touched: where its elements came from is known.
void Tracer::lets_go_of_item(PyObject* item) {
  const Source* source = source_of(item);
  if (source != nullptr && !is_atom(cat_of(item)) && lets_go(item)) guard(Kind::QUIET, source);
}

void Tracer::lets_go_of_item_at(PyObject* list, PyObject* index) {
  PyObject* view = readable(list);
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at == -1 && PyErr_Occurred()) PyErr_Clear();  // the store says so
  if (at < 0) at += PyList_GET_SIZE(view);
  if (at >= 0 && at < PyList_GET_SIZE(view)) lets_go_of_item(PyList_GET_ITEM(view, at));
}

void Tracer::lets_go_of_items(PyObject* container) {
  if (!drained_.insert(container).second) return;
  switch (cat_of(container)) {
    case Cat::Dict:
      for (const auto& [key, value] : entries_now(container)) lets_go_of_item(value.get());
      return;
    case Cat::List:
      for (const auto& item : items_now(container)) lets_go_of_item(item.get());
      return;
    case Cat::Set:
    case Cat::Deque: {
      const auto items = elements_now(container);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) lets_go_of_item(PyList_GET_ITEM(items.get(), i));
      return;
    }
    default:
      return;
  }
}

}  // namespace pellucid::objects
