// Building, extending and unpacking containers; strings; pattern matching.
#include "protocols/late_values.h"
#include "py/cpython.h"
#include "py/keys.h"
#include "region/process.h"
#include "region/snapshot.h"
#include "trace/late_text.h"
#include "trace/rules/rules.h"

namespace pellucid::trace {

namespace {

constexpr unsigned long kMatchSelf = 1UL << 22;  // _Py_TPFLAGS_MATCH_SELF of object.h

py::Owned<> tuple_of_top(Frame& f, int count) {
  auto tuple = py::take(PyTuple_New(count));
  for (int i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(peek(f, static_cast<std::size_t>(count - 1 - i))));
  return tuple;
}

void need_native_hash(Executor& ex, PyObject* key, const char* operation) {
  if (!ex.region.reads.hashable_natively(key)) {
    if (py::cannot_be_hashed(key)) return;
    throw GraphBreak(Reason::UserDunder, {{"operation", operation}, {"callee", "__hash__"}});
  }
}

// What CPython asks before it words an error of its own about something that is to be iterated.
bool may_be_iterated(PyObject* value) { return Py_TYPE(value)->tp_iter != nullptr || PySequence_Check(value) != 0; }

// Of an iterator no more is taken than decides: one more than there are targets.
py::Owned<> first_elements(PyObject* iterator, Py_ssize_t most) {
  auto list = py::take(PyList_New(0));
  while (PyList_GET_SIZE(list.get()) < most) {
    auto value = py::Owned<>::steal(Py_TYPE(iterator)->tp_iternext(iterator));
    if (!value && PyErr_Occurred() == nullptr) break;
    if (!value && !PyErr_ExceptionMatches(PyExc_StopIteration)) py::throw_pending();
    if (!value) {
      PyErr_Clear();
      break;
    }
    py::check(PyList_Append(list.get(), value.get()));
  }
  return py::take(PyList_AsTuple(list.get()));
}

// The elements of an iterable on top of the stack, or a detour: a polyfill makes a list of it in its place and the
// instruction runs again. `most`: no more than so many are wanted; -1: all.
py::Owned<> elements_or_detour(Executor& ex, Frame& f, bool* detour, bool* raised, Py_ssize_t most = -1) {
  auto value = py::Owned<>::share(peek(f, 0));
  *detour = *raised = false;
  const bool own_iterator = region::cat_of(value.get()) == Cat::Iterator &&
                            !ex.region.provenance.is_outside(value.get()) &&
                            Py_TYPE(value.get())->tp_iternext != nullptr;
  if (most >= 0 && own_iterator) return first_elements(value.get(), most);
  auto tuple = protocols::native_elements(ex, value.get());
  if (tuple) return tuple;
  auto limit = py::take(PyLong_FromSsize_t(most));
  PyObject* args[] = {value.get(), limit.get()};
  const std::span<PyObject* const> given(args, most < 0 ? 1 : 2);
  const char* polyfill = most >= 0                                           ? "list_of_at_most"
                         : region::has_python_length(ex.region, value.get()) ? "list_of_sized"
                                                                             : "list_from";
  Result r = protocols::call_polyfill(ex, polyfill, given);
  if (r.did == Result::Did::Raised) {
    *raised = true;
    return {};
  }
  drop(f, 1);
  if (r.is_value()) f.stack.push_back(std::move(r.value));
  f.next = f.at;
  *detour = true;
  return {};
}

}  // namespace

Next do_BUILD_TUPLE(Executor&, Frame& f, int arg) {
  auto tuple = tuple_of_top(f, arg);
  drop(f, static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(tuple));
  return Next::Go;
}
Next do_BUILD_LIST(Executor&, Frame& f, int arg) {
  auto list = py::take(PySequence_List(tuple_of_top(f, arg).get()));
  drop(f, static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(list));
  return Next::Go;
}
Next do_BUILD_SET(Executor& ex, Frame& f, int arg) {
  for (int i = 0; i < arg; ++i) need_native_hash(ex, peek(f, static_cast<std::size_t>(i)), "a set display");
  auto set = py::take(PySet_New(nullptr));
  for (int i = arg - 1; i >= 0; --i) py::check(PySet_Add(set.get(), peek(f, static_cast<std::size_t>(i))));
  drop(f, static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(set));
  return Next::Go;
}
Next do_BUILD_MAP(Executor& ex, Frame& f, int arg) {
  auto dict = py::take(PyDict_New());
  for (int i = 0; i < arg; ++i) {
    PyObject* key = ex.region.numbers.plain(peek(f, static_cast<std::size_t>(2 * (arg - i) - 1)));
    need_native_hash(ex, key, "a dict display");
    py::check(PyDict_SetItem(dict.get(), key, peek(f, static_cast<std::size_t>(2 * (arg - i) - 2))));
  }
  drop(f, 2 * static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(dict));
  return Next::Go;
}
Next do_BUILD_CONST_KEY_MAP(Executor&, Frame& f, int arg) {
  PyObject* keys = peek(f, 0);
  auto dict = py::take(PyDict_New());
  for (int i = 0; i < arg; ++i)
    py::check(PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), peek(f, static_cast<std::size_t>(arg - i))));
  drop(f, static_cast<std::size_t>(arg) + 1);
  f.stack.push_back(std::move(dict));
  return Next::Go;
}
Next do_BUILD_SLICE(Executor&, Frame& f, int arg) {
  PyObject* step = arg == 3 ? peek(f, 0) : nullptr;
  const std::size_t extra = arg == 3 ? 1 : 0;
  auto slice = py::take(PySlice_New(peek(f, 1 + extra), peek(f, extra), step));
  drop(f, static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(slice));
  return Next::Go;
}
Next do_BUILD_STRING(Executor& ex, Frame& f, int arg) {
  if (ex.region.deferred.reorderable && join_later(ex, f, arg)) return Next::Go;
  auto parts = tuple_of_top(f, arg);
  if (auto late = protocols::late_join(ex, parts.get())) {
    drop(f, static_cast<std::size_t>(arg));
    return push(f, std::move(*late));
  }
  auto empty = py::str("");
  auto text = py::take(PyUnicode_Join(empty.get(), parts.get()));
  drop(f, static_cast<std::size_t>(arg));
  f.stack.push_back(std::move(text));
  return Next::Go;
}
Next do_FORMAT_VALUE(Executor& ex, Frame& f, int arg) {
  const bool has_spec = (arg & 4) != 0;
  auto spec = has_spec ? py::Owned<>::share(ex.region.numbers.plain(peek(f, 0))) : py::str("");
  auto value = py::Owned<>::share(peek(f, has_spec ? 1 : 0));
  const int conversion = arg & 3;
  const bool is_formatted = spec && PyUnicode_GET_LENGTH(spec.get()) > 0;
  if (conversion == 3) value = py::Owned<>::share(ex.region.numbers.plain(value.get()));
  if (format_later(ex, f, value.get(), conversion, spec.get(), has_spec ? 2 : 1)) return Next::Go;
  Result r = Result::done();
  if (conversion == 0) {
    r = protocols::format(ex, value.get(), spec.get());
  } else if (region::is_number(value.get())) {
    r = protocols::to_text(ex, value.get(), conversion == 1 ? "__str__" : "__repr__");
    if (r.is_value() && is_formatted) r = protocols::format(ex, r.value.get(), spec.get());
  } else if (is_formatted) {
    auto convert = py::import_attr("builtins", conversion == 1 ? "str" : conversion == 2 ? "repr" : "ascii");
    PyObject* values[] = {value.get(), convert.get(), spec.get()};
    r = protocols::call_polyfill(ex, "converted_and_formatted", values);
  } else {
    if (conversion == 3 && !region::is_atom(region::cat_of(value.get())))
      throw GraphBreak(Reason::UserDunder, {{"operation", "!a"}, {"callee", "__repr__"}});
    r = protocols::to_text(ex, value.get(), conversion == 1 ? "__str__" : "__repr__");
    if (conversion == 3 && r.is_value()) {
      auto bytes = py::take(PyUnicode_AsEncodedString(r.value.get(), "ascii", "backslashreplace"));
      r.value = py::take(PyUnicode_FromEncodedObject(bytes.get(), "ascii", nullptr));
    }
  }
  drop_below(f, r, has_spec ? 2 : 1);
  return push(f, std::move(r));
}

