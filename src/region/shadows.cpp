#include "region/shadows.h"

#include "py/cpython.h"
#include "py/set_table.h"
#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {
namespace {

PyObject* deque_type() {
  static PyObject* type = py::import_attr("collections", "deque").release();
  return type;
}

// It walks along its own order and looks each key up, which finds no key whose hash has changed since it was stored. A
// write of another key does not mind that one.
py::Owned<> copy_of_ordered_dict(PyObject* container) {
  auto copy = py::Owned<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyODict_Type), container));
  if (copy) return copy;
  if (PyErr_ExceptionMatches(PyExc_KeyError) == 0) py::throw_pending();
  PyErr_Clear();
  throw GraphBreak(Reason::UnsupportedMutation, {{"target", "an OrderedDict with a key whose hash has changed"}});
}

// A copy that shares the elements, of the same exact type when that is a builtin one.
py::Owned<> copy_of(PyObject* container) {
  switch (cat_of(container)) {
    case Cat::List:
      return py::take(PyList_GetSlice(container, 0, PyList_GET_SIZE(container)));
    case Cat::Dict: {
      if (PyODict_CheckExact(container)) return copy_of_ordered_dict(container);
      return copy_of_dict(container);
    }
    case Cat::Set:
      return py::copy_with_table(container, kNotPopped);
    case Cat::Deque: {
      // Not copy.copy, which asks a subclass.
      auto* type = reinterpret_cast<PyTypeObject*>(deque_type());
      PyObject* getset = py::type_lookup(type, py::interned("maxlen").get());
      auto most = py::take(Py_TYPE(getset)->tp_descr_get(getset, container, deque_type()));
      return py::take(PyObject_CallFunctionObjArgs(deque_type(), elements_now(container).get(), most.get(), nullptr));
    }
    default:
      throw GraphBreak(Reason::UnsupportedMutation, {{"target", std::string("a ") + Py_TYPE(container)->tp_name}});
  }
}

}  // namespace

const Shadow* Shadows::find_as_it_is(PyObject* container) const {
  const auto found = shadows_.find(container);
  return found == shadows_.end() ? nullptr : &found->second;
}

const Shadow* Shadows::find(PyObject* container) {
  const auto found = shadows_.find(container);
  if (found == shadows_.end()) return nullptr;
  complete(container, found->second);
  if (found->second.changed) ++region_.reads_of_written;
  return &found->second;
}

PyObject* Shadows::readable(PyObject* container) {
  const Shadow* shadow = find(container);
  return shadow == nullptr ? container : shadow->object.get();
}

PyObject* Shadows::original(PyObject* maybe_shadow) const {
  auto it = shadowed_by_.find(maybe_shadow);
  return it == shadowed_by_.end() ? maybe_shadow : it->second;
}

Shadow& Shadows::shadow_of(PyObject* container, bool touch_all) {
  auto it = shadows_.find(container);
  if (it != shadows_.end()) {
    complete(container, it->second);
    return it->second;
  }
  region_.iterators.refuse_in_use(container);
  Shadow shadow;
  shadow.object = copy_of(container);
  if (touch_all) region_.reads.read_all(container, shadow.object.get());
  region_.provenance.keep(container);
  order_.push_back(container);
  shadowed_by_.emplace(shadow.object.get(), container);
  return shadows_.emplace(container, std::move(shadow)).first->second;
}

void Shadows::append(PyObject* list, PyObject* item) {
  const auto known = shadows_.find(list);
  const bool only_grows = known == shadows_.end() ? PyList_CheckExact(list) && region_.provenance.is_outside(list)
                                                  : static_cast<bool>(known->second.added);
  if (!only_grows) {
    py::check(PyList_Append(growable(list), item));
    return;
  }
  if (known == shadows_.end()) {
    region_.iterators.refuse_in_use(list);
    region_.provenance.keep(list);
    order_.push_back(list);
    Shadow& shadow = shadows_[list];
    shadow.changed = true;
    shadow.added = py::take(PyList_New(0));
  }
  ++region_.outside_writes;
  py::check(PyList_Append(shadows_.at(list).added.get(), item));
}

