// Making classes. The class is made for real by type.__new__; what Python code has a part in it (bases that stand for
// others,
// __prepare__, the body, __set_name__, __init_subclass__) is traced, in CPython's order (bltinmodule.c, typeobject.c).
#include "protocols/type_expressions.h"
#include "py/cpython.h"
#include "py/eval_frame.h"
#include "rows/rows.h"

namespace pellucid::rows {

using region::names;

namespace {

py::Owned<> keywords_of(Args args) {
  auto named = py::take(PyDict_New());
  for (std::size_t i = 0; i < args.keyword_count(); ++i)
    py::check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  return named;
}

// The most derived of the metaclasses; null: they conflict.
PyTypeObject* calculate_metaclass(PyTypeObject* winner, PyObject* bases) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyTypeObject* candidate = Py_TYPE(PyTuple_GET_ITEM(bases, i));
    if (PyType_IsSubtype(winner, candidate)) continue;
    if (!PyType_IsSubtype(candidate, winner)) return nullptr;
    winner = candidate;
  }
  return winner;
}

// pellucid.polyfills_language.build_class_of(body, name, bases, original_bases, keywords): all bases are final.
Result build_class_of(Interpreter& t, PyObject*, Args args) {
  PyObject* bases = args[2];
  PyObject* keywords = args[4];
  static PyObject* const key = py::interned("metaclass").release();
  auto meta = py::Owned<>::share(PyDict_GetItemWithError(keywords, key));
  if (meta) {
    py::check(PyDict_DelItem(keywords, key));
  } else {
    PyTypeObject* first = PyTuple_GET_SIZE(bases) == 0 ? &PyType_Type : Py_TYPE(PyTuple_GET_ITEM(bases, 0));
    meta = py::Owned<>::share(reinterpret_cast<PyObject*>(first));
  }
  if (PyType_Check(meta.get())) {
    PyTypeObject* winner = calculate_metaclass(reinterpret_cast<PyTypeObject*>(meta.get()), bases);
    if (winner == nullptr) {
      return t.raise(PyExc_TypeError,
                     "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of "
                     "the metaclasses of all its bases");
    }
    meta = py::Owned<>::share(reinterpret_cast<PyObject*>(winner));
    t.region.provenance.note_constant(meta.get());
  }
  PyObject* values[] = {args[0], args[1], bases, args[3], meta.get(), keywords};
  return protocols::call_polyfill(t, "build_class", values);
}

// builtins.__build_class__(body, name, *bases, metaclass=…, **keywords)
Result build_class(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || !PyFunction_Check(args[0]) || !PyUnicode_Check(args[1])) return run_native(t, f, args);
  auto bases = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size()) - 2));
  bool final = true;
  for (std::size_t i = 2; i < args.size(); ++i) {
    PyTuple_SET_ITEM(bases.get(), static_cast<Py_ssize_t>(i) - 2, Py_NewRef(args[i]));
    final = final && PyType_Check(args[i]);
  }
  auto keywords = keywords_of(args);
  PyObject* values[] = {args[0], args[1], bases.get(), bases.get(), keywords.get()};
  if (final) return build_class_of(t, f, Args{values, nullptr});
  PyObject* unresolved[] = {args[0], args[1], bases.get(), keywords.get()};
  return protocols::call_polyfill(t, "resolve_bases", unresolved);
}

Result is_class(Interpreter&, PyObject*, Args args) { return Result::boolean(PyType_Check(args[0]) != 0); }

// pellucid.polyfills_language.run_class_body(body, meta, namespace): gives what the body returns, the __class__ cell or
// None.
Result run_class_body(Interpreter& t, PyObject*, Args args) {
  PyObject* space = t.region.shadows.original(args[2]);
  if (!PyMapping_Check(space)) {
    const char* who = PyType_Check(args[1]) ? reinterpret_cast<PyTypeObject*>(args[1])->tp_name : "<metaclass>";
    return t.raise(PyExc_TypeError,
                   std::string(who) + ".__prepare__() must return a mapping, not " + Py_TYPE(space)->tp_name);
  }
  Result body = t.inline_function(args[0], Args{});
  if (body.did == Result::Did::Pushed) t.region.top->names = py::Owned<>::share(space);
  return body;
}

// pellucid.polyfills_language.check_class_cell(made, cell, name)
Result check_class_cell(Interpreter& t, PyObject*, Args args) {
  PyObject *made = args[0], *cell = args[1], *name = args[2];
  if (!PyType_Check(made) || !PyCell_Check(cell)) return Result::none();
  PyObject* inside = t.region.shadows.cell_get(cell);
  if (inside == made) return Result::none();
  if (inside == nullptr)
    PyErr_Format(PyExc_RuntimeError,
                 "__class__ not set defining %.200R as %.200R. Was __classcell__ propagated to type.__new__?", name,
                 made);
  else
    PyErr_Format(PyExc_TypeError, "__class__ set to %.200R defining %.200R as %.200R", inside, name, made);
  return t.raise_pending(py::PythonError());
}

