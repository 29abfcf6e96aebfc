#include "runtime/runtime.h"

#include "aten/aten.h"
#include "backend/fx.h"
#include "base/break_policy.h"
#include "base/events.h"
#include "base/reasons.h"
#include "py/ref.h"
#include "region/inside.h"
#include "rows/steering.h"
#include "runtime/cache.h"
#include "runtime/compiled_function.h"
#include "runtime/draws.h"
#include "runtime/graph_call.h"
#include "runtime/hook.h"
#include "runtime/listener.h"
#include "runtime/profiling.h"
#include "runtime/report.h"
#include "runtime/stance.h"
#include "runtime/thread_state.h"

namespace pellucid::runtime {
namespace {

PyObject* reset(PyObject*, PyObject*) {
  return py::enter([] {
    reset_all();
    return py::Owned<>::share(Py_None);
  });
}

PyObject* is_compiling(PyObject*, PyObject*) { return PyBool_FromLong(compiling_here()); }

template <py::Owned<> (*read)(PyObject*)>
PyObject* of_compiled(PyObject*, PyObject* object) {
  if (!is_compiled_function(object)) {
    return PyErr_Format(PyExc_TypeError, "expected a function compiled by pellucid, got %.200s",
                        Py_TYPE(object)->tp_name);
  }
  return py::enter([&] { return read(object); });
}

PyObject* cache_entries(PyObject*, PyObject* object) {
  return py::enter([&] { return cache_entries_of(object); });
}

py::Owned<> as_dict(const events::Event& event) {
  auto numbers = py::take(PyDict_New());
  for (const auto& [name, value] : event.numbers) {
    py::check(
        PyDict_SetItemString(numbers.get(), std::string(name).c_str(), py::take(PyFloat_FromDouble(value)).get()));
  }
  return py::take(Py_BuildValue(
      "{s:L,s:L,s:K,s:N,s:N,s:O}", "serial", static_cast<long long>(event.serial), "nanoseconds",
      static_cast<long long>(event.nanoseconds), "thread", static_cast<unsigned long long>(event.thread), "kind",
      py::str(std::string(event.kind)).release(), "text", py::str(event.text).release(), "numbers", numbers.get()));
}

PyObject* events_since(PyObject*, PyObject* args) {
  long long serial = 0;
  if (!PyArg_ParseTuple(args, "|L:events", &serial)) return nullptr;
  return py::enter([&] {
    auto list = py::take(PyList_New(0));
    for (const auto& event : events::since(serial)) py::check(PyList_Append(list.get(), as_dict(event).get()));
    return list;
  });
}

PyObject* next_event(PyObject*, PyObject*) { return PyLong_FromLongLong(events::next_serial()); }

PyObject* clear_events(PyObject*, PyObject*) {
  events::clear();
  Py_RETURN_NONE;
}

void add_total(PyObject* dict, const char* name, const std::vector<std::pair<std::string, std::int64_t>>& counts) {
  std::int64_t total = 0;
  for (const auto& [op, count] : counts) total += count;
  py::check(PyDict_SetItemString(dict, name, py::take(PyLong_FromLongLong(total)).get()));
}

PyObject* counters(PyObject*, PyObject*) {
  return py::enter([] {
    auto dict = py::take(PyDict_New());
    for (const auto& [name, value] : events::counters()) {
      py::check(
          PyDict_SetItemString(dict.get(), std::string(name).c_str(), py::take(PyLong_FromLongLong(value)).get()));
    }
    // Operators that ran a Python meta function, and those that made open sizes constants.
    add_total(dict.get(), "ops_without_rule", aten::ops_without_rule());
    add_total(dict.get(), "ops_without_size_rule", aten::ops_without_size_rule());
    return dict;
  });
}

PyObject* reason_rows(PyObject*, PyObject*) {
  return py::enter([] {
    auto list = py::take(PyList_New(0));
    for (const ReasonRow& row : reasons()) {
      const auto text = [](std::string_view view) {
        return py::take(PyUnicode_FromStringAndSize(view.data(), static_cast<Py_ssize_t>(view.size())));
      };
      auto parts = py::take(PyTuple_Pack(6, text(code_of(row.reason)).get(), text(row.name).get(), text(row.what).get(),
                                         text(row.why).get(), text(row.fix).get(), text(row.example).get()));
      py::check(PyList_Append(list.get(), parts.get()));
    }
    return list;
  });
}

PyObject* open_break_block(PyObject*, PyObject* error) {
  const int is_error = PyObject_IsTrue(error);
  if (is_error < 0) return nullptr;
  break_policy::open_block(is_error != 0);
  Py_RETURN_NONE;
}

PyObject* close_break_block(PyObject*, PyObject*) {
  break_policy::close_block();
  Py_RETURN_NONE;
}

// [(phase, function, milliseconds), …], oldest first.
PyObject* timings(PyObject*, PyObject*) {
  return py::enter([] {
    auto rows = py::take(PyList_New(0));
    for (const events::Timing& timing : events::timings()) {
      const std::string phase(timing.phase);
      auto row = py::take(Py_BuildValue("(ssd)", phase.c_str(), timing.function.c_str(), timing.milliseconds));
      py::check(PyList_Append(rows.get(), row.get()));
    }
    return rows;
  });
}

PyObject* clear_timings(PyObject*, PyObject*) {
  events::clear_timings();
  Py_RETURN_NONE;
}

PyObject* reset_counters(PyObject*, PyObject*) {
  events::reset_counters();
  aten::reset_ops_without_rule();
  Py_RETURN_NONE;
}

PyObject* set_directories(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "expected a list, got %.200s", Py_TYPE(list)->tp_name);
  return py::enter([&] {
    std::vector<std::string> directories;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) directories.push_back(py::text_of(PyList_GET_ITEM(list, i)));
    set_skipped_directories(std::move(directories));
    return py::Owned<>::share(Py_None);
  });
}

