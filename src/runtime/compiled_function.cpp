#include "runtime/compiled_function.h"

#include <structmember.h>

#include "guards/costs.h"
#include "guards/report.h"
#include "py/interrupts.h"
#include "region/compiled_function.h"
#include "runtime/bind.h"
#include "runtime/cache.h"
#include "runtime/dispatch.h"
#include "runtime/report.h"
#include "runtime/stance.h"
#include "runtime/thread_state.h"

namespace pellucid::runtime {
namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyFunctionObject* function;  // the original
  PyObject* cache_object;      // owns `cache`
  Cache* cache;
  PyObject* code;  // the code that `cache` is for (borrowed from the cache): f.__code__ may be replaced
  PyObject* backend;
  PyObject* instance;  // may be null
  PyObject* config;    // options of pellucid.config that hold for its calls; null: it has none of its own
  PyObject* dict;
  PyObject* weakrefs;
  bool fullgraph;
};

PyTypeObject* compiled_function_type = nullptr;

CompiledFunction* cast(PyObject* object) noexcept { return reinterpret_cast<CompiledFunction*>(object); }

// ---- call

void take_cache(CompiledFunction* self) {
  const CacheKey key{self->function->func_code, self->function->func_globals, self->backend, self->instance};
  auto fresh = cache_for(key);
  self->cache = cache_of(fresh.get());
  self->code = key.code;
  const auto old = py::Owned<>::steal(std::exchange(self->cache_object, fresh.release()));
}

PyObject* call_slowly(CompiledFunction* self, const Call& call, BoundArguments& bound) noexcept {
  return py::enter([&] {
    const auto held_self = py::Owned<>::share(reinterpret_cast<PyObject*>(self));
    const auto held_function = py::Owned<>::share(reinterpret_cast<PyObject*>(call.function));
    const auto held_cache = py::Owned<>::share(self->cache_object);
    return call_missed(*cache_of(held_cache.get()), call, bound, self->fullgraph);
  });
}

PyObject* run_given_up(CompiledFunction* self, const Call& call) noexcept {
  if (!self->cache->worth_hooking()) return call.run_eagerly();
  const auto held_function = py::Owned<>::share(reinterpret_cast<PyObject*>(call.function));
  const auto held_cache = py::Owned<>::share(self->cache_object);
  return run_with_inner_functions(*cache_of(held_cache.get()), call);
}

bool bind_quietly(BoundArguments& bound, const Call& call) noexcept {
  try {
    return bound.bind(call.function, call.args, static_cast<std::size_t>(PyVectorcall_NARGS(call.nargsf)),
                      call.kwnames);
  } catch (...) {
    return false;  // want of memory: the original function will tell
  }
}

PyObject* run_hit(CompiledFunction* self, const Entry& entry, const Call& call, BoundArguments& bound) noexcept {
  if (entry.exit == nullptr) return run_region(*self->cache, entry, call, bound, true);
  const auto held_function = py::Owned<>::share(reinterpret_cast<PyObject*>(call.function));
  const auto held_cache = py::Owned<>::share(self->cache_object);
  return run_region(*cache_of(held_cache.get()), entry, call, bound, true);
}

// This function's cache for a backend that the stance asks for. Kept by its own one.
py::Owned<> forced_cache(CompiledFunction* self, PyObject* backend) {
  const auto own_object = py::Owned<>::share(self->cache_object);
  Cache& own = *cache_of(own_object.get());
  auto resolve = py::import_attr("pellucid.api", "_forced_backend");
  auto resolved = py::take(PyObject_CallFunctionObjArgs(resolve.get(), self->backend, backend, nullptr));
  CacheKey key = own.key();
  key.backend = resolved.get();
  if (key == own.key()) return py::Owned<>::share(own_object.get());
  for (const auto& kept : own.forced) {
    if (cache_of(kept.get())->key() == key) return kept.copy();
  }
  auto made = cache_for(key);
  own.forced.push_back(made.copy());
  return made;
}