// ---- type.__new__

// __init_subclass__ of a base, when it is Python code: type.__new__ calls it, but it has to be traced. So its frame
// gives None when C code asks for it, and the traced call follows.
struct Skipped {
  PyFunctionObject* function = nullptr;
  py::EvalFrame before = nullptr;
};
thread_local Skipped skipped;

PyObject* skip_frame(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing) {
  if (throwing == 0 && skipped.function != nullptr && py::function_of(frame) == skipped.function) Py_RETURN_NONE;
  return (skipped.before != nullptr ? skipped.before : py::kDefaultEvalFrame)(tstate, frame, throwing);
}

class SkipFrames {
 public:
  explicit SkipFrames(PyFunctionObject* function) : before_(py::eval_frame()) {
    skipped = {function, before_};
    py::set_eval_frame(skip_frame);
  }
  SkipFrames(const SkipFrames&) = delete;
  SkipFrames& operator=(const SkipFrames&) = delete;
  ~SkipFrames() {
    py::set_eval_frame(before_);
    skipped = {};
  }

 private:
  py::EvalFrame before_;
};

[[noreturn]] void refuse_class(const char* why) {
  unsupported(Reason::UntracedCallable, {{"callee", std::string("type.__new__ with ") + why}});
}

// The Python function that answers super(cls, cls).__init_subclass__, or null when it is object's own. Found before the
// class is made, along the MRO of each base, so that only one answer is possible.
PyFunctionObject* subclass_hook(Interpreter& t, PyObject* bases) {
  static PyObject* const name = py::interned("__init_subclass__").release();
  static PyObject* const plain = py::type_lookup(&PyBaseObject_Type, name);
  PyObject* hook = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyObject* found = t.region.lookups.type_lookup(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i)), name);
    if (found == nullptr || found == plain) continue;
    if (hook != nullptr && hook != found) refuse_class("several __init_subclass__");
    hook = found;
  }
  if (hook == nullptr) return nullptr;
  if (!Py_IS_TYPE(hook, &PyClassMethod_Type)) refuse_class("this kind of __init_subclass__");
  auto function = py::take(PyObject_GetAttrString(hook, "__func__"));
  if (!PyFunction_Check(function.get())) refuse_class("this kind of __init_subclass__");
  return reinterpret_cast<PyFunctionObject*>(function.get());  // lives with the hook
}

bool plain_names(PyObject* slots) {
  if (PyUnicode_CheckExact(slots)) return true;
  if (!PyTuple_CheckExact(slots) && !PyList_CheckExact(slots)) return false;
  for (Py_ssize_t i = 0; i < Py_SIZE(slots); ++i) {
    if (!PyUnicode_CheckExact(PySequence_Fast_GET_ITEM(slots, i))) return false;
  }
  return true;
}

// The namespace that the class is made of: values whose __set_name__ is Python code are put in afterwards.
struct Namespace {
  py::Owned<> dict;
  py::Owned<> named;  // list of (name, value)
};

void take_named(Interpreter& t, Namespace& space, PyObject* key, PyObject* value) {
  static PyObject* const name = py::interned("__set_name__").release();
  PyObject* hook =
      region::is_mutable_class(Py_TYPE(value)) ? t.region.lookups.type_lookup(Py_TYPE(value), name) : nullptr;
  if (hook == nullptr) return;
  if (py::text_of(key).starts_with("__")) refuse_class("a special name that has a __set_name__");
  py::check(PyList_Append(space.named.get(), py::take(PyTuple_Pack(2, key, value)).get()));
}

Namespace namespace_for(Interpreter& t, PyObject* given) {
  Namespace space{py::take(PyDict_Copy(t.region.reads.touch(given))), py::take(PyList_New(0))};
  if (PyObject* slots = PyDict_GetItem(space.dict.get(), names().__slots__)) {
    if (!plain_names(t.region.reads.touch(slots))) refuse_class("__slots__ that are not plain names");
    if (PyList_CheckExact(slots))
      py::check(PyDict_SetItem(space.dict.get(), names().__slots__, t.region.reads.touch(slots)));
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(space.dict.get(), &at, &key, &value) != 0;) take_named(t, space, key, value);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(space.named.get()); ++i)
    py::check(PyDict_SetItem(space.dict.get(), PyTuple_GET_ITEM(PyList_GET_ITEM(space.named.get(), i), 0), Py_None));
  if (PyDict_GetItem(space.dict.get(), names().__module__) == nullptr) {
    bool found = false;
    PyObject* globals = t.region.top->globals;
    t.region.provenance.note_constant(globals);
    Result module = t.region.reads.dict_get(globals, names().__name__, &found);
    if (found) py::check(PyDict_SetItem(space.dict.get(), names().__module__, module.value.get()));
  }
  return space;
}

