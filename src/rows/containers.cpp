// Methods of the builtin containers.
#include "py/cpython.h"
#include "py/keys.h"
#include "region/snapshot.h"
#include "rows/rows.h"

namespace pellucid::rows {

using K = Continuation::Kind;
using region::Contents;
using region::names;

namespace {

void need_native_key(Interpreter& t, PyObject* key) {
  if (!py::cannot_be_hashed(key) && !t.region.reads.hashable_natively(key)) {
    unsupported(Reason::UserDunder, {{"operation", "a dict method"}, {"callee", "__hash__"}});
  }
}

// ---- dict

Result dict_get(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || args.size() > 3 || args.keyword_count() != 0) return run_native(t, f, args);
  need_native_key(t, args[1]);
  bool found = false;
  Result value = t.region.reads.dict_get(t.region.shadows.original(args[0]), args[1], &found);
  if (found) return value;
  return Result::of(py::Owned<>::share(args.size() == 3 ? args[2] : Py_None));
}

// Of what a method of dict gets, the key is looked at.
template <Result (*method)(Interpreter&, PyObject*, Args)>
Result by_key(Interpreter& t, PyObject* f, Args args) {
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  t.region.doing = "looks up a key";
  if (args.size() > 1) values[1] = t.region.numbers.plain(values[1]);
  return method(t, f, Args{values, args.kwnames});
}

Result dict_contains(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  need_native_key(t, args[1]);
  return Result::boolean(t.region.reads.dict_contains(t.region.shadows.original(args[0]), args[1]));
}

// list.__contains__ and its like; of a class that overrides it, only where C code can compare.
Result contains(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  PyObject* own = t.region.lookups.type_lookup(Py_TYPE(args[0]), names().__contains__);
  if (own != nullptr && PyFunction_Check(own)) return pure(t, f, args);
  return t.and_then(protocols::contains(t, args[0], args[1]), Continuation(K::Bool));
}

Result dict_setitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 3) return run_native(t, f, args);
  need_native_key(t, args[1]);
  t.region.shadows.dict_set(t.region.shadows.original(args[0]), args[1], args[2]);
  return Result::none();
}

Result dict_getitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  need_native_key(t, args[1]);
  bool found = false;
  PyObject* dict = t.region.shadows.original(args[0]);
  Result value = t.region.reads.dict_get(dict, args[1], &found);
  if (found) return value;
  if (!PyDict_CheckExact(dict)) {
    PyObject* missing = t.region.lookups.type_lookup(Py_TYPE(dict), names().__missing__);
    if (missing != nullptr && PyFunction_Check(missing)) return protocols::call2(t, missing, dict, args[1]);
    if (missing != nullptr) unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of a defaultdict"}});
  }
  return t.raise(py::take(PyObject_CallOneArg(PyExc_KeyError, args[1])));
}

Result dict_delitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  need_native_key(t, args[1]);
  PyObject* dict = t.region.shadows.original(args[0]);
  if (!t.region.reads.dict_contains(dict, args[1]))
    return t.raise(py::take(PyObject_CallOneArg(PyExc_KeyError, args[1])));
  t.region.shadows.dict_set(dict, args[1], nullptr);
  return Result::none();
}

// `default` of pop and setdefault, null without one: dict takes it by position, OrderedDict by name too.
PyObject* default_of(PyObject* f, Args args) {
  PyObject* named = args.keyword("default");
  const std::size_t known = named != nullptr ? 1 : 0;
  if (args.keyword_count() != known || args.size() + known < 2 || args.size() + known > 3 || args.size() < 2)
    unsupported(Reason::BadArguments, {{"callee", describe(f) + " with these arguments"}});
  return args.size() == 3 ? args[2] : named;
}

Result dict_setdefault(Interpreter& t, PyObject* f, Args args) {
  if (args.keyword_count() == 0 && (args.size() < 2 || args.size() > 3)) return run_native(t, f, args);
  PyObject* fallback = default_of(f, args);
  if (fallback == nullptr) fallback = Py_None;
  need_native_key(t, args[1]);
  bool found = false;
  PyObject* dict = t.region.shadows.original(args[0]);
  Result value = t.region.reads.dict_get(dict, args[1], &found);
  if (found) return value;
  t.region.shadows.dict_set(dict, args[1], fallback);
  return Result::of(py::Owned<>::share(fallback));
}

