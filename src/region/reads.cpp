#include "region/reads.h"

#include <algorithm>

#include "aten/torch_function.h"
#include "guards/equality.h"
#include "py/keys.h"
#include "py/native_lookup.h"
#include "py/set_table.h"
#include "region/arrays.h"
#include "region/enums.h"
#include "region/names.h"
#include "region/process.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/subclasses.h"

namespace pellucid::region {

void make_plain(Region& region, PyObject* container) {
  if (PyTuple_CheckExact(container) || PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i) {
      PyObject*& item = reinterpret_cast<PyTupleObject*>(container)->ob_item[i];
      if (is_number(item)) Py_SETREF(item, Py_NewRef(region.numbers.plain(item)));
    }
  } else if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i) {
      PyObject* item = PyList_GET_ITEM(container, i);
      if (is_number(item)) py::check(PyList_SetItem(container, i, Py_NewRef(region.numbers.plain(item))));
    }
  } else if (PyDict_Check(container)) {
    for (const auto& [key, item] : entries_now(container)) {
      if (is_number(item.get())) py::check(PyDict_SetItem(container, key.get(), region.numbers.plain(item.get())));
    }
  } else if (cat_of(container) == Cat::Deque) {
    const Py_ssize_t size = PyObject_Length(container);
    for (Py_ssize_t i = 0; i < size; ++i) {
      const auto item = py::take(PySequence_GetItem(container, i));
      if (is_number(item.get())) py::check(PySequence_SetItem(container, i, region.numbers.plain(item.get())));
    }
  } else if (PySlice_Check(container)) {
    auto* slice = reinterpret_cast<PySliceObject*>(container);
    for (PyObject** part : {&slice->start, &slice->stop, &slice->step}) {
      if (is_number(*part)) Py_SETREF(*part, Py_NewRef(region.numbers.plain(*part)));
    }
  }
}

bool Reads::same(PyObject* a, PyObject* b) {
  Provenance& provenance = region_.provenance;
  a = region_.shadows.original(a);
  b = region_.shadows.original(b);
  if (a == b) return true;
  const Source* left = provenance.source_of(a);
  const Source* right = provenance.source_of(b);
  if (region_.numbers.tuples.behind(a) == region_.numbers.tuples.behind(b)) {
    if (left != right) provenance.guard(Kind::IS, left, {}, 0, right);
    return true;
  }
  // Two outside objects that are different now could be one object in another call. Constants and type guards settle
  // most cases.
  if (left != nullptr && right != nullptr) {
    const bool left_const = left->step == source::Step::Const, right_const = right->step == source::Step::Const;
    if (left_const && right_const) return false;
    if (left_const) {
      provenance.guard(Kind::NOT_ID, right, py::Owned<>::share(a));
    } else if (right_const) {
      provenance.guard(Kind::NOT_ID, left, py::Owned<>::share(b));
    } else {
      provenance.guard(Kind::IS_NOT, left, {}, 0, right);
    }
  }
  return false;
}

