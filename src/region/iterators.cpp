#include "region/iterators.h"

#include "py/cpython.h"
#include "py/iterators.h"
#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {
namespace {

using py::IteratorKind;

constexpr int kDeepest = 40;  // of iterators over iterators
constexpr Py_ssize_t kMostAtOnce = 20000;

bool is_dict_kind(IteratorKind kind) {
  return kind == IteratorKind::DictKeys || kind == IteratorKind::DictValues || kind == IteratorKind::DictItems;
}

bool has_container(IteratorKind kind) {
  return kind == IteratorKind::List || kind == IteratorKind::ListReverse || is_dict_kind(kind) ||
         kind == IteratorKind::Set || kind == IteratorKind::Deque;
}

[[noreturn]] void refuse(PyObject* iterator, const char* which) {
  throw GraphBreak(Reason::OutsideIterator, {{"type", std::string(Py_TYPE(iterator)->tp_name) + " " + which}});
}

}  // namespace

py::Owned<> Iterators::part(PyObject* iterator, std::int64_t index) {
  py::Owned<> fresh;
  auto held = py::Owned<>::share(py::iterator_part(iterator, index, fresh));
  if (!held) return {};
  region_.provenance.note_read(held.get(),
                               region_.capture->sources.part(region_.provenance.source_of(iterator), index));
  return held;
}

const std::vector<py::Owned<>>& Iterators::parts(PyObject* iterator) {
  const auto [place, fresh] = parts_.try_emplace(iterator);
  auto& all = place->second;
  if (!fresh) return all;
  std::int64_t count = py::iterator_shape(iterator);
  region_.provenance.guard(Kind::ITERATOR_SHAPE, region_.provenance.source_of(iterator), {}, count);
  if (count < 0) count = -count - 1;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(part(iterator, i));
  return all;
}

py::Owned<> Iterators::view(PyObject* view) {
  if (!region_.provenance.is_outside(view) || py::dict_of_view(view) == nullptr) return {};
  auto dict = part(view, 0);
  const char* method = Py_IS_TYPE(view, &PyDictKeys_Type)     ? "keys"
                       : Py_IS_TYPE(view, &PyDictValues_Type) ? "values"
                                                              : "items";
  PyObject* make = py::type_lookup(&PyDict_Type, py::interned(method).get());
  return py::take(PyObject_CallOneArg(make, region_.shadows.view_of(dict.get())));
}

bool Iterators::is_known(PyObject* object) {
  std::vector<PyObject*> open{object};
  for (std::size_t i = 0; i < open.size(); ++i) {
    PyObject* iterator = open[i];
    const IteratorKind kind = py::iterator_kind(iterator);
    if (kind == IteratorKind::Unknown || i > kDeepest) return false;
    if (!py::is_compound(kind)) continue;
    const bool calls = kind == IteratorKind::Map || kind == IteratorKind::Filter;
    if (calls && i != 0) return false;
    py::Owned<> fresh;
    const std::int64_t end = kind == IteratorKind::Enumerate ? 1 : PY_SSIZE_T_MAX;
    for (std::int64_t part = calls ? 1 : 0; part < end; ++part) {
      PyObject* inner = py::iterator_part(iterator, part, fresh);
      if (inner == nullptr) break;
      open.push_back(inner);
    }
  }
  return true;
}

Iterators::State Iterators::state_of(PyObject* iterator) const {
  const auto found = states_.find(iterator);
  return found == states_.end() ? State() : found->second;
}

void Iterators::note_moved(PyObject* iterator, bool ended) {
  ++region_.outside_writes;
  if (ended) region_.drops.guard_drop_of_walked(iterator);
  const auto [place, fresh] = states_.try_emplace(iterator);
  if (fresh) order_.push_back(iterator);
  State& state = place->second;
  if (state.step != region_.steps) {
    state.step = region_.steps;
    state.taken_before = state.taken;
    state.ended_before = state.ended;
  }
  state.taken += ended ? 0 : 1;
  state.ended = ended;
}

void Iterators::note_used_up(PyObject* iterator, PyObject* elements) {
  if (PyTuple_GET_SIZE(elements) == 0) return;
  if (used_up_at_ != region_.steps) used_up_.clear();
  used_up_at_ = region_.steps;
  region_.provenance.keep(iterator);
  used_up_.emplace_back(iterator, py::Owned<>::share(elements));
}

