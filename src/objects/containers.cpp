// Containers from outside: guarded when read, shadowed when written or iterated.
#include <algorithm>

#include "guards/equality.h"
#include "objects/enums.h"
#include "objects/snapshot.h"
#include "objects/tracer.h"
#include "py/cpython311.h"
#include "py/keys.h"
#include "py/native_lookup.h"
#include "py/set_table.h"

namespace pellucid::objects {
namespace {

PyObject* deque_type() {
  static PyObject* type = py::import_attr("collections", "deque").release();
  return type;
}
bool is_deque(PyObject* o) { return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(deque_type())); }

// A copy that shares the elements, of the same exact type when that is a builtin one.
py::Owned<> copy_of(PyObject* container) {
  switch (cat_of(container)) {
    case Cat::List:
      return py::take(PyList_GetSlice(container, 0, PyList_GET_SIZE(container)));
    case Cat::Dict: {
      if (PyODict_CheckExact(container))
        return py::take(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyODict_Type), container));
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

PyObject* Tracer::readable(PyObject* container) {
  auto it = shadows_.find(container);
  return it == shadows_.end() ? container : it->second.object.get();
}

PyObject* Tracer::original(PyObject* maybe_shadow) {
  auto it = shadowed_by_.find(maybe_shadow);
  return it == shadowed_by_.end() ? maybe_shadow : it->second;
}

namespace {
// A class of Python code over a builtin type, a tuple say, may bring a __hash__ or __eq__ of its own.
bool hashes_in_python(Tracer& tracer, PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  for (PyObject* name : {names().__hash__, names().__eq__}) {
    PyObject* method = tracer.type_lookup(type, name);
    if (method != nullptr && PyFunction_Check(method)) return true;
  }
  return false;
}

// `apart`: what C code tells apart by identity.
bool is_known_key(Tracer& t, PyObject* key, Cat cat, std::vector<PyObject*>& apart) {
  PyTypeObject* type = Py_TYPE(key);
  if (type->tp_hash == PyObject_HashNotImplemented) return true;  // the TypeError is C code's
  Py_hash_t hash = 0;
  if (!py::known_hash(key, &hash)) return false;
  PyObject* owner = py::is_bound_by_identity(type) ? py::key_part(key, 0) : nullptr;
  if (owner != nullptr && cat == Cat::BoundMethod) {
    t.getattr(key, names().__self__);
    t.getattr(key, names().dunder_func);
  }
  if (owner != nullptr && t.is_outside(t.original(owner))) apart.push_back(t.original(owner));
  const Source* source = t.source_of(key);
  if (source == nullptr || is_atom(cat)) return true;
  if (py::is_key_by_identity(type)) {
    apart.push_back(key);
  } else if (cat == Cat::Other && !guards::has_builtin_value(key) && source->step != source::Step::Const) {
    t.guard(Kind::KEY_MATCH, source, py::Owned<>::share(key));  // a Decimal, a date: often made anew for each call
  }
  return true;
}

// What the dict has under the key; null: nothing. A key of Python code in its way is a break.
PyObject* stored(Tracer& t, PyObject* dict, PyObject* key) {
  const py::Entry entry = t.is_outside(t.original(dict)) ? py::native_dict_find(dict, key) : py::Entry{nullptr, false};
  if (entry.known) return entry.value;
  Py_hash_t hash = 0;
  if (t.is_outside(t.original(dict)) && py::known_hash(key, &hash))
    t.unsupported(Reason::UserDunder, {{"operation", "a dict look-up"}, {"callee", "__eq__ of a key"}});
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) py::throw_pending();
  return value;
}
}  // namespace

bool Tracer::hashable_natively(PyObject* key) {
  const Cat cat = cat_of(key);
  PyTypeObject* type = Py_TYPE(key);
  if (PyWeakref_CheckRef(key)) {  // hashed and compared as what it refers to
    PyObject* object = PyWeakref_GET_OBJECT(key);
    return object != Py_None && hashable_natively(object) && is_known_key(*this, key, cat, keys_);
  }
  switch (cat) {
    case Cat::Tuple:
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
        if (!hashable_natively(PyTuple_GET_ITEM(key, i))) return false;
      }
      return !hashes_in_python(*this, type) && py::key_family(type) == py::KeyFamily::Tuple;
    case Cat::FrozenSet: {
      const auto elements = elements_now(touch(key));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) {
        if (!hashable_natively(PyList_GET_ITEM(elements.get(), i))) return false;
      }
      return !hashes_in_python(*this, type) && py::key_family(type) == py::KeyFamily::FrozenSet;
    }
    case Cat::EnumMember:
      return !has_user_method(*this, type, "__hash__") && !has_user_method(*this, type, "__eq__") &&
             py::key_family(type) != py::KeyFamily::Unknown;
    case Cat::Generator:
      return false;
    case Cat::Tensor:
      if (source_of(key) != nullptr) keys_.push_back(key);
      return true;  // by identity
    default:
      return hashes_in_python(*this, type) ? false : is_known_key(*this, key, cat, keys_);
  }
}

