// operator, functools, itertools, logging, warnings and other Python-level callables with a rule.
#include <cstring>

#include "bytecode/opcodes.h"
#include "py/cpython.h"
#include "rows/rows.h"

namespace pellucid::rows {

using K = Continuation::Kind;
using region::Contents;
using region::names;

namespace {

// ---- operator: the same protocols as the opcodes

template <int op>
Result binary(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::binary(t, args[0], args[1], op);
}
template <int op>
Result compare(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::compare(t, args[0], args[1], op);
}
template <int opcode>
Result unary(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  return protocols::unary(t, args[0], opcode);
}
Result getitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::subscript(t, args[0], args[1]);
}
Result setitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 3) return run_native(t, f, args);
  return protocols::as_none(protocols::store_subscript(t, args[0], args[1], args[2]));
}
Result contains(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return t.and_then(protocols::contains(t, args[0], args[1]), Continuation(K::Bool));
}
Result truth(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  return protocols::truth(t, args[0]);
}
Result not_(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  Continuation invert(K::Bool);
  invert.number = 1;
  return t.and_then(protocols::truth(t, args[0]), std::move(invert));
}
template <bool same>
Result is(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return Result::boolean(t.region.reads.same(args[0], args[1]) == same);
}
Result identity_index(Interpreter& t, PyObject* f, Args args) { return pure(t, f, args); }

// ---- abs, round, pow, divmod: of tensors a node, of numbers their value, of objects the dunder

Result numeric(Interpreter& t, PyObject* f, Args args) {
  bool tensor = false;
  for (PyObject* value : args.values) tensor |= region::cat_of(value) == Cat::Tensor;
  if (tensor) return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
  if (args.size() >= 1 && region::cat_of(args[0]) == Cat::Instance) {
    auto name = py::take(PyObject_GetAttr(f, names().__name__));
    const std::string dunder = "__" + py::text_of(name.get()) + "__";
    if (t.region.lookups.type_lookup(Py_TYPE(args[0]), dunder.c_str()) != nullptr) {
      return protocols::special(t, args[0], dunder.c_str(), args.positional().subspan(1));
    }
  }
  return pure(t, f, args);
}

// ---- functools

Result partial_call(Interpreter& t, PyObject* self, Args args) {
  Result function = protocols::generic_getattr(t, self, names().func),
         bound = protocols::generic_getattr(t, self, names().args),
         keywords = protocols::generic_getattr(t, self, names().keywords);
  PyObject* view = t.region.reads.touch(keywords.value.get());
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound.value.get()); ++i)
    values.push_back(PyTuple_GET_ITEM(bound.value.get(), i));
  for (PyObject* value : args.positional()) values.push_back(value);
  auto merged = py::take(PyDict_Copy(view));
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
  const region::Source* source = t.region.provenance.source_of(self);
  if (source != nullptr && source->step != source::Step::Const)
    t.region.provenance.guard(region::Kind::ID_MATCH, source, py::Owned<>::share(self));
  auto reduced = py::take(PyObject_CallMethod(self, "__reduce__", nullptr));
  PyObject* wanted = PyTuple_GET_ITEM(reduced.get(), 1);
  t.region.provenance.keep(wanted);
  if (source != nullptr) t.region.provenance.note_constant(wanted);
  PyObject* values[] = {wanted, args[0]};
  return protocols::call_polyfill(t, Items ? "get_items" : "get_attributes", values);
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