Result type_new(Interpreter& t, PyObject* f, Args args) {
  t.region.doing = "makes a class";
  PyObject* given = args.size() == 4 ? t.region.shadows.original(args[3]) : nullptr;
  if (given == nullptr || !PyType_Check(args[0]) || !PyUnicode_CheckExact(args[1]) || !PyTuple_CheckExact(args[2]) ||
      region::cat_of(given) != Cat::Dict)
    refuse_class("other arguments than a name, bases and a namespace");
  PyObject* bases = args[2];
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    if (!PyType_Check(PyTuple_GET_ITEM(bases, i))) refuse_class("a base that is no class");
    t.region.lookups.guard_mro(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i)));
  }
  static PyObject* const mro_name = py::interned("mro").release();
  PyTypeObject* metatype = calculate_metaclass(reinterpret_cast<PyTypeObject*>(args[0]), bases);
  if (metatype != nullptr) {
    if (t.region.lookups.type_lookup(metatype, mro_name) != py::type_lookup(&PyType_Type, mro_name))
      refuse_class("an mro() in Python");
    if (metatype->tp_new != reinterpret_cast<PyTypeObject*>(args[0])->tp_new) refuse_class("another metaclass");
  }
  PyFunctionObject* hook = subclass_hook(t, bases);
  Namespace space = namespace_for(t, given);
  region::make_plain(t.region, space.dict.get());
  py::Owned<> made;
  {
    std::vector<PyObject*> values{args[0], args[1], bases, space.dict.get()};
    if (hook == nullptr) values.insert(values.end(), args.values.begin() + 4, args.values.end());
    std::unique_ptr<SkipFrames> skip;
    if (hook != nullptr) skip = std::make_unique<SkipFrames>(hook);
    made = py::Owned<>::steal(PyObject_Vectorcall(f, values.data(), 4, hook == nullptr ? args.kwnames : nullptr));
  }
  if (!made) return t.raise_pending(py::PythonError());
  t.region.provenance.note_made(made.get());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(space.named.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(space.named.get(), i);
    py::check(PyType_Type.tp_setattro(made.get(), PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)));
  }
  if (hook == nullptr && PyList_GET_SIZE(space.named.get()) == 0) return Result::of(std::move(made));
  auto keywords = hook == nullptr ? py::take(PyDict_New()) : keywords_of(args);
  PyObject* values[] = {made.get(), space.named.get(), hook == nullptr ? Py_False : Py_True, keywords.get()};
  return protocols::call_polyfill(t, "class_made", values);
}

// type.__call__(cls, …), as a metaclass's own __call__ reaches it.
Result type_call(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 1 || !PyType_Check(args[0])) return run_native(t, f, args);
  return protocols::make_instance(t, args[0], Args{args.values.subspan(1), args.kwnames});
}

Result type_prepare(Interpreter&, PyObject*, Args) { return Result::of(py::take(PyDict_New())); }

Result type_setattr(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 3 || !PyType_Check(args[0])) return run_native(t, f, args);
  return protocols::as_none(protocols::type_setattr(t, args[0], args[1], args[2]));
}
Result type_delattr(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2 || !PyType_Check(args[0])) return run_native(t, f, args);
  return protocols::as_none(protocols::type_setattr(t, args[0], args[1], nullptr));
}

// Only reads and marks the class it is given.
Result of_made_class(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 1 || !t.region.provenance.is_made(args[0]))
    unsupported(Reason::UntracedCallable, {{"callee", py::repr_of(f)}});
  return run_native(t, f, args);
}

Result keeps_arguments(Interpreter& t, PyObject* f, Args args) { return run_native(t, f, args); }

// classmethod(f), staticmethod(f): copy what functools.wraps would.
Result wraps_function(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || args.keyword_count() != 0 ||
      (!PyFunction_Check(args[0]) && t.region.provenance.is_outside(args[0])))
    unsupported(Reason::UntracedCallable, {{"callee", py::repr_of(f)}});
  if (!PyFunction_Check(args[0]) && region::cat_of(args[0]) == Cat::Instance)
    unsupported(Reason::UntracedCallable, {{"callee", py::repr_of(f) + " of an object"}});
  return run_native(t, f, args);
}

// ---- tools that make or change a class and whose own Python code runs nothing of the user's: run for real on what the
// region made