Result dict_pop(Interpreter& t, PyObject* f, Args args) {
  if (args.keyword_count() == 0 && (args.size() < 2 || args.size() > 3)) return run_native(t, f, args);
  PyObject* fallback = default_of(f, args);
  need_native_key(t, args[1]);
  bool found = false;
  PyObject* dict = t.region.shadows.original(args[0]);
  // dict.pop of an empty dict does not hash the key.
  Py_hash_t hash = 0;
  const bool asks = PyODict_Check(dict) || py::known_hash(args[1], &hash) || t.region.reads.length_of(dict) != 0;
  Result value = asks ? t.region.reads.dict_get(dict, args[1], &found) : Result::none();
  if (found) {
    t.region.shadows.dict_set(dict, args[1], nullptr);
    return value;
  }
  if (fallback != nullptr) return Result::of(py::Owned<>::share(fallback));
  return t.raise(py::take(PyObject_CallOneArg(PyExc_KeyError, args[1])));
}

// keys(), values(), items(): a live view on what capture reads and writes.
Result dict_view(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  PyObject* dict = t.region.shadows.original(args[0]);
  return walker_of(t, f, t.region.shadows.view_of(dict), dict);
}

Result dict_update(Interpreter& t, PyObject* f, Args args) {
  if (args.size() > 2) return run_native(t, f, args);  // CPython words the error
  if (args.size() == 1 || args.size() == 2) {
    PyObject* target = t.region.shadows.original(args[0]);
    PyObject* other = args.size() == 2 ? t.region.shadows.original(args[1]) : nullptr;
    if (other == nullptr || region::merges_as_dict(t.region, other)) {
      if (other != nullptr) {
        for (const auto& [key, value] : t.region.reads.entries(other))
          t.region.shadows.dict_set(target, key.get(), value.get());
      }
      for (std::size_t i = 0; i < args.keyword_count(); ++i)
        t.region.shadows.dict_set(target, PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]);
      return Result::none();
    }
  }
  (void)f;
  return protocols::call_polyfill(t, "dict_update", args);
}

// Whether OrderedDict's methods call a __setitem__ in Python for this one; dict's own never do.
bool stores_in_python(Interpreter& t, PyObject* ordered) {
  return PyODict_Check(ordered) && t.region.lookups.type_lookup(Py_TYPE(ordered), names().__setitem__) !=
                                       py::type_lookup(&PyODict_Type, names().__setitem__);
}

// What OrderedDict takes the items of. A class over them is asked for its keys().
bool is_read_as_items(PyObject* other) { return PyDict_CheckExact(other) || PyODict_CheckExact(other); }

// OrderedDict.update asks all but real dicts for their keys(), and stores as the program does.
Result ordered_dict_update(Interpreter& t, PyObject* f, Args args) {
  PyObject* other = args.size() == 2 ? t.region.shadows.original(args[1]) : nullptr;
  const bool plain = other == nullptr || PyDict_CheckExact(other) || PyODict_CheckExact(other);
  if (args.size() == 0 || (plain && !stores_in_python(t, t.region.shadows.original(args[0]))))
    return dict_update(t, f, args);
  return protocols::call_polyfill(t, "ordered_dict_update", args);
}

Result dict_copy(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  PyObject* values[] = {t.region.reads.touch(t.region.shadows.original(args[0]))};
  return run_native(t, f, Args{values, nullptr});
}

// The keys of pairs that C code stores in a dict, as the program would store each.
void need_native_keys(Interpreter& t, PyObject* pairs) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs); ++i) {
    PyObject* pair = PySequence_Fast_GET_ITEM(pairs, i);
    const Cat cat = region::cat_of(pair);
    if (cat == Cat::Text) continue;
    if (cat != Cat::Tuple && cat != Cat::List) {
      if (region::is_atom(cat)) continue;  // no pair: CPython says so
      unsupported(Reason::BadArguments, {{"callee", std::string("a dict of a ") + Py_TYPE(pair)->tp_name}});
    }
    pair = t.region.reads.touch(t.region.shadows.original(pair));
    if (PySequence_Fast_GET_SIZE(pair) != 0) need_native_key(t, PySequence_Fast_GET_ITEM(pair, 0));
  }
}