std::int64_t Tracer::length_of(PyObject* container) {
  const Cat cat = cat_of(container);
  const Source* source = source_of(container);
  PyObject* view = readable(container);
  const bool shadowed = view != container;
  std::int64_t length = -1;
  switch (cat) {
    case Cat::List:
      length = PyList_GET_SIZE(view);
      break;
    case Cat::Tuple:
      return PyTuple_GET_SIZE(container);
    case Cat::Dict:
      length = PyDict_GET_SIZE(view);
      break;
    case Cat::Set:
    case Cat::FrozenSet:
      length = PySet_GET_SIZE(view);
      break;
    case Cat::Deque:
      length = PyObject_Length(view);
      break;
    case Cat::Text:
      return PyObject_Length(container);
    case Cat::Range:
      return PyObject_Length(container);
    default:
      return -1;
  }
  if (source != nullptr) {
    if (!shadowed) {
      guard(Kind::LENGTH, source, {}, length);
    } else if (cat == Cat::Dict) {
      touch(container);  // the shadow's length depends on the original's keys
    }
  }
  return length;
}

bool Tracer::written(const Shadow& shadow, PyObject* key) const {
  return shadow.written && PyDict_Contains(shadow.written.get(), key) == 1;
}

void Tracer::touch_dict(PyObject* dict, const Source* source, const Shadow* shadow) {
  if (touched_.insert(dict).second) {
    auto keys = py::take(PyDict_Keys(dict));
    if (PyODict_Check(dict)) keys = py::take(PySequence_List(dict));
    auto tuple = py::take(PyList_AsTuple(keys.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
      PyObject* key = PyTuple_GET_ITEM(tuple.get(), i);
      if (!hashable_natively(key))
        throw GraphBreak(Reason::UserDunder, {{"operation", "reading a dict"}, {"callee", "__hash__ of a key"}});
      saw_constant(key);  // the keys are compared by identity or value: known objects
    }
    guard(Kind::DICT_KEYS, source, std::move(tuple));
  }
  for (const auto& [key, value] : entries_now(dict)) {
    if (shadow != nullptr && written(*shadow, key.get())) continue;
    saw(value.get(), capture_->sources.dict_item(source, key.get()));
  }
}

PyObject* Tracer::touch(PyObject* container) {
  const Source* source = source_of(container);
  if (source == nullptr) return container;
  const Cat cat = cat_of(container);
  auto it = shadows_.find(container);
  const Shadow* shadow = it == shadows_.end() ? nullptr : &it->second;
  PyObject* view = shadow == nullptr ? container : shadow->object.get();
  auto& table = capture_->sources;
  switch (cat) {
    case Cat::Dict:
      touch_dict(container, source, shadow);
      return view;
    case Cat::List:
      if (shadow == nullptr && touched_.insert(container).second) {
        guard(Kind::LENGTH, source, {}, PyList_GET_SIZE(container));
        std::int64_t index = 0;
        for (const auto& item : items_now(container)) saw(item.get(), table.item(source, index++));
      }
      return view;
    case Cat::Deque:
      if (shadow == nullptr && touched_.insert(container).second) {
        const Py_ssize_t length = PyObject_Length(container);
        guard(Kind::LENGTH, source, {}, length);
        for (Py_ssize_t i = 0; i < length; ++i)
          saw(py::take(PySequence_GetItem(container, i)).get(), table.item(source, i));
      }
      return view;
    case Cat::Set:
    case Cat::FrozenSet:
      if (shadow == nullptr && touched_.insert(container).second) {
        const auto list = elements_now(container);
        auto items = py::take(PyList_AsTuple(list.get()));  // equal sets may be iterated in different orders
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
          PyObject* item = PyList_GET_ITEM(list.get(), i);
          if (!hashable_natively(item))
            throw GraphBreak(Reason::UserDunder,
                             {{"operation", "reading a set"}, {"callee", "__hash__ of an element"}});
          refuse_to_hold(item);
          saw_constant(item);
        }
        guard(Kind::SET_EQUALS, source, std::move(items), 1);
        const std::string places = py::table_of(container);  // where what is added goes
        guard(Kind::SET_TABLE, source,
              py::take(PyBytes_FromStringAndSize(places.data(), static_cast<Py_ssize_t>(places.size()))));
      }
      return view;
    default:
      return view;
  }
}