// The stances that let the first call of a function run otherwise. Empty: it is none, or not the first.
py::Owned<> run_first_call(CompiledFunction* self, const Call& call, BoundArguments& bound, Stance stance) {
  const auto held_cache = py::Owned<>::share(self->cache_object);
  Cache& cache = *cache_of(held_cache.get());
  const bool is_first = !cache.has_run && cache.entries_made() == 0 && !cache.busy;
  if (!is_first || (stance != Stance::EagerThenCompile && stance != Stance::AotEagerThenCompile)) return {};
  cache.has_run = true;
  bound.own();
  if (stance == Stance::AotEagerThenCompile) {
    const auto forced = forced_cache(self, py::str("aot_eager").get());
    auto result = call_missed(*cache_of(forced.get()), call, bound, self->fullgraph);
    cache.numbers = cache_of(forced.get())->numbers;
    return result;
  }
  {
    const BusyScope busy(cache);
    py::InterruptsWait wait;
    observe(call.function, bound.slots(), cache);
    wait.end();
  }
  bound.drop();
  return run_alone(call);
}

py::Owned<> call_in_stance(CompiledFunction* self, const Call& call, BoundArguments& bound, const StanceNow& now) {
  if (auto result = run_first_call(self, call, bound, now.stance)) return result;
  const auto cache_object =
      now.backend ? forced_cache(self, now.backend.get()) : py::Owned<>::share(self->cache_object);
  Cache& cache = *cache_of(cache_object.get());
  bound.own();  // finding out which backend that is ran Python code
  const Entry* entry = cache.find(bound.slots(), call.function->func_closure, now.skips_guards);
  if (entry != nullptr && !(self->fullgraph && entry->exit != nullptr))
    return py::take(run_region(cache, *entry, call, bound, !now.skips_guards));
  return call_missed(cache, call, bound, self->fullgraph);
}

PyObject* call_in_stance(CompiledFunction* self, const Call& call, BoundArguments& bound) noexcept {
  return py::enter([&] {
    const auto held_self = py::Owned<>::share(reinterpret_cast<PyObject*>(self));
    const auto held_function = py::Owned<>::share(reinterpret_cast<PyObject*>(call.function));
    const StanceNow& set = stance_now();
    const StanceNow now{set.stance, set.skips_guards, set.backend.copy()};
    return call_in_stance(self, call, bound, now);
  });
}

PyObject* call_compiled(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) noexcept;

thread_local bool observed_here = false;  // a call that is told of is at work

// With the outcome of a call as arguments or pending. What the observer raises takes its place.
void tell_observer(PyObject* observer, const Call& call, PyObject* result) {
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(call.nargsf));
  auto args = py::take(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(call.args[i]));
  (void)py::take(PyObject_CallFunctionObjArgs(observer, reinterpret_cast<PyObject*>(call.function), args.get(),
                                              result == nullptr ? Py_None : result, nullptr));
}

PyObject* call_observed(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) noexcept {
  return py::enter([&] {
    const auto observer = stance_state.observer.copy();
    const auto function = py::Owned<>::share(reinterpret_cast<PyObject*>(cast(object)->function));
    observed_here = true;
    auto result = py::Owned<>::steal(call_compiled(object, args, nargsf, kwnames));
    observed_here = false;
    if (!result) py::throw_pending();
    tell_observer(observer.get(), {reinterpret_cast<PyFunctionObject*>(function.get()), args, nargsf, kwnames},
                  result.get());
    return result;
  });
}

PyObject* call_compiled(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) noexcept {
  CompiledFunction* self = cast(object);
  const Call call{self->function, args, nargsf, kwnames};
  if (compiling_here() || (py::has_trace_function() && !py::steps_through_regions))
    return call.run_eagerly();  // a debugger sees every line
  if (!stance_is_plain()) {
    if (stance_state.observer && !observed_here) return call_observed(object, args, nargsf, kwnames);
    if (stance_now().stance == Stance::ForceEager) return py::enter([&] { return run_alone(call); });
  }
  if (self->code != self->function->func_code) {
    try {
      take_cache(self);
    } catch (...) {
      py::translate_current_exception();
      return nullptr;
    }
  }
  if (self->cache->given_up && !self->fullgraph && self->cache->entries().empty()) return run_given_up(self, call);
  BoundArguments bound;
  if (!bind_quietly(bound, call)) return call.run_eagerly();
  // Making *args may have started the collector, and its finalisers may have replaced the code.
  if (self->code != self->function->func_code || bound.code() != self->function->func_code) return call.run_eagerly();
  if (!stance_is_plain()) return call_in_stance(self, call, bound);
  Cache* cache = self->cache;
  const Entry* entry = cache->find(bound.slots(), call.function->func_closure);
  // Shared with a function that may break: an entry that ends at a break is none for fullgraph.
  if (entry != nullptr && !(self->fullgraph && entry->exit != nullptr)) return run_hit(self, *entry, call, bound);
  return call_slowly(self, call, bound);
}