Result dict_init(Interpreter& t, PyObject* f, Args args) {
  // A dict subclass of the region, filled from a mapping that C can read.
  if (args.size() >= 1 && !t.region.provenance.is_outside(args[0]) && !stores_in_python(t, args[0])) {
    if (args.size() == 2) {
      PyObject* other = t.region.shadows.original(args[1]);
      if (region::merges_as_dict(t.region, other) && (!PyODict_Check(args[0]) || is_read_as_items(other))) {
        std::vector<PyObject*> values(args.values.begin(), args.values.end());
        values[1] = t.region.reads.touch(other);
        return run_native(t, f, Args{values, args.kwnames});
      }
      if (t.region.lookups.type_lookup(Py_TYPE(other), "keys") != nullptr)  // its keys are no pairs
        unsupported(Reason::BadArguments, {{"callee", "dict.__init__ with a mapping"}});
      if (auto pairs = protocols::native_elements(t, other)) {
        need_native_keys(t, pairs.get());
        std::vector<PyObject*> values(args.values.begin(), args.values.end());
        values[1] = pairs.get();
        return run_native(t, f, Args{values, args.kwnames});
      }
      if (region::cat_of(other) == Cat::Generator) {
        auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
        for (std::size_t i = 0; i < args.values.size(); ++i)
          PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
        Continuation again(K::CallWith, f, tuple.get(), args.kwnames);
        again.number = 1;
        return t.and_then(protocols::call_polyfill(t, "list_from", std::span<PyObject* const>(&other, 1)),
                          std::move(again));
      }
    } else if (args.size() == 1) {
      return run_native(t, f, args);
    }
  }
  unsupported(Reason::BadArguments, {{"callee", "dict.__init__"}});
}

Result fromkeys(Interpreter& t, PyObject*, Args args) {
  if (args.keyword_count() != 0 || args.size() < 2 || args.size() > 3 ||
      args[0] != reinterpret_cast<PyObject*>(&PyDict_Type))
    unsupported(Reason::BadArguments, {{"callee", "fromkeys with these arguments"}});
  return protocols::call_polyfill(t, "dict_from_keys", args.values.subspan(1));
}

// ---- list, set, deque: methods with an iterable argument

Result extend(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  PyObject* target = t.region.shadows.original(args[0]);
  if (auto items = protocols::native_elements(t, args[1])) {
    PyObject* values[] = {PyList_Check(target) ? t.region.shadows.growable(target) : t.region.shadows.writable(target),
                          items.get()};
    return run_native(t, f, Args{values, nullptr});
  }
  PyObject* values[] = {target, args[1]};
  return protocols::call_polyfill(t, region::has_python_length(t.region, args[1]) ? "list_extend_sized" : "list_extend",
                                  values);
}

// One with a maxlen loses an element at the other end.
Result deque_append(Interpreter& t, PyObject* f, Args args) {
  const auto most = py::take(PyObject_GetAttrString(args[0], "maxlen"));
  return (most.get() == Py_None ? adds_to_self : mutates_self)(t, f, args);
}

Result list_append(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return run_native(t, f, args);
  t.region.shadows.append(t.region.shadows.original(args[0]), args[1]);
  return Result::none();
}

Result list_getitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  PyObject* own = t.region.lookups.type_lookup(Py_TYPE(args[0]), names().__getitem__);
  if (own != nullptr && PyFunction_Check(own)) {  // reached through super()
    if (!PyLong_CheckExact(args[1]) && !PySlice_Check(args[1]))
      unsupported(Reason::BadArguments, {{"callee", "list.__getitem__ with an object"}});
    return shallow(t, f, args);
  }
  return protocols::subscript(t, args[0], args[1]);
}

Result list_init(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 1 || args.keyword_count() != 0) return run_native(t, f, args);
  if (args.size() == 2 && !t.region.provenance.is_outside(args[0])) {
    if (auto items = protocols::native_elements(t, args[1])) {
      PyObject* values[] = {args[0], items.get()};
      return run_native(t, f, Args{values, nullptr});
    }
  }
  unsupported(Reason::BadArguments, {{"callee", "list.__init__"}});
}

bool plain_items(Interpreter& t, PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const Contents inside = t.region.reads.deep_touch(PyTuple_GET_ITEM(tuple, i));
    if (inside.tensor || inside.user || inside.shadowed) return false;
  }
  return true;
}