PyObject* steer(PyObject*, PyObject* args) {
  PyObject *callable = nullptr, *substitute = nullptr;
  int how = 0;
  if (!PyArg_ParseTuple(args, "OiO:steer", &callable, &how, &substitute)) return nullptr;
  return py::enter([&] {
    rows::steer(callable, how, substitute);
    return py::Owned<>::share(Py_None);
  });
}

PyObject* steering_of(PyObject*, PyObject* callable) {
  return py::enter([&] { return py::take(PyLong_FromLong(rows::steering_of(callable))); });
}

PyObject* is_leaf(PyObject*, PyObject* callable) {
  return py::enter([&] { return py::Owned<>::share(rows::is_leaf(callable) ? Py_True : Py_False); });
}

PyObject* steerings(PyObject*, PyObject*) {
  return py::enter([] { return rows::steerings(); });
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#if defined(__OPTIMIZE__)
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

PyObject* build(PyObject*, PyObject*) {
  return Py_BuildValue("{s:s,s:O,s:O}", "compiler", "C++ compiler " __VERSION__, "sanitized",
                       kSanitized ? Py_True : Py_False, "optimized", kOptimized ? Py_True : Py_False);
}

PyObject* guard_costs(PyObject*, PyObject* args) {
  PyObject *compiled = nullptr, *arguments = nullptr, *keywords = nullptr;
  int repeats = 0;
  if (!PyArg_ParseTuple(args, "OO!O!i:guard_costs", &compiled, &PyTuple_Type, &arguments, &PyDict_Type, &keywords,
                        &repeats))
    return nullptr;
  if (!is_compiled_function(compiled)) {
    PyErr_Format(PyExc_TypeError, "expected a function compiled by pellucid, got %.200s", Py_TYPE(compiled)->tp_name);
    return nullptr;
  }
  return py::enter([&] { return guard_costs_of(compiled, arguments, keywords, repeats); });
}

PyObject* compile_call(PyObject*, PyObject* args) {
  PyObject *compiled = nullptr, *arguments = nullptr, *keywords = nullptr;
  if (!PyArg_ParseTuple(args, "OO!O!:compile_alone", &compiled, &PyTuple_Type, &arguments, &PyDict_Type, &keywords))
    return nullptr;
  if (!is_compiled_function(compiled)) {
    PyErr_Format(PyExc_TypeError, "expected a function compiled by pellucid, got %.200s", Py_TYPE(compiled)->tp_name);
    return nullptr;
  }
  return py::enter([&] { return compile_alone(compiled, arguments, keywords); });
}

PyObject* show_call(PyObject*, PyObject* function) {
  return py::enter([&] {
    show_call_as(function);
    return py::Owned<>::share(Py_None);
  });
}

PyObject* stack_makers(PyObject*, PyObject* args) {
  PyObject* code = nullptr;
  int offset = 0;
  if (!PyArg_ParseTuple(args, "O!i:stack_makers", &PyCode_Type, &code, &offset)) return nullptr;
  return py::enter([&] { return stack_makers_at(reinterpret_cast<PyCodeObject*>(code), offset); });
}

PyObject* set_stance(PyObject*, PyObject* args) {
  PyObject *name = nullptr, *backend = nullptr;
  int skips_guards = 0;
  if (!PyArg_ParseTuple(args, "UpO:set_stance", &name, &skips_guards, &backend)) return nullptr;
  return py::enter([&] { return set_own_stance(name, skips_guards != 0, backend); });
}

PyObject* step_through(PyObject*, PyObject* files) {
  if (files != Py_None && PySet_Check(files) == 0) {
    PyErr_SetString(PyExc_TypeError, "files must be a set or None");
    return nullptr;
  }
  step_through_regions(files == Py_None ? nullptr : files);
  Py_RETURN_NONE;
}

// Without the thread's trace function, and without telling whoever watches sys.settrace.
PyObject* call_untraced(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "call_untraced needs a function");
    return nullptr;
  }
  PyThreadState* const thread = PyThreadState_Get();
  const Py_tracefunc tracer = thread->c_tracefunc;
  const auto traced = tracer == nullptr ? py::Owned<>() : py::Owned<>::steal(Py_XNewRef(thread->c_traceobj));
  if (tracer != nullptr) PyEval_SetTrace(nullptr, nullptr);
  PyObject* result = PyObject_Vectorcall(args[0], args + 1, static_cast<std::size_t>(count - 1), kwnames);
  if (tracer == nullptr) return result;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyEval_SetTrace(tracer, traced.get());
  PyErr_Restore(type, value, traceback);
  return result;
}

