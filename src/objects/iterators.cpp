// Iterators from outside. What an iterator gives is read ahead of where it stands (source Step::Ahead), so a region
// that takes two elements fits wherever two are left, and the iterator itself moves only when the region's effects
// happen.
#include "py/iterators.h"

#include "objects/snapshot.h"
#include "objects/tracer.h"
#include "py/cpython311.h"

namespace pellucid::objects {
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

py::Owned<> Tracer::part_of_outside(PyObject* iterator, std::int64_t index) {
  py::Owned<> fresh;
  PyObject* part = py::iterator_part(iterator, index, fresh);
  if (part == nullptr) return {};
  auto held = py::Owned<>::share(part);
  saw(part, capture_->sources.part(source_of(iterator), index));
  return held;
}

const std::vector<py::Owned<>>& Tracer::parts_of_outside(PyObject* iterator) {
  const auto [place, fresh] = iterator_parts_.try_emplace(iterator);
  auto& parts = place->second;
  if (!fresh) return parts;
  std::int64_t count = py::iterator_shape(iterator);
  guard(Kind::ITERATOR_SHAPE, source_of(iterator), {}, count);
  if (count < 0) count = -count - 1;
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(part_of_outside(iterator, i));
  return parts;
}

py::Owned<> Tracer::view_of_outside(PyObject* view) {
  if (!is_outside(view) || py::dict_of_view(view) == nullptr) return {};
  auto dict = part_of_outside(view, 0);
  const char* method = Py_IS_TYPE(view, &PyDictKeys_Type)     ? "keys"
                       : Py_IS_TYPE(view, &PyDictValues_Type) ? "values"
                                                              : "items";
  PyObject* make = py::type_lookup(&PyDict_Type, py::interned(method).get());
  return py::take(PyObject_CallOneArg(make, view_of(dict.get())));
}

bool Tracer::is_known_iterator(PyObject* object) const {
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

void Tracer::has_moved(PyObject* iterator, bool ended) {
  if (ended) lets_go_of_walked(iterator);
  const auto [place, fresh] = iterators_.try_emplace(iterator);
  if (fresh) order_of_iterators_.push_back(iterator);
  IteratorState& state = place->second;
  if (state.step != steps) {
    state.step = steps;
    state.taken_before = state.taken;
    state.ended_before = state.ended;
  }
  state.taken += ended ? 0 : 1;
  state.ended = ended;
}

void Tracer::undo_unfinished() {
  for (auto& [iterator, state] : iterators_) {
    if (state.step != steps) continue;
    state.taken = state.taken_before;
    state.ended = state.ended_before;
  }
}

py::Owned<> Tracer::next_of_outside(PyObject* iterator, int depth) {
  if (depth > kDeepest) refuse(iterator, "over too many others");
  const Source* source = source_of(iterator);
  const IteratorKind kind = py::iterator_kind(iterator);
  if (source == nullptr || kind == IteratorKind::Unknown || kind == IteratorKind::Map || kind == IteratorKind::Filter)
    refuse(iterator, "from outside of the region");
  if (kind == IteratorKind::Enumerate) return next_of_enumerate(iterator, depth);
  if (kind == IteratorKind::Zip) return next_of_zip(iterator, depth);
  return next_of_simple(iterator, source);
}

py::Owned<> Tracer::next_of_enumerate(PyObject* iterator, int depth) {
  const auto& parts = parts_of_outside(iterator);
  if (parts.size() != 2) refuse(iterator, "that counts with big ints");
  auto item = next_of_outside(parts[0].get(), depth + 1);
  if (!item) return {};
  const auto found = iterators_.find(iterator);
  const std::int64_t taken = found == iterators_.end() ? 0 : found->second.taken;
  auto offset = py::take(PyLong_FromLongLong(taken));
  auto number = py::take(PyNumber_Add(parts[1].get(), offset.get()));
  has_moved(iterator, false);
  return py::take(PyTuple_Pack(2, number.get(), item.get()));
}

py::Owned<> Tracer::next_of_zip(PyObject* iterator, int depth) {
  const bool strict = py::iterator_shape(iterator) < 0;
  const auto& parts = parts_of_outside(iterator);
  if (parts.empty()) return {};
  auto items = py::take(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto item = next_of_outside(parts[i].get(), depth + 1);
    if (item) {
      PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), item.release());
      continue;
    }
    for (std::size_t k = i == 0 ? 1 : 0; strict && k < parts.size(); ++k) {
      if (i != 0 || next_of_outside(parts[k].get(), depth + 1)) refuse(iterator, "of unequal lengths");
    }
    return {};
  }
  return items;
}

// The region wrote to the dict: goes on as long as the keys are the same.
void Tracer::guard_same_keys(PyObject* iterator, PyObject* dict, const Shadow& shadow) {
  const auto before = entries_now(dict), now = entries_now(shadow.object.get());
  bool same = before.size() == now.size() && !shadow.keys_guarded && shadow.written;
  for (std::size_t i = 0; same && i < now.size(); ++i) same = before[i].first.get() == now[i].first.get();
  if (!same) refuse(iterator, "whose dict has changed");
  auto written = py::take(PySequence_List(shadow.written.get()));
  for (const auto& key : items_now(written.get())) guard_presence(dict, key.get());
}

