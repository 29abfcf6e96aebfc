#include "runtime/dispatch.h"

#include <cstdlib>
#include <optional>

#include "aten/function_modes.h"
#include "base/break_policy.h"
#include "base/events.h"
#include "guards/report.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "runtime/compile.h"
#include "runtime/graph_call.h"
#include "runtime/limits.h"
#include "runtime/resume.h"
#include "runtime/stance.h"
#include "trace/trace.h"

namespace pellucid::runtime {

[[noreturn]] void raise_unsupported(const Attempt& attempt) {
  auto make = py::import_attr("pellucid.errors", "_unsupported");
  PyObject* cause = attempt.exception ? attempt.exception.get() : Py_None;
  auto error = py::take(PyObject_CallFunctionObjArgs(make.get(), attempt.stop.get(), cause, nullptr));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  py::throw_pending();
}

namespace {

// config.replay_record_enabled: what the failed capture reads is written into a file, which the error then names.
// `failure`: the record of a stop, or what was raised. Nothing that goes wrong here gets into the program.
void record_failure(const Cache& cache, const Call& call, const BoundArguments& bound, bool fullgraph,
                    PyObject* failure) {
  auto slots = py::take(PyTuple_New(static_cast<Py_ssize_t>(bound.size())));
  for (std::size_t i = 0; i < bound.size(); ++i)
    PyTuple_SET_ITEM(slots.get(), static_cast<Py_ssize_t>(i), Py_NewRef(bound.slots()[i]));
  const auto record = py::import_attr("pellucid._replay.interface", "record_failure");
  PyObject* const in_block = break_policy::break_is_error() ? Py_True : Py_False;
  (void)py::take(PyObject_CallFunctionObjArgs(record.get(), call.function, slots.get(), cache.key().backend,
                                              fullgraph ? Py_True : Py_False, in_block, failure, nullptr));
}

// compile_region; an error that is no graph break is recorded too.
Attempt compiled_or_recorded(Cache& cache, const Call& call, const BoundArguments& bound, bool fullgraph,
                             bool may_fill) {
  if (config_number("replay_record_enabled") == 0)
    return compile_region(call.function, bound.slots(), cache, fullgraph, may_fill);
  try {
    return compile_region(call.function, bound.slots(), cache, fullgraph, may_fill);
  } catch (const py::Interruption&) {
    throw;
  } catch (const py::PythonError& error) {
    if (!py::is_interruption(error.value())) record_failure(cache, call, bound, fullgraph, error.value());
    throw;
  }
}

bool is_about_arguments(const Attempt& attempt) { return attempt.about == About::Arguments; }

py::Owned<> run_stopped(Cache& cache, const Call& call, BoundArguments& bound, const Attempt& attempt, bool fullgraph,
                        py::InterruptsWait& wait) {
  const bool is_error = fullgraph || attempt.is_error;
  const bool is_raised = is_error && !is_about_arguments(attempt);
  remember_stop(cache, cache, attempt, is_raised);
  if (is_raised && config_number("replay_record_enabled") != 0)
    record_failure(cache, call, bound, fullgraph, attempt.stop.get());
  bound.drop();
  if (is_raised) raise_unsupported(attempt);
  wait.end();
  // The real exception of the program or operator comes from here. Where it raises nothing only capture did, and the
  // functions that it calls would be compiled for nothing.
  auto result = is_error ? run_alone(call) : py::take(run_with_inner_functions(cache, call));
  if (is_error) raise_unsupported(attempt);
  return result;
}

Attempt try_to_compile(Cache& cache, const Call& call, const BoundArguments& bound, bool fullgraph,
                       bool may_fill = false) {
  const BusyScope busy(cache);
  Attempt taken;
  taken.entry = adopted(cache, cache.others(), bound.slots(), call.function->func_closure, fullgraph);
  if (taken.entry) return taken;
  if (!stance_is_plain() && stance_keeps_from(cache)) {
    refuse_by_stance(cache, cache, call.function, bound.slots(), call.function->func_closure);
    taken.is_refused = true;
    return taken;
  }
  const Permission given =
      may_compile(cache, cache, call.function, bound.slots(), call.function->func_closure, fullgraph);
  taken.is_refused = given.verdict == Verdict::Refused;
  if (taken.is_refused) return taken;
  taken = compiled_or_recorded(cache, call, bound, fullgraph, may_fill);
  taken.replaces = given.verdict == Verdict::Replaces;
  given.note_cost(taken.entry ? taken.entry->number : -1);
  return taken;
}

// Something changed while the backend ran: what was captured is not what would run now.
bool is_stale(Cache& cache, const Call& call, const BoundArguments& bound, Entry& entry) {
  if (entry.guards->check(bound.slots(), call.function->func_closure)) return false;
  ++cache.failures;
  if (cache.failures >= config_number("recompile_limit")) cache.given_up = true;
  events::record("stale",
                 place_of(call.function)
                     .append(": ")
                     .append(guards::GuardReport(*entry.guards).explain(bound.slots(), call.function->func_closure)));
  return true;
}

// The entry may have been made for another closure of the same code; its guards hold for this one too.
py::Owned<PyFunctionObject> region_for(const Entry& entry, PyFunctionObject* function, BoundArguments& bound) {
  auto region = entry.region.copy();
  const bool has_free = reinterpret_cast<PyCodeObject*>(region->func_code)->co_nfreevars != 0;
  if (!has_free || region->func_closure == function->func_closure) return region;
  bound.own();  // making a function may start the collector, whose finalisers may replace defaults and drop the entry
  auto copy = py::take(PyFunction_New(region->func_code, region->func_globals));
  auto* made = reinterpret_cast<PyFunctionObject*>(copy.release());
  made->func_closure = Py_XNewRef(function->func_closure);
  return py::Owned<PyFunctionObject>::steal(made);
}

py::Owned<PyFunctionObject> region_or_error(const Entry& entry, const Call& call, BoundArguments& bound) noexcept {
  try {
    return region_for(entry, call.function, bound);
  } catch (...) {
    py::translate_current_exception();
    return {};
  }
}

}  // namespace

std::unique_ptr<Entry> adopted(const Cache& cache, const std::vector<py::Owned<>>& others, PyObject* const* slots,
                               PyObject* closure, bool fullgraph) {
  if (others.empty() || !has_room(cache)) return nullptr;
  return cache.adopt(others, slots, closure, fullgraph || break_policy::break_is_error());
}

bool raises(const Attempt& attempt) { return attempt.is_error && !attempt.entry && !is_about_arguments(attempt); }

void remember_stop(Cache& cache, Cache& root, const Attempt& attempt, bool is_raised) {
  const bool again = attempt.where == cache.last_stop;
  cache.last_stop = attempt.where;
  cache.last_stop_about = attempt.about;
  if (!again) root.stops.push_back(attempt.stop.copy());
  // No failure: behind a region of its own, or the next call is another matter.
  if (attempt.entry || is_raised || attempt.about == About::Caller) return;
  ++cache.failures;
  if (cache.failures >= config_number("recompile_limit") || (again && !is_about_arguments(attempt)))
    cache.given_up = true;
}

PyObject* Call::run_eagerly() const {
  if (frame != nullptr) return evaluate_as_before(tstate, frame, 0);
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
}

py::Owned<> run_alone(const Call& call) {
  const HookPause pause;
  return py::take(call.run_eagerly());
}

PyObject* run_with_inner_functions(Cache& cache, const Call& call) {
  if (call.frame != nullptr || aten::in_mode_of_user()) return call.run_eagerly();  // (the hook is at work)
  const InnerFunctions scope(cache, call.function);
  return call.run_eagerly();
}

// "pellucid region 3: Model.forward" in torch's profiler, where one listens.
std::unique_ptr<aten::ProfilerRange> profiler_range(PyFunctionObject* region, int number) noexcept {
  try {
    auto range = aten::ProfilerRange::if_asked_for();
    if (range == nullptr) return nullptr;
    std::string name = "pellucid region " + std::to_string(number);
    range->begin(name.append(": ").append(py::text_of(region->func_qualname)));
    return range;
  } catch (...) {  // a call has its result all the same
    return nullptr;
  }
}

PyObject* call_region(PyFunctionObject* region, const StateBehind& state, PyObject* const* arguments,
                      std::size_t count) {
  const HookPause pause;
  std::optional<aten::FunctionModesAside> aside;
  if (state.follows_modes) aside.emplace(aten::FunctionModesAside::State::HidesThem);
  const auto range = profiler_range(region, state.number);
  PyObject* result = region->vectorcall(reinterpret_cast<PyObject*>(region), arguments, count, nullptr);
  if (result != nullptr && state.after != nullptr) state.after->restore();
  return result;
}

codegen::ReadyInputs ready_inputs(const Entry& entry, bool just_checked) noexcept {
  const bool known = just_checked && entry.input_loader != nullptr;
  return {entry.input_loader, known ? entry.guards->gathered() : py::Owned<>()};
}

bool is_deep_enough(int depth) noexcept { return py::depth_left() >= depth + trace::kLastLevels; }

void note_rerun_of(Cache& cache, PyObject* graph_call, PyFunctionObject* function) {
  const std::int64_t limit = config_number("graph_failure_limit");
  if (note_rerun(graph_call) < limit || limit == 0) return;
  events::record("unbacked_given_up", place_of(function));
  Dropped dropped;
  cache.give_up_unbacked(graph_call, dropped);
  const auto report = py::import_attr("pellucid._logging", "_report_failing_assertions");
  (void)py::take(PyObject_CallFunction(report.get(), "OL", function, static_cast<long long>(limit)));
}

PyObject* run_region(Cache& cache, const Entry& entry, const Call& call, BoundArguments& bound, bool just_checked) {
  if (!is_deep_enough(entry.depth)) return call.run_eagerly();
  // Both are kept alive by the region; the entry may be dropped once Python code runs, which gathered() does not start.
  PyObject* const graph = entry.graph_call.get();
  const auto exit = entry.exit;
  const StateBehind state(entry);
  const bool may_give_up = entry.may_give_up;
  const auto held_cache = may_give_up ? py::Owned<>::share(cache.object) : py::Owned<>();
  const auto inputs = ready_inputs(entry, just_checked);
  const auto region = region_or_error(entry, call, bound);
  if (!region) return nullptr;
  PyObject* result = call_region(region.get(), state, bound.slots(), bound.size());
  if (result != nullptr && exit != nullptr) {
    bound.drop();
    return py::enter([&] { return go_on(cache, call.function, *exit, py::Owned<>::steal(result)); });
  }
  if (result != nullptr || !may_run_again(graph)) return result;
  return py::enter([&] {
    auto again = run_again(graph, [&] { return call.run_eagerly(); });
    if (may_give_up) note_rerun_of(cache, graph, call.function);
    return again;
  });
}

namespace {

// The modes see what eager does. Nothing of it is compiled, nor of what the modes do.
py::Owned<> run_in_mode(Cache& cache, const Call& call, BoundArguments& bound) {
  if (cache.last_stop_about != About::Caller) {  // told once
    const BusyScope busy(cache);
    bound.own();
    explain_misses(cache, cache, call.function, bound.slots(), call.function->func_closure);
    py::InterruptsWait wait;
    remember_stop(cache, cache, compile_region(call.function, bound.slots(), cache, false), false);
    wait.end();
  }
  bound.drop();
  return run_alone(call);
}

// Outside of all modes of torch, until it goes.
class ModesLeft {
 public:
  ModesLeft() : modes_(py::take(PyObject_CallNoArgs(py::import_attr("pellucid._fx_trace", "leave_modes").get()))) {}
  ~ModesLeft() {
    const auto closed = py::Owned<>::steal(PyObject_CallMethod(modes_.get(), "close", nullptr));
    if (!closed) PyErr_WriteUnraisable(modes_.get());
  }
  ModesLeft(const ModesLeft&) = delete;
  ModesLeft& operator=(const ModesLeft&) = delete;