// C code finds such a key, or a part of it, by comparing identities: with the keys of a container from outside, which
// are known objects, or with what the region has put into its own. Values need nothing: they are guarded where they
// are read.
void Reads::guard_key(PyObject* container, PyObject* key, bool part) {
  Provenance& provenance = region_.provenance;
  if (is_atom(cat_of(key))) return;
  if (cat_of(key) == Cat::BoundMethod) {
    for (PyObject* name : {names().__self__, names().dunder_func})
      guard_key(container, part_of_method(key, name).get(), true);
    return;
  }
  for (Py_ssize_t i = 0; PyObject* inner = py::key_part(key, i); ++i)
    guard_key(container, region_.shadows.original(inner), true);
  const Source* source = provenance.source_of(key);
  if (source == nullptr || source->step == source::Step::Const) return;
  if (!part && !py::is_key_by_identity(Py_TYPE(key))) return;
  if (part && py::key_family(Py_TYPE(key)) != py::KeyFamily::Unknown && !py::is_key_by_identity(Py_TYPE(key))) return;
  PyObject* view = region_.shadows.readable(container);
  const Py_ssize_t size = PyDict_Check(view) ? PyDict_GET_SIZE(view) : PyAnySet_Check(view) ? PySet_GET_SIZE(view) : 0;
  if (provenance.is_outside(region_.shadows.original(container))) {
    provenance.guard(Kind::ID_MATCH, source, py::Owned<>::share(key));
    return;
  }
  if (size == 0) return;
  const auto others = elements_now(view);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others.get()); ++i) {
    PyObject* other = PyList_GET_ITEM(others.get(), i);
    if (part && !is_atom(cat_of(other)))
      provenance.guard(Kind::ID_MATCH, source, py::Owned<>::share(key));
    else if (provenance.is_outside(other))
      same(key, other);
  }
}
namespace {

// A class of Python code over a builtin type, a tuple say, may bring a __hash__ or __eq__ of its own.
bool hashes_in_python(Region& region, PyTypeObject* type) {
  return has_python_method(region, type, {"__hash__", "__eq__"});
}

// Whether C code that compares such a container runs code of the program.
bool compares_in_python(Region& region, PyTypeObject* type) {
  return has_python_method(region, type, {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"});
}

}  // namespace

// What a bound method is of: C code compares and hashes these.
py::Owned<> Reads::part_of_method(PyObject* method, PyObject* name) {
  auto part = py::take(PyObject_GetAttr(method, name));
  return region_.provenance.note_attribute(method, name, part.get());
}

// Notes what C code tells apart by identity.
bool Reads::is_known_key(PyObject* key) {
  Provenance& provenance = region_.provenance;
  PyTypeObject* type = Py_TYPE(key);
  const Cat cat = cat_of(type);
  if (py::cannot_be_hashed(key)) return true;
  Py_hash_t hash = 0;
  if (!py::known_hash(key, &hash)) return false;
  PyObject* owner = py::is_bound_by_identity(type) ? py::key_part(key, 0) : nullptr;
  if (owner != nullptr && cat == Cat::BoundMethod) {
    (void)part_of_method(key, names().__self__);
    const auto function = part_of_method(key, names().dunder_func);
    if (provenance.is_outside(function.get())) keys_.push_back(function.get());
  }
  if (owner != nullptr && provenance.is_outside(region_.shadows.original(owner)))
    keys_.push_back(region_.shadows.original(owner));
  const Source* source = provenance.source_of(key);
  if (source == nullptr || is_atom(cat)) return true;
  if (py::is_key_by_identity(type)) {
    keys_.push_back(key);
  } else if (cat == Cat::Other && !guards::has_builtin_value(key) && source->step != source::Step::Const) {
    provenance.guard(Kind::KEY_MATCH, source, py::Owned<>::share(key));  // a Decimal, a date: often made anew
  }
  return true;
}

PyObject* Reads::stored(PyObject* dict, PyObject* key) const {
  const bool outside = region_.provenance.is_outside(region_.shadows.original(dict));
  const py::Entry entry = outside ? py::native_dict_find(dict, key) : py::Entry{nullptr, false};
  if (entry.value != nullptr) return entry.value;
  // That a dict is empty says what is in it, but not that the key can be hashed: C code raises when it cannot.
  Py_hash_t hash = 0;
  const bool is_known = outside && py::known_hash(key, &hash);
  if (entry.known && is_known) return nullptr;
  if (is_known) unsupported(Reason::UserDunder, {{"operation", "a dict look-up"}, {"callee", "__eq__ of a key"}});
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) py::throw_pending();
  return value;
}

bool Reads::hashable_natively(PyObject* key) {
  const Cat cat = cat_of(key);
  PyTypeObject* type = Py_TYPE(key);
  if (PyWeakref_CheckRef(key)) {  // hashed and compared as what it refers to
    PyObject* object = PyWeakref_GET_OBJECT(key);
    return object != Py_None && hashable_natively(object) && is_known_key(key);
  }
  switch (cat) {
    case Cat::Tuple:
      make_plain(region_, key);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
        if (!hashable_natively(PyTuple_GET_ITEM(key, i))) return false;
      }
      return !hashes_in_python(region_, type) && py::key_family(type) == py::KeyFamily::Tuple;
    case Cat::FrozenSet: {
      const auto elements = elements_now(touch(key));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) {
        if (!hashable_natively(PyList_GET_ITEM(elements.get(), i))) return false;
      }
      return !hashes_in_python(region_, type) && py::key_family(type) == py::KeyFamily::FrozenSet;
    }
    case Cat::EnumMember:
      return !has_user_method(region_, type, "__hash__") && !has_user_method(region_, type, "__eq__") &&
             py::key_family(type) != py::KeyFamily::Unknown;
    case Cat::Generator:
      return false;
    case Cat::Tensor:
      if (is_subclassed(key) &&
          region_.lookups.type_lookup(type, names().__hash__) != py::type_lookup(aten::tensor_type(), names().__hash__))
        return false;
      if (region_.provenance.source_of(key) != nullptr) keys_.push_back(key);
      return true;  // by identity
    case Cat::Array:
      return false;
    default:
      return hashes_in_python(region_, type) ? false : is_known_key(key);
  }
}