// A list that has changed: what the iterator gives depends on where it stands in it.
py::Owned<> Tracer::next_of_changed_list(PyObject* iterator, const Source* source, PyObject* list) {
  const std::int64_t position = py::iterator_position(iterator);
  guard(Kind::ITERATOR_AT, source, {}, position);
  PyObject* view = readable(list);
  const auto found = iterators_.find(iterator);
  const std::int64_t at = position + (found == iterators_.end() ? 0 : found->second.taken);
  const bool ended = position < 0 || at >= PyList_GET_SIZE(view);
  auto item = ended ? py::Owned<>() : py::Owned<>::share(PyList_GET_ITEM(view, static_cast<Py_ssize_t>(at)));
  has_moved(iterator, ended);
  return item;
}

py::Owned<> Tracer::next_of_simple(PyObject* iterator, const Source* source) {
  const IteratorKind kind = py::iterator_kind(iterator);
  const auto found = iterators_.find(iterator);
  const IteratorState state = found == iterators_.end() ? IteratorState() : found->second;
  if (state.ended) return {};
  const Shadow* changed = nullptr;
  py::Owned<> container = has_container(kind) ? part_of_outside(iterator, 0) : py::Owned<>();
  if (container) {
    const auto shadow = shadows_.find(container.get());
    if (shadow != shadows_.end() && shadow->second.changed) changed = &shadow->second;
  }
  if (changed != nullptr && kind == IteratorKind::List) return next_of_changed_list(iterator, source, container.get());
  if (changed != nullptr && !is_dict_kind(kind)) refuse(iterator, "whose container has changed");
  if (changed != nullptr) guard_same_keys(iterator, container.get(), *changed);
  const std::int64_t left = py::iterator_left(iterator, state.taken + 1);
  if (left < 0) refuse(iterator, "from outside of the region");
  if (left <= state.taken) {
    guard(Kind::ITERATOR_LEFT, source, {}, state.taken);
    has_moved(iterator, true);
    return {};
  }
  auto item = item_ahead(iterator, state.taken, changed);
  has_moved(iterator, false);
  return item;
}

py::Owned<> Tracer::item_ahead(PyObject* iterator, std::int64_t ahead, const Shadow* changed) {
  const Source* source = source_of(iterator);
  const IteratorKind kind = py::iterator_kind(iterator);
  const auto read = [&](bool value) {
    py::Owned<> fresh;
    auto item = py::Owned<>::share(py::iterator_ahead(iterator, ahead, value, fresh));
    if (!item) refuse(iterator, "from outside of the region");
    if (cat_of(item.get()) == Cat::Cell) guard(Kind::ITERATOR_HAS, source, {}, ahead + 1);  // a cell has no guard
    saw(item.get(), value ? capture_->sources.value_ahead(source, ahead) : capture_->sources.ahead(source, ahead));
    return item;
  };
  if (changed != nullptr && kind == IteratorKind::DictValues) refuse(iterator, "whose dict has changed");
  auto first = read(false);
  if (kind != IteratorKind::DictItems) return first;
  py::Owned<> value;
  if (changed != nullptr) {
    if (!is_atom(cat_of(first.get()))) refuse(iterator, "whose dict has changed");
    if (written(*changed, first.get()))
      value = py::Owned<>::share(PyDict_GetItemWithError(changed->object.get(), first.get()));
  }
  if (!value) value = read(true);
  return py::take(PyTuple_Pack(2, first.get(), value.get()));
}

void Tracer::walks(PyObject* container, PyObject* walker) {
  if (is_outside(container) && readable(container) == container)
    walkers_.emplace_back(container, py::Owned<>::share(walker));
}

// A copy of a set or of a subclass of OrderedDict may have another order, so what the region made to walk it walks the
// original: it would not notice that the region changes the copy.
void Tracer::refuse_in_use(PyObject* container) {
  py::Owned<> fresh;
  for (const auto& [walked, walker] : walkers_) {
    if (walked != container || Py_REFCNT(walker.get()) == 1) continue;
    const bool can_end = py::iterator_kind(walker.get()) != py::IteratorKind::Unknown;
    if (can_end && py::iterator_part(walker.get(), 0, fresh) == nullptr) continue;  // it has
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("a ") + Py_TYPE(container)->tp_name + " that is being iterated"}});
  }
}

py::Owned<> Tracer::rest_of_outside(PyObject* iterator) {
  took_all_at_ = steps;
  auto items = py::take(PyList_New(0));
  while (auto item = next_of_outside(iterator)) {
    if (PyList_GET_SIZE(items.get()) == kMostAtOnce) refuse(iterator, "with too many elements");
    py::check(PyList_Append(items.get(), item.get()));
  }
  return py::take(PyList_AsTuple(items.get()));
}

}  // namespace pellucid::objects