// The program looks at a list that has grown: what it held before is read now.
void Shadows::complete(PyObject* list, Shadow& shadow) {
  if (!shadow.added) return;
  const py::Owned<> added = std::move(shadow.added);
  shadow.object = copy_of(list);
  shadowed_by_.emplace(shadow.object.get(), list);
  region_.reads.read_all(list, shadow.object.get());
  for (const auto& item : items_now(added.get())) py::check(PyList_Append(shadow.object.get(), item.get()));
}

PyObject* Shadows::view_of(PyObject* container) {
  if (!region_.provenance.is_outside(container)) return container;
  if (find(container) != nullptr) region_.reads.touch(container);  // what a write has left unread
  const Cat cat = cat_of(container);
  PyTypeObject* type = Py_TYPE(container);
  // Of a subclass of dict the copy is a dict: in the same order unless the class keeps one of its own.
  const bool walks_as_dict = PyODict_CheckExact(container) || type->tp_iter == PyDict_Type.tp_iter;
  if (cat == Cat::List || cat == Cat::Deque || (cat == Cat::Dict && walks_as_dict)) {
    return shadow_of(container, true).object.get();
  }
  return region_.reads.touch(container);
}

PyObject* Shadows::writable(PyObject* container) {
  PyObject* target = growable(container);
  if (region_.provenance.is_outside(container)) region_.drops.guard_drop_of_items(container);
  return target;
}

PyObject* Shadows::growable(PyObject* container) {
  if (!region_.provenance.is_outside(container)) return container;
  if (cat_of(container) == Cat::Dict && !PyDict_CheckExact(container) && !PyODict_CheckExact(container)) {
    // defaultdict and Python subclasses: their extra state is not copied, so only plain storage operations may use the
    // shadow.
    if (Py_TYPE(container)->tp_as_mapping->mp_subscript != PyDict_Type.tp_as_mapping->mp_subscript) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("a ") + Py_TYPE(container)->tp_name + " from outside"}});
    }
  }
  Shadow& shadow = shadow_of(container, true);
  if (cat_of(container) == Cat::Dict) {
    region_.reads.touch(container);
    shadow.is_read = true;
  }
  shadow.changed = true;
  ++region_.outside_writes;
  return shadow.object.get();
}

// What the replay of a write takes for granted: that a value which does not change is there already, and, when several
// keys are written, which of them are new and so take their places at the end.
void Shadows::guard_replay(PyObject* dict, const Shadow& shadow, PyObject* key, PyObject* value, bool again) {
  PyObject* before = region_.reads.stored(dict, key);
  if (!again) region_.drops.guard_drop_of_entry(region_.provenance.source_of(dict), key, before);
  if (before != nullptr && before == value) {
    auto held = py::Owned<>::share(before);
    region_.provenance.note_read(before, region_.capture->sources.dict_item(region_.provenance.source_of(dict), key));
  }
  if (again) {
    // Back after a deletion: behind all the others, which are written again.
    if (region_.reads.stored(shadow.object.get(), key) == nullptr) region_.reads.touch(dict);
    return;
  }
  const Py_ssize_t others = PyDict_GET_SIZE(shadow.written.get());
  if (others == 0) return;
  if (others == 1) {
    auto first = py::take(PySequence_Tuple(shadow.written.get()));
    region_.reads.guard_presence(dict, PyTuple_GET_ITEM(first.get(), 0));
  }
  region_.reads.guard_presence(dict, key);
}