void Iterators::undo_unfinished() {
  if (used_up_at_ == region_.steps) {
    for (auto& [iterator, elements] : used_up_) region_.capture->given_back.try_emplace(iterator, std::move(elements));
    used_up_.clear();
  }
  for (auto& [iterator, state] : states_) {
    if (state.step != region_.steps) continue;
    state.taken = state.taken_before;
    state.ended = state.ended_before;
  }
}

py::Owned<> Iterators::next(PyObject* iterator, int depth) {
  if (depth > kDeepest) refuse(iterator, "over too many others");
  const Source* source = region_.provenance.source_of(iterator);
  const IteratorKind kind = py::iterator_kind(iterator);
  if (source == nullptr || kind == IteratorKind::Unknown || kind == IteratorKind::Map || kind == IteratorKind::Filter)
    refuse(iterator, "from outside of the region");
  if (kind == IteratorKind::Enumerate) return next_of_enumerate(iterator, depth);
  if (kind == IteratorKind::Zip) return next_of_zip(iterator, depth);
  return next_of_simple(iterator, source);
}

py::Owned<> Iterators::next_of_enumerate(PyObject* iterator, int depth) {
  const auto& inner = parts(iterator);
  if (inner.size() != 2) refuse(iterator, "that counts with big ints");
  auto item = next(inner[0].get(), depth + 1);
  if (!item) return {};
  auto offset = py::take(PyLong_FromLongLong(state_of(iterator).taken));
  auto number = py::take(PyNumber_Add(inner[1].get(), offset.get()));
  note_moved(iterator, false);
  return py::take(PyTuple_Pack(2, number.get(), item.get()));
}

py::Owned<> Iterators::next_of_zip(PyObject* iterator, int depth) {
  const bool strict = py::iterator_shape(iterator) < 0;
  const auto& inner = parts(iterator);
  if (inner.empty()) return {};
  auto items = py::take(PyTuple_New(static_cast<Py_ssize_t>(inner.size())));
  for (std::size_t i = 0; i < inner.size(); ++i) {
    auto item = next(inner[i].get(), depth + 1);
    if (item) {
      PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), item.release());
      continue;
    }
    for (std::size_t k = i == 0 ? 1 : 0; strict && k < inner.size(); ++k) {
      if (i != 0 || next(inner[k].get(), depth + 1)) refuse(iterator, "of unequal lengths");
    }
    return {};
  }
  return items;
}

// The region wrote to the dict: goes on as long as the keys are the same.
void Iterators::guard_same_keys(PyObject* iterator, PyObject* dict, const Shadow& shadow) {
  const auto before = entries_now(dict), now = entries_now(shadow.object.get());
  bool same = before.size() == now.size() && shadow.written;
  for (std::size_t i = 0; same && i < now.size(); ++i) same = before[i].first.get() == now[i].first.get();
  if (!same) refuse(iterator, "whose dict has changed");
  auto written = py::take(PySequence_List(shadow.written.get()));
  for (const auto& key : items_now(written.get())) region_.reads.guard_presence(dict, key.get());
}

// A list that has changed: what the iterator gives depends on where it stands in it.
py::Owned<> Iterators::next_of_changed_list(PyObject* iterator, const Source* source, PyObject* list) {
  const std::int64_t position = py::iterator_position(iterator);
  region_.provenance.guard(Kind::ITERATOR_AT, source, {}, position);
  PyObject* view = region_.shadows.readable(list);
  const std::int64_t at = position + state_of(iterator).taken;
  const bool ended = position < 0 || at >= PyList_GET_SIZE(view);
  auto item = ended ? py::Owned<>() : py::Owned<>::share(PyList_GET_ITEM(view, static_cast<Py_ssize_t>(at)));
  note_moved(iterator, ended);
  return item;
}