Result list_sort(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  PyObject* target = t.region.shadows.original(args[0]);
  PyObject* key = args.keyword("key");
  PyObject* reverse = args.keyword("reverse");
  const std::size_t known = (key != nullptr ? 1 : 0) + (reverse != nullptr ? 1 : 0);
  if (known != args.keyword_count() || (reverse != nullptr && !region::is_atom(region::cat_of(reverse))))
    unsupported(Reason::BadArguments, {{"callee", "list.sort with odd arguments"}});
  auto items = py::take(PyList_GetSlice(t.region.reads.touch(target), 0, PY_SSIZE_T_MAX));
  auto tuple = py::take(PyList_AsTuple(items.get()));
  if ((key == nullptr || key == Py_None) && plain_items(t, tuple.get())) {
    auto sort = py::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "sort"));
    std::vector<PyObject*> values{t.region.shadows.growable(target)};
    values.insert(values.end(), args.values.begin() + 1, args.values.end());
    return run_native(t, sort.get(), Args{values, args.kwnames});
  }
  PyObject* values[] = {target, items.get(), key == nullptr ? Py_None : key, reverse == nullptr ? Py_False : reverse};
  return protocols::call_polyfill(t, "list_sort", values);
}

// pellucid.polyfills_language.order_of(keys): where the sorted keys are now; None when comparing them runs Python code
// or fails.
Result order_of(Interpreter& t, PyObject*, Args args) {
  auto keys = protocols::native_elements(t, args[0]);
  if (!keys || !plain_items(t, keys.get())) return Result::none();
  auto by = py::take(PyObject_GetAttrString(keys.get(), "__getitem__"));
  auto order = py::take(PySequence_List(
      py::take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "n", PyTuple_GET_SIZE(keys.get())))
          .get()));
  auto sort = py::take(PyObject_GetAttrString(order.get(), "sort"));
  auto kwargs = py::take(Py_BuildValue("{s:O}", "key", by.get()));
  auto none = py::Owned<>::steal(PyObject_Call(sort.get(), py::take(PyTuple_New(0)).get(), kwargs.get()));
  if (!none) {
    PyErr_Clear();  // the polyfill raises it where CPython would
    return Result::none();
  }
  return Result::of(std::move(order));
}

// As list.sort marks the list while it has its items: whoever makes it grow, if only for a time, resets the mark. Both
// in one region: Executor::can_be_told.
Result begin_sort(Interpreter& t, PyObject*, Args args) {
  PyObject* list = t.region.shadows.growable(t.region.shadows.original(args[0]));  // they come back
  py::check(PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr));
  reinterpret_cast<PyListObject*>(list)->allocated = -1;
  return Result::none();
}
Result was_touched(Interpreter& t, PyObject*, Args args) {
  auto* list = reinterpret_cast<PyListObject*>(t.region.shadows.growable(t.region.shadows.original(args[0])));
  const bool touched = list->allocated != -1;
  if (!touched) list->allocated = 0;
  return Result::boolean(touched);
}

Result refuse_sort(Interpreter&, PyObject*, Args) {
  unsupported(Reason::UserDunder, {{"operation", "sorting 64 or more objects"}, {"callee", "__lt__"}});
}

// list.index(x), count, remove, tuple.index …: natively when comparing runs nothing of the user's
Result search(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || args.keyword_count() != 0) return run_native(t, f, args);
  PyObject* sequence = t.region.shadows.original(args[0]);
  auto name = py::take(PyObject_GetAttr(f, names().__name__));
  const std::string method = py::text_of(name.get());
  const Contents inside = t.region.reads.deep_touch(sequence), probe = t.region.reads.deep_touch(args[1]);
  if (!inside.tensor && !inside.user && !inside.shadowed && !probe.tensor && !probe.user && !probe.shadowed) {
    std::vector<PyObject*> values(args.values.begin(), args.values.end());
    values[0] = method == "remove" ? t.region.shadows.writable(sequence) : t.region.shadows.readable(sequence);
    return run_native(t, f, Args{values, nullptr});
  }
  const char* polyfill = method == "index" ? "sequence_index" : method == "count" ? "sequence_count" : "list_remove";
  return protocols::call_polyfill(t, polyfill, args.values);
}