bool has_python_length(Tracer& tracer, PyObject* object) {
  for (const char* name : {"__len__", "__length_hint__"}) {
    PyObject* own = tracer.type_lookup(Py_TYPE(object), name);
    if (own != nullptr && PyFunction_Check(own)) return true;
  }
  return false;
}

bool merges_as_dict(Tracer& tracer, PyObject* object) {
  if (cat_of(object) != Cat::Dict) return false;
  if (PyDict_CheckExact(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  tracer.type_lookup(type, names().__iter__);
  if (type->tp_iter == PyDict_Type.tp_iter) return true;
  if (type->tp_iter != PyODict_Type.tp_iter) return false;
  for (const char* name : {"keys", "__getitem__"}) {
    if (tracer.type_lookup(type, name) != py::type_lookup(&PyODict_Type, py::interned(name).get())) return false;
  }
  return true;
}

Tracer::Shadow& Tracer::shadow_of(PyObject* container, bool touch_all) {
  auto it = shadows_.find(container);
  if (it != shadows_.end()) return it->second;
  refuse_in_use(container);
  if (touch_all) touch(container);
  Shadow shadow;
  shadow.object = copy_of(container);
  keep(container);
  order_of_shadows_.push_back(container);
  shadowed_by_.emplace(shadow.object.get(), container);
  return shadows_.emplace(container, std::move(shadow)).first->second;
}

PyObject* Tracer::view_of(PyObject* container) {
  if (!is_outside(container)) return container;
  touch(container);
  const Cat cat = cat_of(container);
  PyTypeObject* type = Py_TYPE(container);
  // Of a subclass of dict the copy is a dict: in the same order unless the class keeps one of its own.
  const bool walks_as_dict = PyODict_CheckExact(container) || type->tp_iter == PyDict_Type.tp_iter;
  if (cat == Cat::List || cat == Cat::Deque || (cat == Cat::Dict && walks_as_dict)) {
    return shadow_of(container, true).object.get();
  }
  return readable(container);
}

PyObject* Tracer::writable(PyObject* container) {
  PyObject* target = growable(container);
  if (is_outside(container)) lets_go_of_items(container);
  return target;
}

PyObject* Tracer::growable(PyObject* container) {
  if (!is_outside(container)) return container;
  if (cat_of(container) == Cat::Dict && !PyDict_CheckExact(container) && !PyODict_CheckExact(container)) {
    // defaultdict and Python subclasses: their extra state is not copied, so only plain storage operations may use the
    // shadow.
    if (Py_TYPE(container)->tp_as_mapping->mp_subscript != PyDict_Type.tp_as_mapping->mp_subscript) {
      unsupported(Reason::UnsupportedMutation,
                  {{"target", std::string("a ") + Py_TYPE(container)->tp_name + " from outside"}});
    }
  }
  Shadow& shadow = shadow_of(container, true);
  if (cat_of(container) == Cat::Dict) touch(container);
  shadow.changed = true;
  return shadow.object.get();
}

bool Tracer::dict_contains(PyObject* dict, PyObject* key) {
  guard_key(dict, key);
  auto it = shadows_.find(dict);
  PyObject* view = it == shadows_.end() ? dict : it->second.object.get();
  const bool found = stored(*this, view, key) != nullptr;
  const Source* source = source_of(dict);
  if (source != nullptr && !(it != shadows_.end() && written(it->second, key))) guard_presence(dict, key);
  return found;
}

Result Tracer::dict_get(PyObject* dict, PyObject* key, bool* found) {
  guard_key(dict, key);
  auto it = shadows_.find(dict);
  PyObject* view = it == shadows_.end() ? dict : it->second.object.get();
  PyObject* value = stored(*this, view, key);
  *found = value != nullptr;
  auto held = py::Owned<>::share(value);
  const Source* source = source_of(dict);
  if (source == nullptr || (it != shadows_.end() && written(it->second, key))) {
    return Result::of(std::move(held));
  }
  if (value == nullptr) {
    dict_contains(dict, key);
  } else {
    saw(value, capture_->sources.dict_item(source, key));
  }
  return Result::of(std::move(held));
}

// What the replay of a write takes for granted: that a value which does not change is there already, and, when several
// keys are written, which of them are new and so take their places at the end.
void Tracer::guard_replay(PyObject* dict, const Shadow& shadow, PyObject* key, PyObject* value, bool again) {
  PyObject* before = stored(*this, dict, key);
  if (!again) lets_go_of_entry(source_of(dict), key, before);
  if (before != nullptr && before == value) {
    auto held = py::Owned<>::share(before);
    saw(before, capture_->sources.dict_item(source_of(dict), key));
  }
  if (again) {
    // Back after a deletion: behind all the others, which are written again.
    if (stored(*this, shadow.object.get(), key) == nullptr) touch(dict);
    return;
  }
  const Py_ssize_t others = PyDict_GET_SIZE(shadow.written.get());
  if (others == 0) return;
  if (others == 1) {
    auto first = py::take(PySequence_Tuple(shadow.written.get()));
    guard_presence(dict, PyTuple_GET_ITEM(first.get(), 0));
  }
  guard_presence(dict, key);
}

// Whether the dict had the key before the region.
void Tracer::guard_presence(PyObject* dict, PyObject* key) {
  const bool found = stored(*this, dict, key) != nullptr;
  const Source* source = source_of(dict);
  if (source->step == source::Step::DictOf && PyUnicode_CheckExact(key)) {
    guard(Kind::HAS_ATTR, source->base, py::Owned<>::share(key), found);
  } else {
    guard(Kind::DICT_CONTAINS, source, py::Owned<>::share(key), found);
  }
}

void Tracer::dict_set(PyObject* dict, PyObject* key, PyObject* value) {
  PyObject* target = dict;
  guard_key(dict, key);
  if (is_outside(dict)) {
    Shadow& shadow = shadow_of(dict, false);
    if (!shadow.written) shadow.written = py::take(PyDict_New());
    const bool again = written(shadow, key);
    if (value == nullptr && !again) dict_contains(dict, key);
    if (value == nullptr && again) guard_presence(dict, key);  // whether anything of it stays to be deleted
    guard_replay(dict, shadow, key, value, again);
    const bool back = again && stored(*this, shadow.object.get(), key) == nullptr;
    if (back) py::check(PyDict_DelItem(shadow.written.get(), key));
    if (PyDict_SetDefault(shadow.written.get(), key, key) == nullptr) py::throw_pending();
    shadow.changed = true;
    target = shadow.object.get();
  }
  const bool ordered = PyODict_Check(target);
  if (value == nullptr) {
    py::check(ordered ? PyODict_DelItem(target, key) : PyDict_DelItem(target, key));
  } else {
    py::check(ordered ? PyODict_SetItem(target, key, value) : PyDict_SetItem(target, key, value));
  }
}

PyObject* Tracer::sequence_item(PyObject* sequence, Py_ssize_t index) {
  PyObject* view = readable(sequence);
  const Source* source = source_of(sequence);
  PyObject* item = nullptr;
  if (PyTuple_Check(view)) {
    item = PyTuple_GET_ITEM(view, index);
  } else if (PyList_Check(view)) {
    item = PyList_GET_ITEM(view, index);
  } else if (is_deque(view)) {
    touch(sequence);
    auto held = py::take(PySequence_GetItem(view, index));
    keep(held.get());
    return held.get();
  }
  // One element read of a list from outside needs that element and the length (a negative or later index depends on
  // it).
  if (source != nullptr && view == sequence && !PyTuple_Check(view)) {
    guard(Kind::LENGTH, source, {}, PyList_GET_SIZE(view));
    saw(item, capture_->sources.item(source, index));
  }
  return item;
}

PyObject* Tracer::cell_get(PyObject* cell) {
  if (auto it = cell_values_.find(cell); it != cell_values_.end()) return it->second.get();
  PyObject* value = PyCell_GET(cell);
  if (const Source* source = source_of(cell)) {
    if (value == nullptr) {
      guard(Kind::CELL_EMPTY, source, {}, 1);
    } else {
      saw(value, capture_->sources.cell_contents(source));
    }
  }
  return value;
}

void Tracer::cell_set(PyObject* cell, PyObject* value) {
  if (is_outside(cell)) {
    if (!cell_values_.contains(cell)) lets_go_of_contents(cell);
    cell_values_.insert_or_assign(cell, py::Owned<>::share(value));
  } else {
    py::check(PyCell_Set(cell, value));
  }
}

Contents Tracer::deep_touch(PyObject* value) {
  std::unordered_set<PyObject*> seen;
  return deep_touch_inner(value, 0, seen);
}

// `seen`: the containers that were looked into; one may hold itself, or the same one many times.
Contents Tracer::deep_touch_inner(PyObject* value, int depth, std::unordered_set<PyObject*>& seen) {
  Contents all;
  if (depth > 200) {
    all.user = true;
    return all;
  }
  auto merge = [&](PyObject* item) {
    if (PyObject_IS_GC(item) && !seen.insert(item).second) {
      all.shadowed |= readable(item) != item;
      return;
    }
    const Contents c = deep_touch_inner(item, depth + 1, seen);
    all.tensor |= c.tensor;
    all.user |= c.user;
    all.shadowed |= c.shadowed || readable(item) != item;
  };
  const Cat cat = cat_of(value);
  switch (cat) {
    case Cat::Tensor:
      all.tensor = true;
      return all;
    case Cat::Generator:
    case Cat::Other:
    case Cat::Instance:
      all.user = true;
      return all;
    case Cat::Iterator:
      all.user = true;  // what it will yield is not known here
      return all;
    case Cat::BoundMethod:
      all.user = true;  // compared by the identity of its object
      return all;
    case Cat::Function:
      all.user = is_outside(value) && source_of(value)->step != source::Step::Const;  // compared by identity
      return all;
    case Cat::EnumMember:
      all.user = runs_user_code(*this, Py_TYPE(value));
      return all;
    case Cat::List:
    case Cat::Tuple: {
      PyObject* view = touch(value);
      all.user |= !is_exact_builtin(Py_TYPE(value)) && cat == Cat::List;
      if (cat == Cat::Tuple && !PyTuple_CheckExact(value)) {
        PyObject* repr = py::type_lookup(Py_TYPE(value), names().__eq__);
        all.user |= repr != nullptr && PyFunction_Check(repr);
      }
      for (const auto& item : items_now(view)) merge(item.get());
      return all;
    }
    case Cat::Dict: {
      PyObject* view = touch(value);
      all.user |= !is_exact_builtin(Py_TYPE(value)) && !PyODict_CheckExact(value);
      for (const auto& [key, item] : entries_now(view)) {
        merge(key.get());
        merge(item.get());
      }
      return all;
    }
    case Cat::Set:
    case Cat::FrozenSet:
    case Cat::Deque: {
      PyObject* view = touch(value);
      const auto list = elements_now(view);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) merge(PyList_GET_ITEM(list.get(), i));
      return all;
    }
    case Cat::Slice: {
      auto* slice = reinterpret_cast<PySliceObject*>(value);
      for (PyObject* part : {slice->start, slice->stop, slice->step}) merge(part);
      return all;
    }
    default:
      return all;
  }
}

}  // namespace pellucid::objects