std::int64_t Reads::length_of(PyObject* container) {
  const Cat cat = cat_of(container);
  const Source* source = region_.provenance.source_of(container);
  PyObject* view = region_.shadows.readable(container);
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
      region_.provenance.guard(Kind::LENGTH, source, {}, length);
    } else if (cat == Cat::Dict) {
      touch(container);  // the shadow's length depends on the original's keys
    }
  }
  return length;
}

void Reads::touch_keys(PyObject* dict, const Source* source) {
  if (!touched_.insert(dict).second) return;
  Provenance& provenance = region_.provenance;
  auto keys = py::take(PyDict_Keys(dict));
  if (PyODict_Check(dict)) keys = py::take(PySequence_List(dict));
  auto tuple = py::take(PyList_AsTuple(keys.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(tuple.get(), i);
    provenance.note_constant(key);  // the keys are compared by identity or value: known objects
    if (!hashable_natively(key))
      throw GraphBreak(Reason::UserDunder, {{"operation", "reading a dict"}, {"callee", "__hash__ of a key"}});
  }
  provenance.guard(Kind::DICT_KEYS, source, std::move(tuple));
}

namespace {

void set_in_dict(PyObject* dict, PyObject* key, PyObject* value) {
  py::check(PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value));
}

}  // namespace

// A shadow gets what the program goes on with.
void Reads::touch_dict(PyObject* dict, const Source* source, const Shadow* shadow) {
  touch_keys(dict, source);
  for (const auto& [key, value] : entries_now(dict)) {
    const Source* place = region_.capture->sources.dict_item(source, key.get());
    if (shadow == nullptr) {
      region_.provenance.note_read(value.get(), place);
    } else if (!shadow->wrote(key.get())) {
      const auto read = region_.numbers.read(value.get(), place);
      if (read.get() != value.get() && PyDict_GetItemWithError(shadow->object.get(), key.get()) == value.get())
        set_in_dict(shadow->object.get(), key.get(), read.get());
    }
  }
}

std::vector<std::pair<py::Owned<>, py::Owned<>>> Reads::entries(PyObject* dict) {
  const Source* source = region_.provenance.source_of(dict);
  if (source == nullptr || region_.shadows.is_shadowed(dict)) return entries_now(touch(dict));
  touch_keys(dict, source);
  auto entries = entries_now(dict);
  for (auto& [key, value] : entries)
    value = region_.numbers.read(value.get(), region_.capture->sources.dict_item(source, key.get()));
  return entries;
}