void made_with_functions(Interpreter& t, PyObject* cls) {
  t.region.provenance.note_made(cls);
  PyObject *key = nullptr, *value = nullptr;
  PyObject* dict = reinterpret_cast<PyTypeObject*>(cls)->tp_dict;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    auto function = py::Owned<>::share(value);
    if (Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type))
      function = py::take(PyObject_GetAttrString(value, "__func__"));
    if (PyFunction_Check(function.get()) && !t.region.provenance.is_outside(function.get()))
      t.region.provenance.note_made(function.get());
  }
}

// dataclasses._process_class(cls, init, …, slots, weakref_slot): reads the class's annotations and the fields of its
// bases.
Result process_dataclass(Interpreter& t, PyObject* f, Args args) {
  auto refuse = [&] {
    unsupported(Reason::UntracedCallable, {{"callee", "dataclass() of a class with bases or hooks of its own"}});
  };
  if (args.size() < 1 || !t.region.provenance.is_made(args[0]) || !Py_IS_TYPE(args[0], &PyType_Type)) refuse();
  auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(cls->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(cls->tp_mro, i);
    if (base != reinterpret_cast<PyObject*>(&PyBaseObject_Type) && !t.region.provenance.is_made(base)) refuse();
  }
  static PyObject* const hook = py::interned("__init_subclass__").release();
  if (py::type_lookup(cls, hook) != py::type_lookup(&PyBaseObject_Type, hook)) refuse();
  auto made = py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), args.size(), args.kwnames));
  if (!made) return t.raise_pending(py::PythonError());
  made_with_functions(t, made.get());
  return Result::of(std::move(made));
}

// collections.namedtuple(name, fields, …): of the module that calls it.
Result namedtuple(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    const region::Contents inside = t.region.reads.deep_touch(value);
    if (inside.tensor || inside.user || inside.shadowed)
      unsupported(Reason::BadArguments, {{"callee", "namedtuple() of something that is no text"}});
  }
  auto keywords = keywords_of(args);
  auto positional = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (std::size_t i = 0; i < args.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(t.region.shadows.readable(t.region.shadows.original(args[i]))));
  PyObject* module = PyDict_GetItemString(keywords.get(), "module");
  if (module == nullptr || module == Py_None) {
    bool found = false;
    t.region.provenance.note_constant(t.region.top->globals);
    Result name = t.region.reads.dict_get(t.region.top->globals, names().__name__, &found);
    if (found) py::check(PyDict_SetItemString(keywords.get(), "module", t.region.numbers.plain(name.value.get())));
  }
  auto made = py::Owned<>::steal(PyObject_Call(f, positional.get(), keywords.get()));
  if (!made) return t.raise_pending(py::PythonError());
  made_with_functions(t, made.get());
  return Result::of(std::move(made));
}

// Callable[[int], str] as collections.abc has it: a value of classes and of what is made of these.
Result new_alias(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 3, 3) || !protocols::is_type_value(args[1]) || !protocols::is_type_value(args[2]))
    return refuse(t, f, args);
  return run_native(t, f, args);
}

// Of a class that gets its items by `__class_getitem__ = classmethod(GenericAlias)`.
Result make_alias(Interpreter& t, PyObject* type, Args args) {
  if (!only_positional(args, 2, 2) || !protocols::is_type_value(args[0]) || !protocols::is_type_value(args[1]))
    return refuse(t, type, args);
  return run_native(t, type, args);
}

Result call_alias(Interpreter& t, PyObject*, Args args) { return protocols::call_polyfill(t, "call_alias", args); }

const Row rows[] = {
    {"types.GenericAlias.__new__", new_alias},
    {"types.GenericAlias", make_alias},
    {"types.GenericAlias.__call__", call_alias},
    {"builtins.__build_class__", build_class},
    {"pellucid.polyfills_language.build_class_of", build_class_of},
    {"pellucid.polyfills_language.is_class", is_class},
    {"pellucid.polyfills_language.run_class_body", run_class_body},
    {"pellucid.polyfills_language.check_class_cell", check_class_cell},
    {"builtins.type.__call__", type_call},
    {"builtins.type.__new__", type_new},
    {"builtins.type.__init__", keeps_arguments},
    {"builtins.type.__prepare__", type_prepare},
    {"builtins.type.__setattr__", type_setattr},
    {"builtins.type.__delattr__", type_delattr},
    {"builtins.object.__init_subclass__", keeps_arguments},
    {"builtins.classmethod", wraps_function},
    {"builtins.staticmethod", wraps_function},
    {"types.MethodType", keeps_arguments},
    {"types.FunctionType.__get__", keeps_arguments},
    {"_abc._abc_init", of_made_class},
    {"dataclasses._process_class", process_dataclass},
    {"collections.namedtuple", namedtuple},
};

}  // namespace

const std::span<const Row> kClassRows = rows;

}  // namespace pellucid::rows