void guard_element(Interpreter& t, Args args) {
  if (args.size() < 2) return;
  need_native_key(t, args[1]);
  t.region.reads.guard_key(args[0], args[1]);
}
Result set_remove(Interpreter& t, PyObject* f, Args args) {
  guard_element(t, args);
  return mutates_self(t, f, args);
}
Result set_add(Interpreter& t, PyObject* f, Args args) {
  guard_element(t, args);
  return adds_to_self(t, f, args);
}

// An operand of a set method, as C may read it: a set or dict as itself (which of two equal elements stays depends on
// that), the elements of everything else. Null: Python code has to iterate. `asks`: the method asks a class over set
// for its iterator.
py::Owned<> set_operand(Interpreter& t, PyObject* operand, bool asks) {
  operand = t.region.shadows.original(operand);
  const Cat cat = region::cat_of(operand);
  auto items = asks ? protocols::native_elements(t, operand) : protocols::elements_for_set(t, operand);
  if (!items) return items;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items.get()); ++k) need_native_key(t, PyTuple_GET_ITEM(items.get(), k));
  if (cat == Cat::Set || cat == Cat::FrozenSet || cat == Cat::Dict)
    return py::Owned<>::share(t.region.reads.touch(operand));
  return items;
}

Result set_method(Interpreter& t, PyObject* f, PyObject* self, Args args) {
  if (args.keyword_count() != 0) return run_native(t, f, args);  // a TypeError
  Py_ssize_t at = 0;
  Py_hash_t hash = 0;
  for (PyObject* key = nullptr; _PySet_NextEntry(self, &at, &key, &hash) != 0;) need_native_key(t, key);
  static PyObject* const isdisjoint = py::interned("isdisjoint").release();
  const bool asks = Py_IS_TYPE(f, &PyMethodDescr_Type) && PyDescr_NAME(f) == isdisjoint;
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values{self};
  for (std::size_t i = 1; i < args.size(); ++i) {
    held.push_back(set_operand(t, args[i], asks));
    if (!held.back()) {  // a polyfill makes a list of it first; then all is looked at again
      auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
      for (std::size_t k = 0; k < args.size(); ++k)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(k), Py_NewRef(args[k]));
      Continuation again(K::CallWith, f, tuple.get(), nullptr);
      again.number = static_cast<std::int64_t>(i);
      return t.and_then(protocols::call_polyfill(t, "list_from", args.values.subspan(i, 1)), std::move(again));
    }
    values.push_back(held.back().get());
  }
  return run_native(t, f, Args{values, nullptr});
}
Result set_operation(Interpreter& t, PyObject* f, Args args) {
  return set_method(t, f, t.region.reads.touch(t.region.shadows.original(args[0])), args);
}
Result set_update(Interpreter& t, PyObject* f, Args args) {
  return set_method(t, f, t.region.shadows.writable(t.region.shadows.original(args[0])), args);
}
// Of a set that the region made; one from outside would be changed.
Result set_init(Interpreter& t, PyObject* f, Args args) {
  if (args.size() > 2 || args.keyword_count() != 0) return run_native(t, f, args);
  return set_update(t, f, args);
}
// Which element goes depends on the addresses and on the history of the table, unless there is one only.
Result set_pop(Interpreter& t, PyObject* f, Args args) {
  if (args.values.size() != 1) return run_native(t, f, args);
  if (t.region.provenance.is_outside(t.region.shadows.original(args[0])) && t.region.reads.length_of(args[0]) > 1)
    unsupported(Reason::UnsupportedMutation, {{"target", "a set from outside by pop()"}});
  if (t.region.reads.deep_touch(args[0]).user) unsupported(Reason::IterationOrder, {{"type", "set"}});
  return mutates_self(t, f, args);
}

Result join(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  if (auto items = protocols::native_elements(t, args[1])) {
    PyObject* values[] = {args[0], items.get()};
    return run_native(t, f, Args{values, nullptr});
  }
  return protocols::call_polyfill(t, "join", args);
}

