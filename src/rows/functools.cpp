// functools, and the callables of operator that its users build: partial, lru_cache, itemgetter.
#include <algorithm>
#include <cstring>
#include <optional>

#include "protocols/deferred.h"
#include "protocols/type_expressions.h"
#include "py/cpython.h"
#include "region/body_audit.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

using region::names;

constexpr const char* kNoValueYet = "a cached function that does not have the value yet";

Result partial_call(Interpreter& t, PyObject* self, Args args) {
  Result function = protocols::generic_getattr(t, self, names().func),
         bound = protocols::generic_getattr(t, self, names().args),
         keywords = protocols::generic_getattr(t, self, names().keywords);
  const auto named = t.region.reads.entries(keywords.value.get());
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound.value.get()); ++i)
    values.push_back(PyTuple_GET_ITEM(bound.value.get(), i));
  for (PyObject* value : args.positional()) values.push_back(value);
  auto merged = py::take(PyDict_New());
  for (const auto& [key, value] : named) py::check(PyDict_SetItem(merged.get(), key.get(), value.get()));
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    py::check(PyDict_SetItem(merged.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  }
  py::Owned<> kwnames;
  if (PyDict_GET_SIZE(merged.get()) > 0) {
    kwnames = py::take(PyTuple_New(PyDict_GET_SIZE(merged.get())));
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0, i = 0;
    while (PyDict_Next(merged.get(), &position, &key, &value)) {
      PyTuple_SET_ITEM(kwnames.get(), i++, Py_NewRef(key));
      values.push_back(value);
    }
  }
  return protocols::call(t, function.value.get(), Args{values, kwnames.get()});
}

// operator.itemgetter and operator.attrgetter: what they get is fixed when they are made, so identity says all.
template <bool Items>
Result getter_call(Interpreter& t, PyObject* self, Args args) {
  if (args.size() != 1 || args.keyword_count() != 0)
    unsupported(Reason::BadArguments, {{"callee", "a getter without exactly one argument"}});
  t.region.provenance.guard_identity(self);
  auto reduced = py::take(PyObject_CallMethod(self, "__reduce__", nullptr));
  PyObject* wanted = PyTuple_GET_ITEM(reduced.get(), 1);
  t.region.provenance.keep(wanted);
  if (t.region.provenance.is_outside(self)) t.region.provenance.note_constant(wanted);
  PyObject* values[] = {wanted, args[0]};
  return protocols::call_polyfill(t, Items ? "get_items" : "get_attributes", values);
}

// operator.methodcaller(name, *arguments, **named): __reduce__ tells all, as it is or in a partial of the class.
Result method_caller_call(Interpreter& t, PyObject* self, Args args) {
  if (args.size() != 1 || args.keyword_count() != 0)
    unsupported(Reason::BadArguments, {{"callee", "a methodcaller without exactly one argument"}});
  t.region.provenance.guard_identity(self);
  const auto reduced = py::take(PyObject_CallMethod(self, "__reduce__", nullptr));
  PyObject* maker = PyTuple_GET_ITEM(reduced.get(), 0);
  auto wanted = py::Owned<>::share(PyTuple_GET_ITEM(reduced.get(), 1));
  auto named = py::Owned<>::share(Py_None);
  if (!PyType_Check(maker)) {
    wanted = py::take(PySequence_Concat(py::take(PyObject_GetAttrString(maker, "args")).get(), wanted.get()));
    named = py::take(PyObject_GetAttrString(maker, "keywords"));
  }
  for (PyObject* part : {wanted.get(), named.get()}) {
    t.region.provenance.keep(part);
    if (t.region.provenance.is_outside(self)) t.region.provenance.note_constant(part);
  }
  PyObject* values[] = {wanted.get(), named.get(), args[0]};
  return protocols::call_polyfill(t, "call_method", values);
}

Result reduce(Interpreter& t, PyObject*, Args args) { return protocols::call_polyfill(t, "reduce_by", args.values); }