// The cache decides what a call means: with arguments that C code can hash the real wrapper is asked, so a value that
// eager would take from the cache is taken from it here, and one that eager would compute once is computed once.
Result cached_call(Interpreter& t, PyObject* self, Args args) {
  bool native = true, has_instance = false;
  for (PyObject* value : args.values) {
    const Contents inside = t.region.reads.deep_touch(value);
    const Cat cat = region::cat_of(value);
    has_instance = has_instance || inside.user;
    native =
        native && !inside.tensor && !inside.shadowed && t.region.reads.hashable_natively(value) &&
        (!inside.user || ((cat == Cat::Instance || cat == Cat::Function) && t.region.provenance.is_outside(value)));
  }
  auto wrapped = py::take(PyObject_GetAttr(self, names().__wrapped__));
  // The function may run now, once for all: not one that shares variables with the program around it.
  native = native && !(PyFunction_Check(wrapped.get()) && PyFunction_GET_CLOSURE(wrapped.get()) != nullptr);
  if (native && t.region.provenance.is_outside(self)) {
    if (const region::Source* source = t.region.provenance.source_of(self); source->step != source::Step::Const)
      t.region.provenance.guard(region::Kind::ID_MATCH, source, py::Owned<>::share(self));
    auto [cache, key] = cache_and_key(self, args);
    t.region.provenance.note_constant(cache);
    t.region.reads.guard_key(cache, key.get());
    const int kept = PyDict_Contains(cache, key.get());
    if (kept < 0) py::throw_pending();
    if (kept == 0 && (has_instance || !only_computes(t, wrapped.get())))
      unsupported(Reason::CachedFunction, {{"callee", "a cached function that does not have the value yet"}});
    auto value = py::Owned<>::steal(PyObject_Vectorcall(self, args.values.data(), args.size(), args.kwnames));
    if (!value) return t.raise_pending(py::PythonError());
    guard_cache_entry(t, cache, key.get());
    t.region.provenance.note_constant(value.get());
    return Result::of(std::move(value));
  }
  // With other arguments only the cache knows whether the function is to be called.
  unsupported(Reason::CachedFunction, {{"callee", "an lru_cache that is asked for tensors or new objects"}});
}

// A weak reference never changes its target, so the reference's identity settles what it gives while the target lives.
Result weakref_call(Interpreter& t, PyObject* self, Args args) {
  PyObject* target = PyWeakref_GetObject(self);
  const region::Source* source = t.region.provenance.source_of(self);
  if (t.region.drops.any())  // maybe of what kept the target alive
    unsupported(Reason::WeakReference, {{"callee", "a weak reference after an object was dropped"}});
  if (args.values.size() != 0 || target == Py_None || source == nullptr || !t.region.provenance.is_outside(target)) {
    unsupported(Reason::WeakReference, {{"callee", "a weak reference to something that the region has not met"}});
  }
  if (source->step != source::Step::Const)
    t.region.provenance.guard(region::Kind::ID_MATCH, source, py::Owned<>::share(self));
  return Result::of(py::Owned<>::share(target));
}

// ---- generators' methods

Result stopped_by_function(Interpreter&, PyObject*, Args) {
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "StopIteration from the function"}, {"type", "iterator"}});
}

// The generator itself, or what stands for one from outside.
PyObject* own_generator(Interpreter& t, PyObject* generator) {
  if (region::cat_of(generator) == Cat::Generator) return generator;
  PyObject* twin = t.twin_of_generator(generator);
  if (twin == nullptr) unsupported(Reason::OutsideIterator, {{"type", Py_TYPE(generator)->tp_name}});
  return twin;
}

Result gen_send(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2 || args.kwnames != nullptr) unsupported(Reason::BadArguments, {{"callee", describe(f)}});
  return t.resume(own_generator(t, args[0]), args[1]);
}

Result gen_close(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || args.kwnames != nullptr) unsupported(Reason::BadArguments, {{"callee", describe(f)}});
  return t.close(own_generator(t, args[0]));
}

Result gen_throw(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || args.size() > 4 || args.kwnames != nullptr)
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  if (args.size() == 2 && PyExceptionInstance_Check(args[1]))
    return t.throw_into(own_generator(t, args[0]), py::Owned<>::share(args[1]));
  return protocols::call_polyfill(t, "generator_throw", args.values);
}

// Whether BaseExceptionGroup takes it for what to look for.
bool is_condition(PyObject* value) {
  if (PyExceptionClass_Check(value)) return true;
  if (!PyTuple_CheckExact(value)) return PyType_Check(value) == 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!PyExceptionClass_Check(PyTuple_GET_ITEM(value, i))) return false;
  }
  return true;
}