// Fields like {0.value} and a member's own __format__ read more than the text of the value. A keyword whose name does
// not stand in the template is not looked at: `template.format(**self.__dict__)`.
Result str_format(Interpreter& t, PyObject* f, Args args) {
  const bool is_template = args.size() > 0 && PyUnicode_Check(args[0]);
  auto names = py::take(PyList_New(0));
  std::vector<PyObject*> values;
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    PyObject* keyword = args.keyword_of(i);
    if (keyword != nullptr && is_template && PyUnicode_Contains(args[0], keyword) == 0) continue;
    if (keyword != nullptr) py::check(PyList_Append(names.get(), keyword));
    values.push_back(args.values[i]);
    if (region::cat_of(values.back()) == Cat::EnumMember)
      unsupported(Reason::UntracedCallable, {{"callee", "str.format of an enum member"}});
  }
  const auto kwnames = PyList_GET_SIZE(names.get()) == 0 ? py::Owned<>() : py::take(PyList_AsTuple(names.get()));
  return pure(t, f, Args{values, kwnames.get()});
}

// ---- OrderedDict and defaultdict made in the region

Result fresh_only(Interpreter& t, PyObject* f, Args args) {
  if (args.size() >= 1 && t.region.provenance.is_outside(t.region.shadows.original(args[0]))) {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("a ") + Py_TYPE(args[0])->tp_name + " from outside"}});
  }
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) values.push_back(t.region.reads.touch(t.region.shadows.original(value)));
  return run_native(t, f, Args{values, args.kwnames});
}

// OrderedDict(…), defaultdict(…), deque(…): the elements are taken natively.
Result collection(Interpreter& t, PyObject* f, Args args) {
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values;
  const std::string_view type = reinterpret_cast<PyTypeObject*>(f)->tp_name;
  const bool is_default = type.ends_with("defaultdict"), is_deque = type.ends_with("deque");
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    PyObject* value = t.region.shadows.original(args.values[i]);
    const Cat cat = region::cat_of(value);
    const bool is_dict = cat == Cat::Dict && !is_deque;
    if (is_dict && i < args.size() &&
        !(is_default ? i == 0 || region::merges_as_dict(t.region, value) : is_read_as_items(value)))
      unsupported(Reason::BadArguments, {{"callee", std::string(type) + " of a " + Py_TYPE(value)->tp_name}});
    if (i >= args.size() || (is_default && i == 0) || region::is_atom(cat) || is_dict) {
      values.push_back(t.region.reads.touch(value));
      continue;
    }
    auto items = protocols::native_elements(t, value);
    if (!items && cat == Cat::Generator) {
      auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
      for (std::size_t k = 0; k < args.values.size(); ++k)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(k), Py_NewRef(args.values[k]));
      Continuation again(K::CallWith, f, tuple.get(), args.kwnames);
      again.number = static_cast<std::int64_t>(i);
      return t.and_then(protocols::call_polyfill(t, "list_from", std::span<PyObject* const>(&value, 1)),
                        std::move(again));
    }
    if (!items) unsupported(Reason::BadArguments, {{"callee", reinterpret_cast<PyTypeObject*>(f)->tp_name}});
    if (!is_deque) need_native_keys(t, items.get());
    held.push_back(std::move(items));
    values.push_back(held.back().get());
  }
  return run_native(t, f, Args{values, args.kwnames});
}

// What collections.Counter counts with.
Result count_elements(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return complain(t, f, args);
  return protocols::call_polyfill(t, "count_elements", args);
}