py::Owned<> Iterators::next_of_simple(PyObject* iterator, const Source* source) {
  const IteratorKind kind = py::iterator_kind(iterator);
  const State state = state_of(iterator);
  if (state.ended) return {};
  const Shadow* changed = nullptr;
  py::Owned<> container = has_container(kind) ? part(iterator, 0) : py::Owned<>();
  if (container) {
    const Shadow* shadow = region_.shadows.find(container.get());
    if (shadow != nullptr && shadow->changed) changed = shadow;
  }
  if (changed != nullptr && kind == IteratorKind::List) return next_of_changed_list(iterator, source, container.get());
  if (changed != nullptr && !is_dict_kind(kind)) refuse(iterator, "whose container has changed");
  if (changed != nullptr) guard_same_keys(iterator, container.get(), *changed);
  const std::int64_t left = py::iterator_left(iterator, state.taken + 1);
  if (left < 0) refuse(iterator, "from outside of the region");
  if (left <= state.taken) {
    region_.provenance.guard(Kind::ITERATOR_LEFT, source, {}, state.taken);
    note_moved(iterator, true);
    return {};
  }
  auto item = item_ahead(iterator, state.taken, changed);
  note_moved(iterator, false);
  return item;
}

py::Owned<> Iterators::item_ahead(PyObject* iterator, std::int64_t ahead, const Shadow* changed) {
  const Source* source = region_.provenance.source_of(iterator);
  const IteratorKind kind = py::iterator_kind(iterator);
  const auto read = [&](bool value) {
    py::Owned<> fresh;
    auto item = py::Owned<>::share(py::iterator_ahead(iterator, ahead, value, fresh));
    if (!item) refuse(iterator, "from outside of the region");
    if (cat_of(item.get()) == Cat::Cell)
      region_.provenance.guard(Kind::ITERATOR_HAS, source, {}, ahead + 1);  // a cell has no guard
    const Source* place =
        value ? region_.capture->sources.value_ahead(source, ahead) : region_.capture->sources.ahead(source, ahead);
    if (!draining_) return region_.numbers.read(item.get(), place);
    region_.provenance.note_read(item.get(), place);
    return item;
  };
  if (changed != nullptr && kind == IteratorKind::DictValues) refuse(iterator, "whose dict has changed");
  auto first = read(false);
  if (kind != IteratorKind::DictItems) return first;
  py::Owned<> value;
  if (changed != nullptr) {
    if (!is_atom(cat_of(first.get()))) refuse(iterator, "whose dict has changed");
    if (changed->wrote(first.get()))
      value = py::Owned<>::share(PyDict_GetItemWithError(changed->object.get(), first.get()));
  }
  if (!value) value = read(true);
  return py::take(PyTuple_Pack(2, first.get(), value.get()));
}

void Iterators::note_walker(PyObject* container, PyObject* walker) {
  if (region_.provenance.is_outside(container) && region_.shadows.readable(container) == container)
    walkers_.emplace_back(container, py::Owned<>::share(walker));
}

// A copy of a set or of a subclass of OrderedDict may have another order, so what the region made to walk it walks the
// original: it would not notice that the region changes the copy.
void Iterators::refuse_in_use(PyObject* container) {
  py::Owned<> fresh;
  for (const auto& [walked, walker] : walkers_) {
    if (walked != container || Py_REFCNT(walker.get()) == 1) continue;
    const bool can_end = py::iterator_kind(walker.get()) != py::IteratorKind::Unknown;
    if (can_end && py::iterator_part(walker.get(), 0, fresh) == nullptr) continue;  // it has
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("a ") + Py_TYPE(container)->tp_name + " that is being iterated"}});
  }
}

py::Owned<> Iterators::rest(PyObject* iterator) {
  took_all_at_ = region_.steps;
  auto items = py::take(PyList_New(0));
  draining_ = true;
  while (auto item = next(iterator)) {
    if (PyList_GET_SIZE(items.get()) == kMostAtOnce) refuse(iterator, "with too many elements");
    py::check(PyList_Append(items.get(), item.get()));
  }
  draining_ = false;
  return py::take(PyList_AsTuple(items.get()));
}

bool Iterators::took_all_now() const { return took_all_at_ == region_.steps; }

void Iterators::changes(std::vector<Effect>& out) const {
  for (PyObject* iterator : order_) {
    const State& state = states_.at(iterator);
    if (state.taken == 0 && !state.ended) continue;
    Effect effect;
    effect.kind = Effect::Kind::Advance;
    effect.target = py::Owned<>::share(iterator);
    effect.count = state.taken;
    effect.ends = state.ended;
    out.push_back(std::move(effect));
  }
}

}  // namespace pellucid::region