// The options of one compiled function, in the place where config.patch puts its own: for what the call captures, runs
// and calls on this thread.
class OwnOptions {
 public:
  explicit OwnOptions(PyObject* config) {
    static PyObject* const patches = py::import_attr("pellucid.config", "_PATCHES").release();
    patches_ = patches;
    PyObject* patched = nullptr;
    py::check(PyContextVar_Get(patches_, nullptr, &patched));
    const auto outer = py::Owned<>::steal(patched);
    auto all = py::Owned<>::share(config);
    if (outer && PyDict_Check(outer.get()) && PyDict_GET_SIZE(outer.get()) != 0) {
      all = py::take(PyDict_Copy(outer.get()));
      py::check(PyDict_Update(all.get(), config));
    }
    token_ = py::take(PyContextVar_Set(patches_, all.get()));
  }
  ~OwnOptions() {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContextVar_Reset(patches_, token_.get()) < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  OwnOptions(const OwnOptions&) = delete;
  OwnOptions& operator=(const OwnOptions&) = delete;

 private:
  PyObject* patches_;
  py::Owned<> token_;
};

PyObject* call_with_options(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) noexcept {
  return py::enter([&] {
    const auto config = py::Owned<>::share(cast(object)->config);
    const OwnOptions options(config.get());
    auto result = py::Owned<>::steal(call_compiled(object, args, nargsf, kwnames));
    if (!result) py::throw_pending();
    return result;
  });
}

// ---- life

PyObject* fresh_dict(PyFunctionObject* function) {
  auto dict = function->func_dict == nullptr ? py::take(PyDict_New()) : py::take(PyDict_Copy(function->func_dict));
  py::check(PyDict_SetItemString(dict.get(), "__wrapped__", reinterpret_cast<PyObject*>(function)));
  if (function->func_module != nullptr)
    py::check(PyDict_SetItemString(dict.get(), "__module__", function->func_module));
  return dict.release();
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function", "backend", "fullgraph", "instance", "config", nullptr};
  PyObject *function = nullptr, *backend = nullptr, *instance = Py_None, *config = nullptr;
  int fullgraph = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$pOO!:CompiledFunction", const_cast<char**>(names),
                                   &PyFunction_Type, &function, &backend, &fullgraph, &instance, &PyDict_Type,
                                   &config)) {
    return nullptr;
  }
  return py::enter([&] {
    auto object = py::take(type->tp_alloc(type, 0));
    CompiledFunction* self = cast(object.get());
    const bool has_options = config != nullptr && PyDict_GET_SIZE(config) != 0;
    self->vectorcall = has_options ? call_with_options : call_compiled;
    self->config = has_options ? Py_NewRef(config) : nullptr;
    self->function = reinterpret_cast<PyFunctionObject*>(Py_NewRef(function));
    self->backend = Py_NewRef(backend);
    self->instance = instance == Py_None ? nullptr : Py_NewRef(instance);
    self->fullgraph = fullgraph != 0;
    self->dict = fresh_dict(self->function);
    take_cache(self);
    return object;
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledFunction* self = cast(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->cache_object);
  Py_VISIT(self->backend);
  Py_VISIT(self->instance);
  Py_VISIT(self->config);
  Py_VISIT(self->dict);
  return 0;
}

// The function, its cache and the backend stay: a finaliser in the same cycle may still call this object. Cycles run
// through the dict, the instance, the function's own dict and globals or the cache's entries, and those are cleared.
int clear(PyObject* object) {
  Py_CLEAR(cast(object)->dict);
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  CompiledFunction* self = cast(object);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->cache_object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->backend);
  Py_CLEAR(self->instance);
  Py_CLEAR(self->config);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  const auto held_type = py::Owned<PyTypeObject>::steal(type);
}

// ---- attributes

PyObject* repr(PyObject* object) {
  return PyUnicode_FromFormat("<pellucid compiled function %U at %p>", cast(object)->function->func_qualname, object);
}

PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(object);
  return PyMethod_New(object, instance);
}

// torch.compile compiles the original function of what says this of itself.
PyObject* get_wrapper_id(PyObject* object, void*) { return PyLong_FromVoidPtr(object); }

PyObject* same_object(PyObject* object, PyObject*) { return Py_NewRef(object); }
PyObject* reduce(PyObject* object, PyObject*) { return PyObject_GetAttrString(object, "__qualname__"); }

// An attribute of the original function that a value of the same name in our own dict hides (functools.wraps, user
// code).
PyObject* get_named(PyObject* object, void* closure) {
  const char* name = static_cast<const char*>(closure);
  if (cast(object)->dict != nullptr) {
    if (PyObject* own = PyDict_GetItemString(cast(object)->dict, name)) return Py_NewRef(own);
  }
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(cast(object)->function), name);
}
int set_named(PyObject* object, PyObject* value, void* closure) {
  const char* name = static_cast<const char*>(closure);
  if (cast(object)->dict == nullptr && (cast(object)->dict = PyDict_New()) == nullptr) return -1;
  return value == nullptr ? PyDict_DelItemString(cast(object)->dict, name)
                          : PyDict_SetItemString(cast(object)->dict, name, value);
}

// What the original function is made of; setting it changes the original.
PyObject* get_part(PyObject* object, void* closure) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(cast(object)->function), static_cast<const char*>(closure));
}
int set_part(PyObject* object, PyObject* value, void* closure) {
  return PyObject_SetAttrString(reinterpret_cast<PyObject*>(cast(object)->function), static_cast<const char*>(closure),
                                value);
}

#define NAMED(name) \
  { name, get_named, set_named, nullptr, const_cast<char*>(name) }
#define PART(name) \
  { name, get_part, set_part, nullptr, const_cast<char*>(name) }
PyGetSetDef kGetSets[] = {
    NAMED("__name__"),
    NAMED("__qualname__"),
    NAMED("__doc__"),
    NAMED("__annotations__"),
    PART("__code__"),
    PART("__defaults__"),
    PART("__kwdefaults__"),
    PART("__globals__"),
    PART("__closure__"),
    PART("__builtins__"),
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"_torchdynamo_wrapper_id", get_wrapper_id, nullptr, nullptr, nullptr},
    {},
};
#undef NAMED
#undef PART

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs), READONLY, nullptr},
    {"_backend", T_OBJECT, offsetof(CompiledFunction, backend), READONLY, nullptr},
    {"_config", T_OBJECT, offsetof(CompiledFunction, config), READONLY, nullptr},
    {"_instance", T_OBJECT, offsetof(CompiledFunction, instance), READONLY, nullptr},
    {"_fullgraph", T_BOOL, offsetof(CompiledFunction, fullgraph), READONLY, nullptr},
    {"_torchdynamo_orig_callable", T_OBJECT, offsetof(CompiledFunction, function), READONLY, nullptr},
    {},
};