PyObject* Reads::touch(PyObject* container) {
  Provenance& provenance = region_.provenance;
  const Source* source = provenance.source_of(container);
  if (source == nullptr) return container;
  const Cat cat = cat_of(container);
  const Shadow* shadow = region_.shadows.find(container);
  PyObject* view = shadow == nullptr ? container : shadow->object.get();
  auto& table = region_.capture->sources;
  switch (cat) {
    case Cat::Dict:
      touch_dict(container, source, shadow);
      return view;
    case Cat::List:
      if (shadow == nullptr && touched_.insert(container).second) {
        provenance.guard(Kind::LENGTH, source, {}, PyList_GET_SIZE(container));
        std::int64_t index = 0;
        for (const auto& item : items_now(container)) provenance.note_read(item.get(), table.item(source, index++));
      }
      return view;
    case Cat::Deque:
      if (shadow == nullptr && touched_.insert(container).second) {
        const Py_ssize_t length = PyObject_Length(container);
        provenance.guard(Kind::LENGTH, source, {}, length);
        for (Py_ssize_t i = 0; i < length; ++i)
          provenance.note_read(py::take(PySequence_GetItem(container, i)).get(), table.item(source, i));
      }
      return view;
    case Cat::Set:
    case Cat::FrozenSet:
      if (shadow == nullptr && touched_.insert(container).second) {
        const auto list = elements_now(container);
        auto items = py::take(PyList_AsTuple(list.get()));  // equal sets may be iterated in different orders
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
          PyObject* item = PyList_GET_ITEM(list.get(), i);
          provenance.note_constant(item);  // before it is a key: what is told apart from it must be guarded
          if (!hashable_natively(item))
            throw GraphBreak(Reason::UserDunder,
                             {{"operation", "reading a set"}, {"callee", "__hash__ of an element"}});
          region_.drops.refuse_to_hold(item);
        }
        provenance.guard(Kind::SET_EQUALS, source, std::move(items), 1);
        const std::string places = py::table_of(container);  // where what is added goes
        provenance.guard(Kind::SET_TABLE, source,
                         py::take(PyBytes_FromStringAndSize(places.data(), static_cast<Py_ssize_t>(places.size()))));
      }
      return view;
    default:
      return view;
  }
}

void Reads::read_all(PyObject* container, PyObject* copy) {
  const Source* source = region_.provenance.source_of(container);
  auto& table = region_.capture->sources;
  const Cat cat = cat_of(container);
  if (cat == Cat::Dict) {
    touch_keys(container, source);
    for (const auto& [key, value] : entries_now(copy)) {
      const auto read = region_.numbers.read(value.get(), table.dict_item(source, key.get()));
      if (read.get() != value.get()) set_in_dict(copy, key.get(), read.get());
    }
  } else if (cat == Cat::List || cat == Cat::Deque) {
    const Py_ssize_t size = PyObject_Length(copy);
    region_.provenance.guard(Kind::LENGTH, source, {}, size);
    for (Py_ssize_t i = 0; i < size; ++i) {
      const auto item = py::take(PySequence_GetItem(copy, i));
      const auto read = region_.numbers.read(item.get(), table.item(source, i));
      if (read.get() != item.get()) py::check(PySequence_SetItem(copy, i, read.get()));
    }
    touched_.insert(container);
  } else {
    touch(container);
  }
}

bool Reads::dict_contains(PyObject* dict, PyObject* key) {
  guard_key(dict, key);
  const Shadow* shadow = region_.shadows.find(dict);
  PyObject* view = shadow == nullptr ? dict : shadow->object.get();
  const bool found = stored(view, key) != nullptr;
  const Source* source = region_.provenance.source_of(dict);
  if (source != nullptr && (shadow == nullptr || !shadow->wrote(key))) guard_presence(dict, key);
  return found;
}

Result Reads::dict_get(PyObject* dict, PyObject* key, bool* found) {
  guard_key(dict, key);
  const Shadow* shadow = region_.shadows.find(dict);
  PyObject* view = shadow == nullptr ? dict : shadow->object.get();
  PyObject* value = stored(view, key);
  *found = value != nullptr;
  auto held = py::Owned<>::share(value);
  const Source* source = region_.provenance.source_of(dict);
  if (source == nullptr || (shadow != nullptr && (shadow->is_read || shadow->wrote(key)))) {
    return Result::of(std::move(held));
  }
  if (value == nullptr) {
    dict_contains(dict, key);
  } else {
    held = region_.numbers.read(value, region_.capture->sources.dict_item(source, key));
  }
  return Result::of(std::move(held));
}