 private:
  py::Owned<> modes_;
};

bool is_forced_in_fx_trace() {
  if (!aten::in_dispatch_mode()) return false;
  return py::take(PyObject_CallNoArgs(py::import_attr("pellucid._fx_trace", "asked_for").get())).get() == Py_True;
}

// make_fx sees the call of the graph, which is compiled where it does not look.
py::Owned<> run_in_fx_trace(Cache& cache, const Call& call, BoundArguments& bound, bool fullgraph) {
  bound.own();
  Dropped dropped;
  const Entry* entry = nullptr;
  {
    const ModesLeft outside;
    entry = cache.find(bound.slots(), call.function->func_closure);
    if (entry == nullptr) {
      py::InterruptsWait wait;
      Attempt attempt = try_to_compile(cache, call, bound, fullgraph);
      if (attempt.stop) remember_stop(cache, cache, attempt, fullgraph);
      wait.end();
      if (attempt.entry && !is_stale(cache, call, bound, *attempt.entry))
        entry = cache.add(std::move(attempt.entry), attempt.replaces, dropped);
      else if (attempt.stop && fullgraph)
        raise_unsupported(attempt);
    }
  }
  return entry == nullptr ? run_alone(call) : py::take(run_region(cache, *entry, call, bound, false));
}

// TORCHDYNAMO_DEBUG_FUNCTION: only functions of this name are compiled, which is asked at each compile.
bool is_left_out(PyFunctionObject* function) noexcept {
  const char* const only = std::getenv("TORCHDYNAMO_DEBUG_FUNCTION");
  if (only == nullptr || *only == '\0') return false;
  const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return PyUnicode_CompareWithASCIIString(code->co_name, only) != 0;
}

// Calls find the entry from here on. `dropped` lives until the region has run: what it takes along may run Python code.
const Entry* keep(Cache& cache, Attempt& attempt, bool fullgraph, Dropped& dropped) {
  attempt.entry->may_give_up &= !fullgraph;
  return cache.add(std::move(attempt.entry), attempt.replaces, dropped);
}

// Whether the first call may run eagerly while the region is made for what it leaves behind.
bool may_fill_first(const Cache& cache) { return !cache.has_run && cache.entries_made() == 0; }

// The first call makes the state that all others find: it runs by the interpreter, and the region is that of the
// next one. What speaks against compiling is left for the next call to say, for this one has happened.
py::Owned<> run_and_compile(Cache& cache, const Call& call, BoundArguments& bound, bool fullgraph) {
  events::record("fills_first", place_of(call.function));
  const auto held = py::Owned<PyFunctionObject>::share(call.function);  // a frame is used up by running it
  auto result = run_alone(call);
  if (cache.busy || cache.entries_made() != 0) return result;  // of another thread, or of a call in this one
  py::InterruptsWait wait;
  Attempt attempt;
  try {
    attempt = try_to_compile(cache, call, bound, fullgraph);
  } catch (const py::Interruption&) {
    throw;
  } catch (const py::PythonError&) {
    return result;
  }
  wait.end();
  const bool fits = attempt.entry && !(fullgraph && attempt.entry->exit != nullptr) &&
                    attempt.entry->guards->check(bound.slots(), call.function->func_closure);
  if (!fits) return result;
  if (attempt.stop) remember_stop(cache, cache, attempt, false);
  Dropped dropped;
  keep(cache, attempt, fullgraph, dropped);
  return result;
}

// Nothing is compiled under a debugger, which sees every line instead.
py::Owned<> run_traced(const Call& call) {
  if (py::steps_through_regions) {
    const py::TracePause pause;
    const auto report = py::import_attr("pellucid._logging", "_report_traced_miss");
    (void)py::take(PyObject_CallOneArg(report.get(), reinterpret_cast<PyObject*>(call.function)));
  }
  return py::take(call.run_eagerly());
}

}  // namespace

py::Owned<> call_missed(Cache& cache, const Call& call, BoundArguments& bound, bool fullgraph) {
  // Another thread compiles this function (waiting could deadlock with what its backend does), or RecursionError is
  // near: this one call runs eagerly.
  if (cache.busy || !is_deep_enough(kWorthCapturing)) return py::take(call.run_eagerly());
  if (py::has_trace_function()) return run_traced(call);
  if (is_left_out(call.function) || (cache.given_up && !fullgraph))
    return py::take(run_with_inner_functions(cache, call));
  if (is_forced_in_fx_trace()) return run_in_fx_trace(cache, call, bound, fullgraph);
  if (aten::in_dispatch_mode() && !fullgraph) return run_in_mode(cache, call, bound);
  bound.own();
  py::InterruptsWait wait;
  cache.drop_dead();
  Attempt attempt = try_to_compile(cache, call, bound, fullgraph, may_fill_first(cache));
  if (attempt.fills_first) {
    cache.has_run = true;
    wait.end();
    return run_and_compile(cache, call, bound, fullgraph);
  }
  if (attempt.stop && attempt.entry) remember_stop(cache, cache, attempt, false);
  if (attempt.stop && !attempt.entry) return run_stopped(cache, call, bound, attempt, fullgraph, wait);
  wait.end();  // before the guards are checked: a handler may have changed what was captured
  if (attempt.entry && is_stale(cache, call, bound, *attempt.entry)) attempt.entry.reset();
  if (!attempt.entry) {
    bound.drop();
    return attempt.is_refused ? run_alone(call) : py::take(run_with_inner_functions(cache, call));
  }
  Dropped dropped;
  const Entry* entry = keep(cache, attempt, fullgraph, dropped);
  return py::take(run_region(cache, *entry, call, bound, false));
}

}  // namespace pellucid::runtime