Result group_part(Interpreter& t, PyObject* f, Args args, const char* polyfill) {
  if (args.size() != 2 || !is_condition(args[1])) return run_native(t, f, args);  // a TypeError
  return protocols::call_polyfill(t, polyfill, args.values);
}
Result group_split(Interpreter& t, PyObject* f, Args args) { return group_part(t, f, args, "group_split"); }
Result group_subgroup(Interpreter& t, PyObject* f, Args args) { return group_part(t, f, args, "group_subgroup"); }
Result group_derive(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  protocols::getattr(t, args[0], py::interned("message").get());
  PyObject* values[] = {args[0], t.region.reads.touch(t.region.shadows.original(args[1]))};
  return run_native(t, f, Args{values, nullptr});
}

// ---- questions about functions and classes that are known by identity

// What inspect reads of a function besides its code and defaults. It reads the real one, which has nothing of what the
// region has written.
void guard_described(Interpreter& t, PyObject* f, PyObject* function) {
  t.region.provenance.guard_function(function);
  PyObject* dict = py::instance_dict_if_any(function);
  PyObject* wrapped = t.region.lookups.instance_get(function, names().__wrapped__);
  const bool plain = t.region.lookups.instance_get(function, py::interned("__signature__").get()) == nullptr &&
                     (dict == nullptr || !t.region.shadows.is_shadowed(dict)) &&
                     (wrapped == nullptr || PyFunction_Check(wrapped));
  const Result annotations = protocols::getattr(t, function, names().__annotations__);
  if (!plain || !annotations.is_value() || !PyDict_CheckExact(annotations.value.get()))
    unsupported(Reason::Reflection, {{"callee", describe(f) + " of a function with attributes of its own"}});
  const Contents inside = t.region.reads.deep_touch(annotations.value.get());
  if (inside.shadowed || t.region.shadows.is_shadowed(t.region.shadows.original(annotations.value.get())))
    unsupported(Reason::Reflection, {{"callee", describe(f) + " of a function with new annotations"}});
  if (wrapped != nullptr) guard_described(t, f, wrapped);
}

Result about_constant(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    const Cat cat = region::cat_of(value);
    const bool fixed =
        cat == Cat::Type && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(value), Py_TPFLAGS_HEAPTYPE);
    if (region::is_atom(cat) || fixed || cat == Cat::Builtin) continue;
    if (cat == Cat::Function && t.region.provenance.is_outside(value)) {
      guard_described(t, f, value);
      continue;
    }
    if (cat == Cat::BoundMethod) {
      Result function = protocols::getattr(t, value, names().dunder_func);
      if (function.is_value() && t.region.provenance.is_outside(function.value.get())) {
        guard_described(t, f, function.value.get());
        continue;
      }
    }
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  }
  auto value = py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), args.size(), args.kwnames));
  if (!value) return t.raise_pending(py::PythonError());
  t.region.provenance.note_constant(value.get());
  return Result::of(std::move(value));
}

// A mappingproxy over a mapping that is part of an object known by identity (inspect.Signature.parameters): read
// natively, its parts are constants as it is.
Result proxy_method(Interpreter& t, PyObject* f, Args args) {
  const region::Source* source = args.size() >= 1 ? t.region.provenance.source_of(args[0]) : nullptr;
  // Signature.parameters is the proxy whose mapping nobody can change; a class's __dict__ is not.
  const bool parameters = source != nullptr && source->operand && PyUnicode_Check(source->operand.get()) &&
                          PyUnicode_CompareWithASCIIString(source->operand.get(), "_parameters") == 0;
  if (source == nullptr || !(parameters || source->step == source::Step::Const))
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  if (source->step != source::Step::Const)
    t.region.provenance.guard(region::Kind::ID_MATCH, source, py::Owned<>::share(args[0]));
  auto items = py::take(PyMapping_Items(args[0]));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(items.get(), i);
    t.region.provenance.note_constant(PyTuple_GET_ITEM(pair, 0));
    t.region.provenance.note_constant(PyTuple_GET_ITEM(pair, 1));
  }
  return run_native(t, f, args);
}

// ---- regular expressions: compiled patterns and matches never change (compiling.cpp makes patterns)