void Shadows::dict_set(PyObject* dict, PyObject* key, PyObject* value) {
  PyObject* target = dict;
  region_.reads.guard_key(dict, key);
  if (region_.provenance.is_outside(dict)) {
    Shadow& shadow = shadow_of(dict, false);
    if (!shadow.written) shadow.written = py::take(PyDict_New());
    const bool again = shadow.wrote(key);
    if (value == nullptr && !again) region_.reads.dict_contains(dict, key);
    if (value == nullptr && again)
      region_.reads.guard_presence(dict, key);  // whether anything of it stays to be deleted
    guard_replay(dict, shadow, key, value, again);
    const bool back = again && region_.reads.stored(shadow.object.get(), key) == nullptr;
    if (back) py::check(PyDict_DelItem(shadow.written.get(), key));
    if (PyDict_SetDefault(shadow.written.get(), key, key) == nullptr) py::throw_pending();
    shadow.changed = true;
    ++region_.outside_writes;
    target = shadow.object.get();
  }
  const bool ordered = PyODict_Check(target);
  if (value == nullptr) {
    py::check(ordered ? PyODict_DelItem(target, key) : PyDict_DelItem(target, key));
  } else {
    py::check(ordered ? PyODict_SetItem(target, key, value) : PyDict_SetItem(target, key, value));
  }
}

PyObject* Shadows::cell_get(PyObject* cell) {
  if (auto it = cell_values_.find(cell); it != cell_values_.end()) {
    ++region_.reads_of_written;
    return it->second.get();
  }
  PyObject* value = PyCell_GET(cell);
  if (const Source* source = region_.provenance.source_of(cell)) {
    if (value == nullptr) {
      region_.provenance.guard(Kind::CELL_EMPTY, source, {}, 1);
    } else {
      return region_.numbers.read(value, region_.capture->sources.cell_contents(source)).get();  // the region keeps it
    }
  }
  return value;
}

PyObject* Shadows::cell_at_hand(PyObject* cell) const {
  const auto written = cell_values_.find(cell);
  return written == cell_values_.end() ? PyCell_GET(cell) : written->second.get();
}

void Shadows::cell_set(PyObject* cell, PyObject* value) {
  if (region_.provenance.is_outside(cell)) {
    if (!cell_values_.contains(cell)) region_.drops.guard_drop_of_contents(cell);
    cell_values_.insert_or_assign(cell, py::Owned<>::share(value));
    ++region_.outside_writes;
  } else {
    py::check(PyCell_Set(cell, value));
  }
}

std::unordered_map<PyObject*, PyObject*> Shadows::take_stand_ins() { return std::move(shadowed_by_); }

void Shadows::changes_of_containers(std::vector<Effect>& out, bool as_copies) const {
  for (PyObject* object : order_) {
    const Shadow& shadow = shadows_.at(object);
    if (!shadow.changed) continue;
    Effect effect;
    if (shadow.added) {
      effect.kind = Effect::Kind::AppendToList;
      effect.target = py::Owned<>::share(object);
      effect.value = shadow.added.copy();
      out.push_back(std::move(effect));
      continue;
    }
    switch (cat_of(object)) {
      case Cat::List:
        effect.kind = Effect::Kind::SetList;
        break;
      case Cat::Dict:
        effect.kind = Effect::Kind::SetDict;
        effect.keys = shadow.written.copy();
        break;
      case Cat::Set:
        effect.kind = Effect::Kind::SetSet;
        break;
      default:
        effect.kind = Effect::Kind::SetDeque;
        break;
    }
    effect.target = py::Owned<>::share(object);
    PyObject* copy = shadow.object.get();
    effect.value = !as_copies          ? py::Owned<>::share(copy)
                   : PySet_Check(copy) ? py::copy_with_table(copy, py::finger_of(copy))
                                       : py::take(PyObject_CallMethod(copy, "copy", nullptr));
    out.push_back(std::move(effect));
  }
}

void Shadows::changes_of_cells(std::vector<Effect>& out) const {
  for (const auto& [cell, value] : cell_values_) {
    Effect effect;
    effect.kind = Effect::Kind::SetCell;
    effect.target = py::Owned<>::share(cell);
    effect.value = value.copy();
    out.push_back(std::move(effect));
  }
}

}  // namespace pellucid::region