// The dict inside of an lru_cache wrapper, and the key under which it keeps what these arguments give.
std::pair<PyObject*, py::Owned<>> cache_and_key(PyObject* wrapper, Args args) {
  static PyObject* get_referents = py::import_attr("gc", "get_referents").release();
  // What the wrapper refers to, in CPython's order: links, cache, function, the mark before keywords, the type of links
  // …
  auto parts = py::take(PyObject_CallOneArg(get_referents, wrapper));
  Py_ssize_t at = PyList_GET_SIZE(parts.get()) - 1;
  auto is_link_type = [](PyObject* o) {
    return PyType_Check(o) &&
           std::string_view(reinterpret_cast<PyTypeObject*>(o)->tp_name) == "functools._lru_list_elem";
  };
  while (at >= 0 && !is_link_type(PyList_GET_ITEM(parts.get(), at))) --at;
  PyObject* cache = at >= 3 ? PyList_GET_ITEM(parts.get(), at - 3) : nullptr;
  if (cache == nullptr || !PyDict_CheckExact(cache))
    unsupported(Reason::CachedFunction, {{"callee", "an lru_cache of another make"}});
  auto key = py::take(PyTuple_New(0));
  auto append = [&](PyObject* item) {
    auto one = py::take(PyTuple_Pack(1, item));
    key = py::take(PySequence_Concat(key.get(), one.get()));
  };
  for (PyObject* value : args.positional()) append(value);
  if (args.keyword_count() > 0) append(PyList_GET_ITEM(parts.get(), at - 1));
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    append(PyTuple_GET_ITEM(args.kwnames, i));
    append(args.values[args.size() + i]);
  }
  if (args.values.size() == 1 && args.size() == 1 && (PyUnicode_CheckExact(args[0]) || PyLong_CheckExact(args[0])))
    key = py::Owned<>::share(args[0]);
  return {cache, std::move(key)};
}

// The entry that holds a cached value: cache_clear() and eviction are noticed, as eager would compute the value anew
// then.
void guard_cache_entry(Interpreter& t, PyObject* cache, PyObject* key) {
  PyObject* entry = PyDict_GetItemWithError(cache, key);
  if (entry == nullptr) {
    if (PyErr_Occurred()) py::throw_pending();
    unsupported(Reason::CachedFunction, {{"callee", "an lru_cache that is typed or keeps nothing"}});
  }
  auto& sources = t.region.capture->sources;
  t.region.provenance.guard(region::Kind::ID_MATCH, sources.dict_item(sources.constant(cache), key),
                            py::Owned<>::share(entry));
}

// Called now, while the region is captured, a function must do nothing but compute: its effects would come before those
// of the region, and it would not see what the region has changed.
bool only_computes(Interpreter& t, PyObject* function) {
  static PyObject* reads = py::import_attr("pellucid._cached", "reads").release();
  auto found = py::take(PyObject_CallOneArg(reads, function));
  if (found.get() == Py_None) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found.get()); ++i) {
    PyObject* space = PyTuple_GET_ITEM(PyList_GET_ITEM(found.get(), i), 0);
    PyObject* name = PyTuple_GET_ITEM(PyList_GET_ITEM(found.get(), i), 1);
    if (t.region.shadows.is_shadowed(space) &&
        PyDict_GetItem(t.region.shadows.readable(space), name) != PyDict_GetItem(space, name))
      return false;
  }
  return true;
}

// What typing makes of types (Optional[...], say): nothing shows but that it is made once.
bool makes_types(PyObject* function) {
  static PyObject* const space = py::import_attr("typing", "__dict__").release();
  return PyFunction_Check(function) && PyFunction_GET_GLOBALS(function) == space;
}

// Whether the function reads an attribute that has the name of a method of a logger: following others would be for
// nothing.
bool may_log(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyObject* const used = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_names;
  return std::ranges::any_of(kLoggingRows, [&](const Row& row) {
    const std::string_view path = row.name;
    const auto name = py::take(PyUnicode_FromString(path.substr(path.rfind('.') + 1).data()));
    return PySequence_Contains(used, name.get()) == 1;
  });
}

// begin_cached(function): what follows is a function whose value a cache is to keep. What end_cached() asks for.
Result begin_cached(Interpreter& t, PyObject*, Args args) {
  t.region.audits.push_back(std::make_unique<region::BodyAudit>(t.region, std::vector<PyObject*>{args[0]}));
  return Result::of(py::take(Py_BuildValue("(nn)", static_cast<Py_ssize_t>(t.region.deferred.count()),
                                           static_cast<Py_ssize_t>(t.region.capture->bodies->graph().op_count()))));
}

// end_cached(begun, result, wrapper, ...): where the function did nothing but ask for calls that wait, such as logging,
// the call of the wrapper with these arguments is what waits instead: it makes them, and fills the cache.
Result end_cached(Interpreter& t, PyObject*, Args args) {
  const auto audit = std::move(t.region.audits.back());
  t.region.audits.pop_back();
  const auto calls = PyLong_AsSize_t(PyTuple_GET_ITEM(args[0], 0));
  const auto operators = PyLong_AsSize_t(PyTuple_GET_ITEM(args[0], 1));
  const bool computes = args[1] != Py_None || t.region.capture->bodies->graph().op_count() != operators;
  const bool waits = t.region.deferred.take_back(calls) > 0;
  if (computes || !waits || audit->change() != nullptr || audit->has_read_changed())
    unsupported(Reason::CachedFunction, {{"callee", kNoValueYet}});
  t.region.capture->fills_cache = true;
  return protocols::defer_as_it_is(t, args[2], Args{args.values.subspan(3), args.kwnames});
}

Result refuse_cached(Interpreter&, PyObject*, Args) { unsupported(Reason::CachedFunction, {{"callee", kNoValueYet}}); }