PyObject* observe_calls(PyObject*, PyObject* observer) {
  return py::enter([&] {
    set_call_observer(observer);
    return py::Owned<>::share(Py_None);
  });
}

PyObject* hook_installed(PyObject*, PyObject*) { return PyBool_FromLong(hook_is_installed()); }

PyMethodDef kFunctions[] = {
    {"reset", reset, METH_NOARGS, "Drops all compiled code."},
    {"is_compiling", is_compiling, METH_NOARGS, "Whether this thread compiles."},
    {"break_reasons", of_compiled<break_reasons_of>, METH_O, "The recorded stops of a compiled function."},
    {"cache_entries", cache_entries, METH_O, "The entries of a compiled function, a function or a code object."},
    {"guards_of", of_compiled<guards_of>, METH_O,
     "The guards of the entries of a compiled function and of inner functions, by region."},
    {"guard_failures", of_compiled<guard_failures_of>, METH_O, "Why calls of a compiled function missed."},
    {"stack_makers", stack_makers, METH_VARARGS,
     "Of a code and an offset in it: the offsets of the instructions that made the values on the stack."},
    {"recompiles", of_compiled<recompiles_of>, METH_O, "The records of the recompiles of a compiled function."},
    {"events", events_since, METH_VARARGS, "The kept events from a serial number on, as dicts."},
    {"next_event", next_event, METH_NOARGS, "The serial number of the next event."},
    {"clear_events", clear_events, METH_NOARGS, "Forgets the kept events."},
    {"open_break_block", open_break_block, METH_O,
     "From here on a graph break of this thread is an error, or is none."},
    {"close_break_block", close_break_block, METH_NOARGS, "Ends the innermost block of open_break_block."},
    {"reasons", reason_rows, METH_NOARGS, "The registry of reasons: (code, name, what, why, fix, example) of each."},
    {"counters", counters, METH_NOARGS, "Totals since reset_counters()."},
    {"reset_counters", reset_counters, METH_NOARGS, "Sets all totals to zero."},
    {"timings", timings, METH_NOARGS, "What each phase of compiling took: (phase, function, milliseconds) each time."},
    {"clear_timings", clear_timings, METH_NOARGS, "Forgets them."},
    {"set_skipped_directories", set_directories, METH_O, "Code below these is not compiled on its own."},
    {"steer", steer, METH_VARARGS,
     "How captures treat a callable: (callable, number of a Steering, substitute or None)."},
    {"steering_of", steering_of, METH_O, "The number of its Steering."},
    {"steerings", steerings, METH_NOARGS, "The names of all Steerings with their numbers."},
    {"build", build, METH_NOARGS, "How this core was built: compiler, sanitized, optimized."},
    {"guard_costs", guard_costs, METH_VARARGS, "(compiled, args, kwargs, repeats): what its guards cost at this call."},
    {"compile_alone", compile_call, METH_VARARGS,
     "(compiled, args, kwargs): captures and compiles for this call, and runs nothing; the record of the stop or "
     "None."},
    {"is_leaf", is_leaf, METH_O, "Whether it is an operation of torch, which is one node of a graph."},
    {"show_call_as", show_call, METH_O, "What CompiledFunction.__call__ gives. Calls go on to run the native one."},
    {"set_stance", set_stance, METH_VARARGS, "The stance: (name, skips guards, backend or None). Gives what it was."},
    {"step_through_regions", step_through, METH_O,
     "Traced calls run what was compiled for them; graphs are the code of these files, a set. None: no more."},
    {"call_untraced", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_untraced)),
     METH_FASTCALL | METH_KEYWORDS, "Calls a function as if nobody traced this thread."},
    {"set_call_observer", observe_calls, METH_O,
     "observer(function, arguments, result) after outermost calls; or None."},
    {"hook_installed", hook_installed, METH_NOARGS, "Whether our frame hook is what the interpreter calls."},
    {},
};

}  // namespace

void initialise(PyObject* module) {
  region::fx_graph_of = backend::fx_graph;
  initialise_cache_type(module);
  initialise_graph_call_type(module);
  initialise_drawer_type(module);
  initialise_hook();
  initialise_stance();
  initialise_compiled_function_type(module);
  py::check(PyModule_AddFunctions(module, kFunctions));
  add_profiling(module);
  add_listening(module);
}

}  // namespace pellucid::runtime