// What is being built is the region's own, unless the region starts behind a break in the middle of it.
Next do_LIST_APPEND(Executor& ex, Frame& f, int arg) {
  PyObject* list = ex.region.shadows.growable(peek(f, static_cast<std::size_t>(arg)));
  py::check(PyList_Append(list, peek(f, 0)));
  drop(f, 1);
  return Next::Go;
}
Next do_SET_ADD(Executor& ex, Frame& f, int arg) {
  need_native_hash(ex, peek(f, 0), "a set display");
  py::check(PySet_Add(ex.region.shadows.growable(peek(f, static_cast<std::size_t>(arg))), peek(f, 0)));
  drop(f, 1);
  return Next::Go;
}
Next do_MAP_ADD(Executor& ex, Frame& f, int arg) {
  PyObject* key = ex.region.numbers.plain(peek(f, 1));
  need_native_hash(ex, key, "a dict display");
  PyObject* dict = ex.region.shadows.writable(peek(f, static_cast<std::size_t>(arg) + 1));
  py::check(PyDict_SetItem(dict, key, peek(f, 0)));
  drop(f, 2);
  return Next::Go;
}
Next do_LIST_EXTEND(Executor& ex, Frame& f, int arg) {
  bool detour = false, raised = false;
  if (PyObject* value = peek(f, 0); !may_be_iterated(value)) {
    ex.raise(PyExc_TypeError, std::string("Value after * must be an iterable, not ") + Py_TYPE(value)->tp_name);
    return Next::Raise;
  }
  auto items = elements_or_detour(ex, f, &detour, &raised);
  if (raised) return Next::Raise;
  if (detour) return Next::Go;
  PyObject* list = ex.region.shadows.growable(peek(f, static_cast<std::size_t>(arg)));
  py::check(PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), items.get()));
  drop(f, 1);
  return Next::Go;
}
Next do_SET_UPDATE(Executor& ex, Frame& f, int arg) {
  bool detour = false, raised = false;
  const region::LooksAtNoOrder order(ex.region, peek(f, 0));  // it becomes that of another set
  auto items = protocols::elements_for_set(ex, peek(f, 0));
  if (!items) items = elements_or_detour(ex, f, &detour, &raised);
  if (raised) return Next::Raise;
  if (detour) return Next::Go;
  PyObject* set = ex.region.shadows.growable(peek(f, static_cast<std::size_t>(arg)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    need_native_hash(ex, PyTuple_GET_ITEM(items.get(), i), "a set display");
  // From a set or dict the table grows at once, which gives another order than one by one.
  PyObject* source = ex.region.shadows.original(peek(f, 0));
  const bool whole = PyAnySet_Check(source) || PyDict_CheckExact(source);
  py::check(_PySet_Update(set, whole ? ex.region.reads.touch(source) : items.get()));
  drop(f, 1);
  return Next::Go;
}
// A polyfill makes a dict of it in its place and the instruction runs again.
static Next mapping_detour(Executor& ex, Frame& f, PyObject* source, int arg, bool merge) {
  if (ex.region.lookups.type_lookup(Py_TYPE(source), "keys") == nullptr) {
    std::string text = std::string("'") + Py_TYPE(source)->tp_name + "' object is not a mapping";
    if (merge) {
      PyObject* callee = peek(f, static_cast<std::size_t>(arg) + 2);
      auto name = py::take(_PyObject_FunctionStr(callee));
      text = py::text_of(name.get()) + " argument after ** must be a mapping, not " + Py_TYPE(source)->tp_name;
    }
    ex.raise(PyExc_TypeError, text);
    return Next::Raise;
  }
  auto held = py::Owned<>::share(source);
  PyObject* args[] = {held.get()};
  Result r = protocols::call_polyfill(ex, "dict_from_mapping", args);
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 1);
  f.next = f.at;
  return push(f, std::move(r));
}
static Next update_dict(Executor& ex, Frame& f, int arg, bool merge) {
  PyObject* source = ex.region.shadows.original(peek(f, 0));
  if (!region::merges_as_dict(ex.region, source)) return mapping_detour(ex, f, source, arg, merge);
  const auto entries = ex.region.reads.entries(source);
  PyObject* target = ex.region.shadows.writable(peek(f, static_cast<std::size_t>(arg)));
  if (merge) {
    for (const auto& [key, value] : entries) {
      const int known = PyDict_Contains(target, key.get());
      py::check(known);
      if (known == 1) {
        if (!PyUnicode_CheckExact(key.get()))
          unsupported(Reason::UserDunder, {{"operation", "naming a keyword"}, {"callee", "__str__"}});
        if (ex.topmost_handled() != nullptr) {  // format_kwargs_error of ceval.c knows only a KeyError without context
          ex.raise(py::take(PyObject_CallOneArg(PyExc_KeyError, key.get())));
          return Next::Raise;
        }
        PyObject* callee = peek(f, static_cast<std::size_t>(arg) + 2);
        auto name = py::take(_PyObject_FunctionStr(callee));
        ex.raise(PyExc_TypeError, py::text_of(name.get()) + " got multiple values for keyword argument '" +
                                      py::text_of(key.get()) + "'");
        return Next::Raise;
      }
    }
  }
  for (const auto& [key, value] : entries) py::check(PyDict_SetItem(target, key.get(), value.get()));
  drop(f, 1);
  return Next::Go;
}
Next do_DICT_UPDATE(Executor& ex, Frame& f, int arg) { return update_dict(ex, f, arg, false); }
Next do_DICT_MERGE(Executor& ex, Frame& f, int arg) { return update_dict(ex, f, arg, true); }
Next do_LIST_TO_TUPLE(Executor& ex, Frame& f, int) {
  auto tuple = py::take(PyList_AsTuple(ex.region.reads.touch(peek(f, 0))));
  drop(f, 1);
  f.stack.push_back(std::move(tuple));
  return Next::Go;
}

// No more is taken than is asked for: a polyfill makes a tuple in its place and the instruction runs again.
static bool unpacks_by_step(PyObject* value) {
  const Cat cat = region::cat_of(value);
  return cat == Cat::Iterator || cat == Cat::Generator || cat == Cat::Instance;
}
static Next unpack_by(Executor& ex, Frame& f, const char* polyfill, std::span<PyObject* const> args) {
  Result r = protocols::call_polyfill(ex, polyfill, args);
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 1);
  f.next = f.at;
  return push(f, std::move(r));
}