// Whether the dict had the key before the region.
void Reads::guard_presence(PyObject* dict, PyObject* key) {
  const bool found = stored(dict, key) != nullptr;
  const Source* source = region_.provenance.source_of(dict);
  if (source->step == source::Step::DictOf && PyUnicode_CheckExact(key)) {
    region_.provenance.guard(Kind::HAS_ATTR, source->base, py::Owned<>::share(key), found);
  } else {
    region_.provenance.guard(Kind::DICT_CONTAINS, source, py::Owned<>::share(key), found);
  }
}

PyObject* Reads::sequence_item(PyObject* sequence, Py_ssize_t index) {
  PyObject* view = region_.shadows.readable(sequence);
  const Source* source = region_.provenance.source_of(sequence);
  PyObject* item = nullptr;
  if (PyTuple_Check(view)) {
    item = PyTuple_GET_ITEM(view, index);
  } else if (PyList_Check(view)) {
    item = PyList_GET_ITEM(view, index);
  } else if (cat_of(view) == Cat::Deque) {
    auto held = py::take(PySequence_GetItem(view, index));
    if (source != nullptr && view == sequence) {
      region_.provenance.guard(Kind::LENGTH, source, {}, PyObject_Length(view));
      held = region_.numbers.read(held.get(), region_.capture->sources.item(source, index));
    }
    region_.provenance.keep(held.get());
    return held.get();
  }
  // One element read of a list from outside needs that element and the length (a negative or later index depends on
  // it).
  if (source != nullptr && view == sequence && !PyTuple_Check(view)) {
    region_.provenance.guard(Kind::LENGTH, source, {}, PyList_GET_SIZE(view));
    item = region_.numbers.read(item, region_.capture->sources.item(source, index)).get();
  }
  return item;
}

Contents Reads::deep_touch(PyObject* value) {
  std::unordered_set<PyObject*> seen;
  return contents_of(value, 0, seen);
}

// `seen`: the containers that were looked into; one may hold itself, or the same one many times.
Contents Reads::contents_of(PyObject* value, int depth, std::unordered_set<PyObject*>& seen) {
  Contents all;
  if (depth > 200) {
    all.user = true;
    return all;
  }
  auto merge = [&](PyObject* item) {
    if (PyObject_IS_GC(item) && !seen.insert(item).second) {
      all.shadowed |= region_.shadows.readable(item) != item;
      return;
    }
    const Contents c = contents_of(item, depth + 1, seen);
    all.tensor |= c.tensor;
    all.user |= c.user;
    all.shadowed |= c.shadowed || region_.shadows.readable(item) != item;
  };
  const Cat cat = cat_of(value);
  switch (cat) {
    case Cat::Tensor:
    case Cat::Array:
      all.tensor = true;
      return all;
    case Cat::Other:
      all.user = !is_numpy_scalar(value);
      return all;
    case Cat::Generator:
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
      all.user = region_.provenance.is_outside(value) &&
                 region_.provenance.source_of(value)->step != source::Step::Const;  // compared by identity
      return all;
    case Cat::EnumMember:
      all.user = runs_user_code(region_, Py_TYPE(value));
      return all;
    case Cat::List:
    case Cat::Tuple: {
      PyObject* view = touch(value);
      make_plain(region_, view);
      all.user |= !is_exact_builtin(Py_TYPE(value)) && cat == Cat::List;
      all.user |= cat == Cat::Tuple && compares_in_python(region_, Py_TYPE(value));
      for (const auto& item : items_now(view)) merge(item.get());
      return all;
    }
    case Cat::Dict: {
      PyObject* view = touch(value);
      make_plain(region_, view);
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
      note_order(region_, view);
      make_plain(region_, view);
      all.user |= compares_in_python(region_, Py_TYPE(value));
      all.user |= cat == Cat::Deque && has_python_method(region_, Py_TYPE(value), {"__iter__"});  // compared by it
      const auto list = elements_now(view);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) merge(PyList_GET_ITEM(list.get(), i));
      return all;
    }
    case Cat::Slice: {
      make_plain(region_, value);
      auto* slice = reinterpret_cast<PySliceObject*>(value);
      for (PyObject* part : {slice->start, slice->stop, slice->step}) merge(part);
      return all;
    }
    default:
      return all;
  }
}

}  // namespace pellucid::region