Result match_text(Interpreter& t, PyObject* f, Args args) {
  const region::Source* source = args.size() > 0 ? t.region.provenance.source_of(args[0]) : nullptr;
  if (source != nullptr && source->step != source::Step::Const)
    t.region.provenance.guard(region::Kind::ID_MATCH, source, py::Owned<>::share(args[0]));
  for (std::size_t i = 1; i < args.values.size(); ++i) {
    if (!region::is_atom(region::cat_of(args.values[i])))
      unsupported(Reason::BadArguments, {{"callee", "matching what is no text"}});
  }
  return run_native(t, f, args);
}

Result cast(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return Result::of(py::Owned<>::share(args[1]));
}

const Row rows[] = {
#define BINARY(number, name, symbol, function, ...) {"operator." function, binary<number>},
#define UNARY(opcode, symbol, function, ...) {"operator." function, unary<static_cast<int>(bytecode::Opcode::opcode)>},
#define COMPARE(name, symbol, function, ...) {"operator." function, compare<Py_##name>},
#include "py/operators.def"
    {"operator.inv", unary<static_cast<int>(bytecode::Opcode::UNARY_INVERT)>},
    {"operator.getitem", getitem},
    {"operator.setitem", setitem},
    {"operator.contains", contains},
    {"operator.truth", truth},
    {"operator.not_", not_},
    {"operator.is_", is<true>},
    {"operator.is_not", is<false>},
    {"operator.index", identity_index},
    {"operator.abs", numeric},
    {"builtins.abs", numeric},
    {"builtins.round", numeric},
    {"builtins.pow", numeric},
    {"builtins.divmod", numeric},
    {"instances of functools.partial", partial_call},
    {"instances of operator.itemgetter", getter_call<true>},
    {"instances of operator.attrgetter", getter_call<false>},
    {"functools.reduce", reduce},
    {"instances of weakref.ReferenceType", weakref_call},
    {"instances of functools._lru_cache_wrapper", cached_call},
    {"pellucid._core.TracedGenerator.send", gen_send},
    {"pellucid._core.TracedGenerator.throw", gen_throw},
    {"pellucid._core.TracedGenerator.close", gen_close},
    {"pellucid.polyfills_language.stopped_by_function", stopped_by_function},
    {"types.GeneratorType.send", gen_send},
    {"types.GeneratorType.throw", gen_throw},
    {"types.GeneratorType.close", gen_close},
    {"builtins.BaseExceptionGroup.split", group_split},
    {"builtins.BaseExceptionGroup.subgroup", group_subgroup},
    {"builtins.BaseExceptionGroup.derive", group_derive},
    {"logging.Logger.debug", defer},
    {"logging.Logger.info", defer},
    {"logging.Logger.warning", defer},
    {"logging.Logger.error", defer},
    {"logging.Logger.critical", defer},
    {"logging.Logger.log", defer},
    {"logging.Logger.warn", defer},
    {"warnings.warn", defer},
    {"inspect.signature", about_constant},
    {"inspect.getfullargspec", about_constant},
    {"typing.get_args", about_constant},
    {"typing.get_origin", about_constant},
    {"typing.cast", cast},
    {"re.Pattern.search", match_text},
    {"re.Pattern.match", match_text},
    {"re.Pattern.fullmatch", match_text},
    {"re.Pattern.findall", match_text},
    {"re.Pattern.split", match_text},
    {"re.Pattern.sub", match_text},
    {"re.Pattern.subn", match_text},
    {"re.Match.group", match_text},
    {"re.Match.groups", match_text},
    {"re.Match.groupdict", match_text},
    {"re.Match.start", match_text},
    {"re.Match.end", match_text},
    {"re.Match.span", match_text},
    {"re.Match.__getitem__", match_text},
    {"types.MappingProxyType.keys", proxy_method},
    {"types.MappingProxyType.values", proxy_method},
    {"types.MappingProxyType.items", proxy_method},
    {"types.MappingProxyType.get", proxy_method},
    {"types.MappingProxyType.__len__", proxy_method},
    {"types.MappingProxyType.__getitem__", proxy_method},
    {"types.MappingProxyType.__contains__", proxy_method},
    {"types.MappingProxyType.__iter__", proxy_method},
};

}  // namespace

const std::span<const Row> kPythonRows = rows;

}  // namespace pellucid::rows