Next do_UNPACK_SEQUENCE(Executor& ex, Frame& f, int arg) {
  bool detour = false, raised = false;
  auto value = py::Owned<>::share(peek(f, 0));
  if (!may_be_iterated(value.get())) {
    ex.raise(PyExc_TypeError, std::string("cannot unpack non-iterable ") + Py_TYPE(value.get())->tp_name + " object");
    return Next::Raise;
  }
  auto items = elements_or_detour(ex, f, &detour, &raised, arg + 1);
  if (raised) return Next::Raise;
  if (detour) return Next::Go;
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  if (n != arg) {
    const std::string text =
        n < arg ? "not enough values to unpack (expected " + std::to_string(arg) + ", got " + std::to_string(n) + ")"
                : "too many values to unpack (expected " + std::to_string(arg) + ")";
    ex.raise(PyExc_ValueError, text);
    return Next::Raise;
  }
  drop(f, 1);
  for (Py_ssize_t i = n - 1; i >= 0; --i) f.stack.push_back(py::Owned<>::share(PyTuple_GET_ITEM(items.get(), i)));
  return Next::Go;
}
Next do_UNPACK_EX(Executor& ex, Frame& f, int arg) {
  bool detour = false, raised = false;
  if (PyObject* value = peek(f, 0); !may_be_iterated(value)) {
    ex.raise(PyExc_TypeError, std::string("cannot unpack non-iterable ") + Py_TYPE(value)->tp_name + " object");
    return Next::Raise;
  }
  auto value = py::Owned<>::share(peek(f, 0));
  if (unpacks_by_step(value.get())) {
    auto first = py::take(PyLong_FromLong(arg & 0xff)), last = py::take(PyLong_FromLong(arg >> 8));
    PyObject* args[] = {value.get(), first.get(), last.get()};
    return unpack_by(ex, f, "unpack_with_rest", args);
  }
  auto items = elements_or_detour(ex, f, &detour, &raised);
  if (raised) return Next::Raise;
  if (detour) return Next::Go;
  const Py_ssize_t before = arg & 0xff, after = arg >> 8, n = PyTuple_GET_SIZE(items.get());
  if (n < before + after) {
    ex.raise(PyExc_ValueError, "not enough values to unpack (expected at least " + std::to_string(before + after) +
                                   ", got " + std::to_string(n) + ")");
    return Next::Raise;
  }
  drop(f, 1);
  for (Py_ssize_t i = n - 1; i >= n - after; --i)
    f.stack.push_back(py::Owned<>::share(PyTuple_GET_ITEM(items.get(), i)));
  auto middle = py::take(PyTuple_GetSlice(items.get(), before, n - after));
  f.stack.push_back(py::take(PySequence_List(middle.get())));
  for (Py_ssize_t i = before - 1; i >= 0; --i) f.stack.push_back(py::Owned<>::share(PyTuple_GET_ITEM(items.get(), i)));
  return Next::Go;
}