const Row rows[] = {
    {"builtins.list.__contains__", contains},
    {"builtins.tuple.__contains__", contains},
    {"builtins.set.__contains__", contains},
    {"builtins.frozenset.__contains__", contains},
    {"builtins.dict.get", by_key<dict_get>, true, true},
    {"builtins.dict.__contains__", dict_contains},
    {"builtins.dict.__setitem__", by_key<dict_setitem>, true, true},
    {"builtins.dict.__getitem__", dict_getitem},
    {"builtins.dict.__delitem__", dict_delitem},
    {"builtins.dict.setdefault", by_key<dict_setdefault>, true, true},
    {"builtins.dict.pop", by_key<dict_pop>, true, true},
    {"builtins.dict.keys", dict_view},
    {"builtins.dict.values", dict_view},
    {"builtins.dict.items", dict_view},
    {"builtins.dict.update", dict_update, true, true},
    {"builtins.dict.copy", dict_copy},
    {"builtins.dict.clear", mutates_self},
    {"builtins.dict.popitem", mutates_self},
    {"builtins.dict.__init__", dict_init},
    {"builtins.dict.fromkeys", fromkeys},
    {"builtins.dict.__len__", shallow},
    {"builtins.dict.__iter__", dict_view},
    {"collections.OrderedDict.__setitem__", by_key<dict_setitem>, true, true},
    {"collections.OrderedDict.__delitem__", dict_delitem},
    {"collections.OrderedDict.pop", by_key<dict_pop>, true, true},
    {"collections.OrderedDict.setdefault", by_key<dict_setdefault>, true, true},
    {"collections.OrderedDict.keys", dict_view},
    {"collections.OrderedDict.values", dict_view},
    {"collections.OrderedDict.items", dict_view},
    {"collections.OrderedDict.update", ordered_dict_update},
    {"collections.OrderedDict.copy", dict_copy},
    {"collections.OrderedDict.__init__", dict_init},
    {"collections.OrderedDict.move_to_end", fresh_only},
    {"collections.OrderedDict.popitem", fresh_only},
    {"collections.OrderedDict.clear", fresh_only},
    {"collections.OrderedDict.__iter__", dict_view},
    {"collections.OrderedDict", collection},
    {"collections.defaultdict", collection},
    {"collections.deque", collection},
    {"collections.defaultdict.__init__", fresh_only},
    {"_collections._count_elements", count_elements},
    {"builtins.list.append", list_append, true, true},
    {"builtins.list.insert", adds_to_self},
    {"builtins.list.pop", mutates_self},
    {"builtins.list.clear", mutates_self},
    {"builtins.list.reverse", adds_to_self},
    {"builtins.list.copy", shallow},
    {"builtins.list.extend", extend},
    {"builtins.list.sort", list_sort},
    {"pellucid.polyfills_language.order_of", order_of},
    {"pellucid.polyfills_language.refuse_sort", refuse_sort},
    {"pellucid.polyfills_language.begin_sort", begin_sort},
    {"pellucid.polyfills_language.was_touched", was_touched},
    {"builtins.list.index", search},
    {"builtins.list.count", search},
    {"builtins.list.remove", search},
    {"builtins.list.__init__", list_init},
    {"builtins.list.__getitem__", list_getitem},
    {"builtins.list.__len__", shallow},
    {"builtins.tuple.index", search},
    {"builtins.tuple.count", search},
    {"builtins.tuple.__len__", shallow},
    {"collections.deque.append", deque_append, true, true},
    {"collections.deque.appendleft", deque_append, true, true},
    {"collections.deque.pop", mutates_self},
    {"collections.deque.popleft", mutates_self},
    {"collections.deque.clear", mutates_self},
    {"collections.deque.rotate", adds_to_self},
    {"collections.deque.reverse", adds_to_self},
    {"collections.deque.extend", extend},
    {"builtins.set.add", set_add},
    {"builtins.set.discard", set_remove},
    {"builtins.set.remove", set_remove},
    {"builtins.set.clear", mutates_self},
    {"builtins.set.copy", set_operation},
    {"builtins.set.__init__", set_init},
    {"builtins.set.pop", set_pop},
    {"builtins.set.union", set_operation},
    {"builtins.set.intersection", set_operation},
    {"builtins.set.difference", set_operation},
    {"builtins.set.symmetric_difference", set_operation},
    {"builtins.set.issubset", set_operation},
    {"builtins.set.issuperset", set_operation},
    {"builtins.set.isdisjoint", set_operation},
    {"builtins.set.update", set_update},
    {"builtins.set.difference_update", set_update},
    {"builtins.set.intersection_update", set_update},
    {"builtins.set.symmetric_difference_update", set_update},
    {"builtins.frozenset.symmetric_difference", set_operation},
    {"builtins.frozenset.copy", set_operation},
    {"builtins.frozenset.union", set_operation},
    {"builtins.frozenset.intersection", set_operation},
    {"builtins.frozenset.difference", set_operation},
    {"builtins.frozenset.issubset", set_operation},
    {"builtins.frozenset.issuperset", set_operation},
    {"builtins.frozenset.isdisjoint", set_operation},
    {"builtins.str.join", join},
    {"builtins.str.format", str_format},
};

}  // namespace

const std::span<const Row> kContainerRows = rows;

}  // namespace pellucid::rows