// The function is followed as far as it logs, as one that warns once does. The region is good as long as the cache has
// no value.
Result log_once(Interpreter& t, PyObject* wrapper, PyObject* cache, PyObject* key, Args args) {
  t.region.provenance.guard(region::Kind::DICT_CONTAINS, t.region.capture->sources.constant(cache),
                            py::Owned<>::share(key), 0);
  std::vector<PyObject*> values{wrapper};
  values.insert(values.end(), args.values.begin(), args.values.end());
  return protocols::call_polyfill(t, "log_once", Args{values, args.kwnames});
}

void guard_identities(Interpreter& t, PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) guard_identities(t, PyTuple_GET_ITEM(value, i));
  } else if (!region::is_atom(region::cat_of(value)) && t.region.provenance.is_outside(value)) {
    t.region.provenance.guard_identity(value);
  }
}

// What typing makes of types is a value, and which of two equal ones it is depends on how full its cache is: that
// nothing has been dropped from there is not guarded.
std::optional<Result> type_made_of(Interpreter& t, PyObject* wrapper, PyObject* wrapped, Args args) {
  if (!makes_types(wrapped) || !t.region.provenance.is_outside(wrapper)) return std::nullopt;
  if (!std::ranges::all_of(args.values, protocols::is_type_value)) return std::nullopt;
  t.region.provenance.guard_identity(wrapper);
  for (PyObject* value : args.values) guard_identities(t, value);
  auto made = py::Owned<>::steal(PyObject_Vectorcall(wrapper, args.values.data(), args.size(), args.kwnames));
  if (!made) return t.raise_pending(py::PythonError());
  t.region.provenance.note_constant(made.get());
  return Result::of(std::move(made));
}

// The cache decides what a call means: with arguments that C code can hash the real wrapper is asked, so a value that
// eager would take from the cache is taken from it here, and one that eager would compute once is computed once.
Result cached_call(Interpreter& t, PyObject* self, Args args) {
  bool native = true, has_instance = false;
  std::vector<PyObject*> values;  // the wrapper keeps them
  for (PyObject* value : args.values) {
    const Contents inside = t.region.reads.deep_touch(value);
    const Cat cat = region::cat_of(value);
    values.push_back(t.region.numbers.tuples.behind(value));
    has_instance = has_instance || inside.user;
    native =
        native && !inside.tensor && !inside.shadowed && t.region.reads.hashable_natively(value) &&
        (!inside.user || ((cat == Cat::Instance || cat == Cat::Function) && t.region.provenance.is_outside(value)));
  }
  args.values = values;
  auto wrapped = py::take(PyObject_GetAttr(self, names().__wrapped__));
  if (auto type = type_made_of(t, self, wrapped.get(), args)) return std::move(*type);
  // The function may run now, once for all: not one that shares variables with the program around it.
  native = native && !(PyFunction_Check(wrapped.get()) && PyFunction_GET_CLOSURE(wrapped.get()) != nullptr);
  if (native && t.region.provenance.is_outside(self)) {
    t.region.provenance.guard_identity(self);
    auto [cache, key] = cache_and_key(self, args);
    t.region.provenance.note_constant(cache);
    t.region.reads.guard_key(cache, key.get());
    const int kept = PyDict_Contains(cache, key.get());
    if (kept < 0) py::throw_pending();
    const bool may_run = makes_types(wrapped.get()) || (!has_instance && only_computes(t, wrapped.get()));
    if (kept == 0 && !may_run && may_log(wrapped.get())) return log_once(t, self, cache, key.get(), args);
    if (kept == 0 && !may_run) unsupported(Reason::CachedFunction, {{"callee", kNoValueYet}});
    auto value = py::Owned<>::steal(PyObject_Vectorcall(self, args.values.data(), args.size(), args.kwnames));
    if (!value) return t.raise_pending(py::PythonError());
    guard_cache_entry(t, cache, key.get());
    t.region.provenance.note_constant(value.get());
    return Result::of(std::move(value));
  }
  // With other arguments only the cache knows whether the function is to be called.
  unsupported(Reason::CachedFunction, {{"callee", "an lru_cache that is asked for tensors or new objects"}});
}

const Row rows[] = {
    {"instances of functools.partial", partial_call, true, true},
    {"instances of operator.itemgetter", getter_call<true>},
    {"instances of operator.attrgetter", getter_call<false>},
    {"instances of operator.methodcaller", method_caller_call},
    {"functools.reduce", reduce},
    {"instances of functools._lru_cache_wrapper", cached_call},
    {"pellucid.polyfills_language.begin_cached", begin_cached},
    {"pellucid.polyfills_language.end_cached", end_cached},
    {"pellucid.polyfills_language.refuse_cached", refuse_cached},
};

}  // namespace

const std::span<const Row> kFunctoolsRows = rows;

}  // namespace pellucid::rows