Next do_GET_LEN(Executor& ex, Frame& f, int) { return push(f, protocols::length(ex, peek(f, 0))); }
Next do_MATCH_MAPPING(Executor&, Frame& f, int) {
  const bool yes = PyType_HasFeature(Py_TYPE(peek(f, 0)), Py_TPFLAGS_MAPPING);
  f.stack.push_back(py::Owned<>::share(yes ? Py_True : Py_False));
  return Next::Go;
}
Next do_MATCH_SEQUENCE(Executor&, Frame& f, int) {
  const bool yes = PyType_HasFeature(Py_TYPE(peek(f, 0)), Py_TPFLAGS_SEQUENCE);
  f.stack.push_back(py::Owned<>::share(yes ? Py_True : Py_False));
  return Next::Go;
}
Next do_MATCH_KEYS(Executor& ex, Frame& f, int) {
  PyObject* args[] = {peek(f, 1), peek(f, 0)};
  return push(f, protocols::call_polyfill(ex, "match_keys", args));
}
Next do_MATCH_CLASS(Executor& ex, Frame& f, int arg) {
  auto names = py::Owned<>::share(peek(f, 0)), type = py::Owned<>::share(peek(f, 1)),
       subject = py::Owned<>::share(peek(f, 2));
  const bool is_type = PyType_Check(type.get()) != 0;
  auto* cls = reinterpret_cast<PyTypeObject*>(type.get());
  const bool matches_itself = is_type && PyType_HasFeature(cls, kMatchSelf);
  auto count = py::take(PyLong_FromLong(arg));
  auto name = py::str(is_type ? cls->tp_name : "");
  PyObject* args[] = {subject.get(), type.get(), count.get(), names.get(), matches_itself ? Py_True : Py_False,
                      name.get()};
  Result r = protocols::call_polyfill(ex, "match_class", args);
  drop_below(f, r, 3);
  return push(f, std::move(r));
}

}  // namespace pellucid::trace