PyMethodDef kMethods[] = {
    {"__copy__", same_object, METH_NOARGS, nullptr},
    {"__deepcopy__", same_object, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {},
};

region::Original original_of(PyObject* object) noexcept {
  if (!is_compiled_function(object)) return {};
  return {reinterpret_cast<PyObject*>(cast(object)->function), cast(object)->fullgraph};
}

// The guards of one cache's entries as {region number: [dict, …]}.
void describe_entries(PyObject* cache_object, PyObject* by_region) {
  const auto entries = cache_of(cache_object)->entries();
  for (const auto& entry : entries) {
    auto rows = guard_rows(*entry->guards);
    py::check(PyDict_SetItem(by_region, py::take(PyLong_FromLong(entry->number)).get(), rows.get()));
  }
}

py::Owned<> strings(const std::vector<std::string>& texts) {
  auto list = py::take(PyList_New(0));
  for (const std::string& text : texts) py::check(PyList_Append(list.get(), py::str(text).get()));
  return list;
}

// HOLDS(guard, value) in the guard strings of an entry, for guards that Python cannot express. Bound to (the cache
// object, the entry's number): the entry may be gone by the time somebody asks.
PyObject* holds(PyObject* bound, PyObject* args) {
  Py_ssize_t guard = 0;
  PyObject* value = nullptr;
  if (!PyArg_ParseTuple(args, "nO:HOLDS", &guard, &value)) return nullptr;
  const long number = PyLong_AsLong(PyTuple_GET_ITEM(bound, 1));
  for (const auto& entry : cache_of(PyTuple_GET_ITEM(bound, 0))->entries()) {
    if (entry->number != number) continue;
    return PyBool_FromLong(guards::GuardReport(*entry->guards).holds(static_cast<std::size_t>(guard), value));
  }
  Py_RETURN_FALSE;
}

PyMethodDef kHolds{"HOLDS", holds, METH_VARARGS, "Whether guard number `guard` of this entry holds for `value`."};

// The closure of a region as {name: cell}.
py::Owned<> cells_of(PyFunctionObject* function) {
  auto cells = py::take(PyDict_New());
  if (function->func_closure == nullptr) return cells;
  auto names = py::take(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(function->func_code)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    py::check(
        PyDict_SetItem(cells.get(), PyTuple_GET_ITEM(names.get(), i), PyTuple_GET_ITEM(function->func_closure, i)));
  }
  return cells;
}

py::Owned<> as_dict(const Entry& entry, PyObject* cache_object) {
  auto bound = py::take(Py_BuildValue("(Oi)", cache_object, entry.number));
  auto holds = py::take(PyCFunction_New(&kHolds, bound.get()));
  auto constants = guards::GuardReport(*entry.guards).constants();
  auto cells = cells_of(entry.region.get());
  auto math = py::take(PyImport_ImportModule("math"));  // of conditions
  auto scope = py::take(Py_BuildValue("{s:O,s:O,s:O,s:O,s:O}", "G", cache_of(cache_object)->key().globals, "F",
                                      cells.get(), "C", constants.get(), "HOLDS", holds.get(), "math", math.get()));
  for (const auto step : {source::Step::Part, source::Step::Ahead, source::Step::ValueAhead, source::Step::FunctionMode,
                          source::Step::OverArray}) {
    auto function = source::step_function(step);
    py::check(PyDict_SetItemString(scope.get(), source::step_function_name(step), function.get()));
  }
  auto guards = strings(guards::GuardReport(*entry.guards).code_parts());
  return py::take(Py_BuildValue("{s:O,s:O,s:O,s:O,s:L,s:i}", "code", entry.region->func_code, "function",
                                entry.region.object(), "guards", guards.get(), "scope", scope.get(), "hits",
                                static_cast<long long>(entry.hits), "region", entry.number));
}

}  // namespace

bool is_compiled_function(PyObject* object) noexcept { return Py_IS_TYPE(object, compiled_function_type); }

py::Owned<> break_reasons_of(PyObject* compiled) {
  auto list = py::take(PyList_New(0));  // appending runs no Python code
  for (const auto& record : cast(compiled)->cache->stops) py::check(PyList_Append(list.get(), record.get()));
  return list;
}

py::Owned<> recompiles_of(PyObject* compiled) {
  auto list = py::take(PyList_New(0));
  for (const auto& record : cast(compiled)->cache->recompile_records)
    py::check(PyList_Append(list.get(), record.get()));
  return list;
}

py::Owned<> guard_failures_of(PyObject* compiled) {
  const auto failures = cast(compiled)->cache->guard_failures;
  return strings(failures);
}

namespace {

py::Owned<> as_rows(const guards::Costs& costs) {
  auto rows = py::take(PyList_New(0));
  for (const guards::Cost& cost : costs.parts) {
    auto row = py::take(Py_BuildValue("(NOd)", guards::as_dict(cost.of).release(), cost.is_read ? Py_True : Py_False,
                                      cost.nanoseconds));
    py::check(PyList_Append(rows.get(), row.get()));
  }
  return rows;
}

// Binds a call that is given as a tuple and a dict. `function` must be held by the caller, and so must the two.
void bind_call(BoundArguments& bound, PyFunctionObject* function, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) values.push_back(PyTuple_GET_ITEM(args, i));
  auto names = py::take(PyTuple_New(PyDict_GET_SIZE(kwargs)));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0, i = 0; PyDict_Next(kwargs, &at, &key, &value) != 0; ++i) {
    PyTuple_SET_ITEM(names.get(), i, Py_NewRef(key));
    values.push_back(value);
  }
  if (!bound.bind(function, values.data(), static_cast<std::size_t>(PyTuple_GET_SIZE(args)), names.get())) {
    PyErr_SetString(PyExc_TypeError, "the function has other parameters");
    py::throw_pending();
  }
  bound.own();
}

}  // namespace

py::Owned<> guard_costs_of(PyObject* compiled, PyObject* args, PyObject* kwargs, int repeats) {
  const auto function = py::Owned<PyFunctionObject>::share(cast(compiled)->function);
  const auto cache = py::Owned<>::share(cast(compiled)->cache_object);
  BoundArguments bound;
  bind_call(bound, function.get(), args, kwargs);
  const auto entries = cache_of(cache.get())->entries();
  for (const auto& entry : entries) {
    if (!entry->guards->check(bound.slots(), function->func_closure)) continue;
    const auto costs = guards::costs_of(*entry->guards, bound.slots(), function->func_closure, repeats);
    return py::take(Py_BuildValue("(idnN)", entry->number, costs.call, static_cast<Py_ssize_t>(entry->guards->size()),
                                  as_rows(costs).release()));
  }
  return py::Owned<>::share(Py_None);
}

py::Owned<> compile_alone(PyObject* compiled, PyObject* args, PyObject* kwargs) {
  const auto function = py::Owned<PyFunctionObject>::share(cast(compiled)->function);
  const auto cache = py::Owned<>::share(cast(compiled)->cache_object);
  BoundArguments bound;
  bind_call(bound, function.get(), args, kwargs);
  const BusyScope busy(*cache_of(cache.get()));
  py::InterruptsWait wait;
  const Attempt attempt =
      compile_region(function.get(), bound.slots(), *cache_of(cache.get()), cast(compiled)->fullgraph);
  wait.end();
  return py::Owned<>::share(attempt.stop ? attempt.stop.get() : Py_None);
}

py::Owned<> cache_entries_of(PyObject* object) {
  auto list = py::take(PyList_New(0));
  const auto add = [&](PyObject* cache_object) {
    const auto held = py::Owned<>::share(cache_object);
    const auto entries = cache_of(cache_object)->entries();
    for (const auto& entry : entries) py::check(PyList_Append(list.get(), as_dict(*entry, cache_object).get()));
  };
  if (is_compiled_function(object)) {
    add(cast(object)->cache_object);
    return list;
  }
  PyObject* code = PyFunction_Check(object) ? PyFunction_GET_CODE(object) : object;
  if (!PyCode_Check(code)) {
    PyErr_Format(PyExc_TypeError, "expected something compiled by pellucid, a function or a code object, got %.200s",
                 Py_TYPE(object)->tp_name);
    py::throw_pending();
  }
  for (const auto& cache : caches_of(code)) add(cache.get());
  return list;
}

py::Owned<> guards_of(PyObject* compiled) {
  auto by_region = py::take(PyDict_New());
  std::vector<py::Owned<>> caches;
  caches.push_back(py::Owned<>::share(cast(compiled)->cache_object));
  for (const auto& inner : cast(compiled)->cache->inner) caches.push_back(inner.copy());
  for (std::size_t i = caches.size(); i-- > 0;) {
    for (auto& behind : cache_of(caches[i].get())->continuations()) caches.push_back(std::move(behind));
  }
  for (const auto& cache : caches) describe_entries(cache.get(), by_region.get());
  return by_region;
}

void show_call_as(PyObject* function) {
  py::check(PyDict_SetItemString(compiled_function_type->tp_dict, "__call__", function));
  PyType_Modified(compiled_function_type);
}

void initialise_compiled_function_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(make)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_repr, reinterpret_cast<void*>(repr)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
      {Py_tp_getset, kGetSets},
      {Py_tp_members, kMembers},
      {Py_tp_methods, kMethods},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.CompiledFunction", sizeof(CompiledFunction), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  auto type = py::take(PyType_FromModuleAndSpec(module, &spec, nullptr));
  py::check(PyModule_AddObjectRef(module, "CompiledFunction", type.get()));
  compiled_function_type = reinterpret_cast<PyTypeObject*>(type.release());
  region::original_of_compiled_hook = original_of;
}

}  // namespace pellucid::runtime
