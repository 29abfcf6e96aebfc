#include "runtime/compile.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "aten/aten.h"
#include "aten/function_modes.h"
#include "base/break_policy.h"
#include "base/events.h"
#include "codegen/emit.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "region/profile.h"
#include "runtime/backend_call.h"
#include "runtime/capture_cache.h"
#include "runtime/draws.h"
#include "runtime/fills_first.h"
#include "runtime/graph_call.h"
#include "runtime/guard_filter.h"
#include "runtime/listener.h"
#include "runtime/refusals.h"
#include "runtime/report.h"
#include "runtime/restarts.h"
#include "runtime/thread_state.h"
#include "runtime/told_work.h"
#include "trace/trace.h"

namespace pellucid::runtime {
namespace {

using events::Counter;

std::atomic<int> next_region{0};

constexpr std::int64_t kFarthestForcedEnd = 256;

// What the user knows of it: of a module its class, since the function is torch.nn.Module's.
std::string name_of(PyFunctionObject* function, const Cache& cache) {
  PyObject* const instance = cache.key().instance;
  return instance == nullptr ? place_of(function) : source::describe(reinterpret_cast<PyObject*>(Py_TYPE(instance)));
}

PyCodeObject* code_of(PyFunctionObject* function) { return reinterpret_cast<PyCodeObject*>(function->func_code); }

Attempt stopped(PyFunctionObject* function, PyObject* backend, const trace::BreakInfo& stop) {
  Attempt attempt;
  attempt.about = about(stop.reason);
  attempt.is_error = stop.is_error;
  attempt.exception = stop.exception.copy();
  const std::string code = code_of(stop.reason), name(name_of(stop.reason));
  attempt.where = name;
  if (!stop.stack.empty()) {
    const auto& innermost = stop.stack.back();
    attempt.where.append("@").append(std::to_string(reinterpret_cast<std::uintptr_t>(innermost.code.get())));
    attempt.where.append("+").append(std::to_string(innermost.offset));
  }
  auto make = py::import_attr("pellucid.errors", "_record_stop");
  auto stack = stack_of(stop);
  PyObject* cause = stop.exception ? stop.exception.get() : Py_None;
  attempt.stop = py::take(PyObject_CallFunction(make.get(), "OssssOOOs", function->func_code, code.c_str(),
                                                name.c_str(), stop.message.c_str(), stop.hint.c_str(), stack.get(),
                                                cause, backend, stop.thrown_at.c_str()));
  events::count(Counter::Stops);
  events::record("stop", code + " " + name + ": " + stop.message + " in " + place_of(function));
  return attempt;
}

// A stop that a later step than the capture asks for: it is about what leaves the region, at the instruction that ends
// it.
trace::BreakInfo stop_at_end(PyFunctionObject* function, const GraphBreak& later, const region::Capture* capture) {
  trace::BreakInfo stop;
  stop.reason = later.reason();
  stop.message = later.message();
  stop.hint = std::string(hint_of(later.reason()));
  stop.thrown_at = text_of(later.thrown_at());
  stop.is_error = break_policy::break_is_error();
  const int offset = capture != nullptr && capture->returned_at >= 0 ? capture->returned_at : 0;
  stop.stack.push_back({py::Owned<PyCodeObject>::share(code_of(function)), offset, 0});
  return stop;
}

trace::BreakInfo copy_of(const trace::BreakInfo& stop) {
  trace::BreakInfo copy;
  copy.reason = stop.reason;
  copy.message = stop.message;
  copy.hint = stop.hint;
  copy.thrown_at = stop.thrown_at;
  copy.is_error = stop.is_error;
  for (const auto& frame : stop.stack) copy.stack.push_back({frame.code.copy(), frame.offset, frame.line});
  copy.exception = stop.exception.copy();
  return copy;
}

// "__compiled_fn_3"; of a region that starts behind a break "__resume_at_26_4", the offset where it goes on. One
// counter for both.
std::string region_name(const region::Capture& capture, int number) {
  const std::string begin =
      capture.starts_at < 0 ? "__compiled_fn_" : "__resume_at_" + std::to_string(capture.starts_at) + "_";
  return begin + std::to_string(number);
}

// call_backend, and whoever listens hears of it.
Compiled told_call(PyFunctionObject* function, region::Capture& capture, Cache& cache, const trace::BreakInfo* stop,
                   const Entry& entry) {
  const std::string name = region_name(capture, entry.number);
  if (!listens()) return call_backend(function, capture, cache, stop, name);
  tell_backend_starts(capture, entry, name, cache.key().backend);
  try {
    Compiled compiled = call_backend(function, capture, cache, stop, name);
    tell_backend_ends(nullptr);
    return compiled;
  } catch (const py::PythonError& error) {
    tell_backend_ends(error.value());
    throw;
  }
}

// A graph with parts that run in the backward pass and read what may have changed by then.
void guard_late(const region::Capture& capture, Compiled& compiled) {
  if (std::ranges::none_of(capture.effects, watches_late_reads)) return;
  const auto guarded = py::import_attr("pellucid._late_guards", "Guarded");
  compiled.graph = py::take(PyObject_CallOneArg(guarded.get(), compiled.graph.get()));
}

// Puts the torch state of this thread back: what capture and backends switch (grad mode, autocast,
// levels of torch.func) is the region's business.
class StateKeeper {
 public:
  StateKeeper() : before_(aten::GlobalState::now()) {}
  ~StateKeeper() { before_->restore(); }
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

 private:
  std::unique_ptr<aten::GlobalState> before_;
};

// Whether the region's function makes some of the inputs: what it has drawn, tensors over arrays.
bool loads_late(const region::Capture& capture) { return !capture.draws.empty() || capture.computes_arrays; }

std::unique_ptr<Entry> build_entry(PyFunctionObject* function, Cache& cache, region::Capture& capture,
                                   const trace::BreakInfo* stop) {
  const std::int64_t begin = events::now();
  refuse_effects(capture, cache.key().backend);
  {
    const region::ProfiledPhase phase("finish_graph");
    codegen::finish_graph(capture);
  }
  refuse_inference_results(capture, cache.key().backend);
  refuse_leaves(capture, cache.key().backend);
  refuse_moved(capture);
  refuse_inner_hooks(capture);
  refuse_lost_functions(capture, cache.key().backend);
  const double finish = events::milliseconds_since(begin);
  auto entry = std::make_unique<Entry>();
  entry->number = next_region_number();
  if (CaptureCache* const kept = CaptureCache::here()) kept->note(cache, capture, stop);
  auto given = capture.guards.release();
  filter_guards(cache.key().backend, capture, given);
  const std::size_t guard_count = given.size();
  {  // guards first: they describe the world before the backend runs anything
    const region::ProfiledPhase phase("guards");
    // Inputs that the guards have read are not read again.
    const auto inputs = loads_late(capture) ? std::vector<const source::Source*>() : codegen::graph_inputs(capture);
    entry->guards = guards::GuardProgram::compile(capture.sources, std::move(given), function, inputs);
  }
  const double guards = events::milliseconds_since(begin) - finish;
  capture.drawer = make_drawer(capture);
  if (codegen::calls_graph(capture)) {
    auto before = aten::GlobalState::now();
    const StateKeeper keeper;  // a backend that traces the graph, and fails, leaves levels open
    Compiled compiled = told_call(function, capture, cache, stop, *entry);
    guard_late(capture, compiled);
    GraphFacts facts{undo_plan(capture, !compiled.as_captured), std::move(compiled.as_captured),
                     capture.computes_arrays, capture.drawer.copy()};
    if (capture.drawer && (facts.undo.may_raise || facts.as_captured)) keep_states(capture.drawer.get());
    entry->graph_call = make_graph_call(function, compiled.graph.get(), std::move(facts), std::move(before));
  }
  const std::int64_t start = events::now();
  const region::ProfiledPhase phase("emit");
  auto region = codegen::emit(capture, entry->graph_call.get(), region_name(capture, entry->number));
  entry->region = std::move(region.function);
  entry->input_loader = loads_late(capture) ? nullptr : region.input_loader;
  const double emit = events::milliseconds_since(start);
  events::time("finish_graph", finish);
  events::time("guards", guards);
  events::time("emit", emit);
  events::count(Counter::Entries);
  events::count(Counter::Guards, static_cast<std::int64_t>(guard_count));
  events::count(Counter::Ops, static_cast<std::int64_t>(capture.graph.op_count()));
  events::record("entry", place_of(function),
                 {{"region", static_cast<double>(entry->number)},
                  {"guards", static_cast<double>(guard_count)},
                  {"ops", static_cast<double>(capture.graph.op_count())},
                  {"placeholders", static_cast<double>(capture.graph.placeholders().size())},
                  {"effects", static_cast<double>(capture.effects.size())},
                  {"finish_ms", finish},
                  {"guards_ms", guards},
                  {"emit_ms", emit}});
  return entry;
}

template <class Capture>
trace::Outcome traced(PyFunctionObject* function, Capture&& capture) {
  const StateKeeper keeper;
  const std::int64_t start = events::now();
  const region::ProfiledPhase phase("capture");
  trace::Outcome outcome = capture();
  const double instructions = outcome.capture ? static_cast<double>(outcome.capture->instructions) : 0;
  events::count(Counter::Captures);
  events::count(Counter::Instructions, static_cast<std::int64_t>(instructions));
  const double took = events::milliseconds_since(start);
  events::record("capture", place_of(function),
                 {{"ms", took}, {"instructions", instructions}, {"captured", outcome.capture ? 1.0 : 0.0}});
  events::time("capture", took);
  if (outcome.captures > 1) tell_restart("other numbers stand for those that only the graph knows");
  return outcome;
}

}  // namespace

int next_region_number() noexcept { return next_region.fetch_add(1); }

bool has_mark(PyObject* backend, const char* name) {
  PyObject* answer = nullptr;  // most marks are missing: no exception is made of that
  if (_PyObject_LookupAttr(backend, py::interned(name).get(), &answer) < 0) PyErr_Clear();
  return py::Owned<>::steal(answer).get() == Py_True;
}

std::string place_of(PyFunctionObject* function) {
  const PyCodeObject* code = code_of(function);
  std::string text = py::text_of(function->func_qualname);
  text.append(" (")
      .append(py::text_of(code->co_filename))
      .append(":")
      .append(std::to_string(code->co_firstlineno))
      .append(")");
  return text;
}

std::int64_t config_number(const char* name) {
  // What the module's __getattr__ does in Python, which each capture would run a dozen times.
  static PyObject* const patches = py::import_attr("pellucid.config", "_PATCHES").release();
  static PyObject* const values = py::import_attr("pellucid.config", "_VALUES").release();
  PyObject* patched = nullptr;
  if (PyContextVar_Get(patches, nullptr, &patched) < 0) py::throw_pending();
  const auto of_thread = py::Owned<>::steal(patched);
  static std::unordered_map<const char*, PyObject*> keys;  // owned, and used with the GIL held; callers name literals
  PyObject*& key = keys[name];
  if (key == nullptr) key = py::interned(name).release();
  PyObject* value = nullptr;
  if (of_thread && PyDict_Check(of_thread.get())) value = PyDict_GetItemWithError(of_thread.get(), key);
  if (value == nullptr) value = PyDict_GetItemWithError(values, key);
  if (value == nullptr) throw std::logic_error(std::string("pellucid.config has no option ") + name);
  const auto held = py::Owned<>::share(value);
  const long long number = PyLong_AsLongLong(held.get());
  if (number == -1 && PyErr_Occurred() != nullptr) py::throw_pending();
  return number;
}

namespace {

// `stop`: why the region ends before the program does, else null.
std::unique_ptr<Entry> finished_entry(PyFunctionObject* function, Cache& cache, region::Capture& capture,
                                      const trace::BreakInfo* stop) {
  auto entry = build_entry(function, cache, capture, stop);
  cache.numbers.note(capture.numbers);
  entry->exit = capture.exit;
  entry->depth = capture.depth;
  entry->after = capture.after;
  entry->follows_modes = capture.follows_modes;
  entry->may_give_up = capture.has_unbacked || capture.has_value_checks;
  const std::string name = region_name(capture, entry->number);
  report_region(capture, *entry, name, cache.key().backend, stop);
  if (listens()) tell_region(capture, *entry, name, stop);
  return entry;
}

// Of hundreds of earlier ends not every one is tried, but the last is.
std::size_t next_to_try(std::size_t i, std::size_t count) {
  constexpr std::size_t kOneByOne = 8;
  if (i + 1 >= count) return count;
  return std::min(i < kOneByOne ? i + 1 : i + i / 2, count - 1);
}

// Where the live state at a break cannot be told, the region ends before the instruction of an outer frame that led
// there: traced once more up to that step. Null when that is not to be had either.
template <class Capture>
std::unique_ptr<Entry> shorter(PyFunctionObject* function, Cache& cache, const trace::Outcome& whole,
                               const Capture& capture) {
  const std::size_t count = whole.earlier.size();
  for (std::size_t i = 0; i < count; i = next_to_try(i, count)) {
    tell_restart("what is alive at the graph break cannot leave the region, which ends earlier");
    const trace::Outcome outcome =
        traced(function, [&] { return capture(trace::Extent{.may_end_early = true, .steps = whole.earlier[i]}); });
    if (!outcome.stopped || !outcome.capture) continue;
    try {
      return finished_entry(function, cache, *outcome.capture, &whole.stop);
    } catch (const GraphBreak&) {  // the next one then
    }
  }
  return nullptr;
}

template <class Capture>
Attempt attempt(PyFunctionObject* function, Cache& cache, const trace::Extent& extent, const Capture& capture);

template <class Capture>
Attempt attempt_of(trace::Outcome outcome, PyFunctionObject* function, Cache& cache, const Capture& capture) {
  PyObject* const backend = cache.key().backend;
  Attempt made;
  if (!outcome.capture || outcome.stopped) made = stopped(function, backend, outcome.stop);
  if (outcome.capture) {
    try {
      made.entry = finished_entry(function, cache, *outcome.capture, outcome.stopped ? &outcome.stop : nullptr);
    } catch (const GraphBreak& split) {
      const bool is_skipped = split.reason() == Reason::BackendSkips;
      if (!outcome.stopped || is_skipped) {
        outcome.stop = stop_at_end(function, split, outcome.capture.get());
        made = stopped(function, backend, outcome.stop);
      }
      if (is_skipped) return made;
    }
  }
  if (!made.entry && !made.is_error) made.entry = shorter(function, cache, outcome, capture);
  return made;
}

// For tests: the region ends where nothing is in the way. What is alive at some steps cannot leave it: then at a later
// one.
template <class Capture>
Attempt attempt_at_will(PyFunctionObject* function, Cache& cache, trace::Extent extent, const Capture& capture) {
  for (std::int64_t ahead = 1; ahead < kFarthestForcedEnd; ahead *= 2) {
    trace::Outcome outcome = traced(function, [&] { return capture(extent); });
    const bool ends_itself = outcome.capture && !outcome.stopped;
    if (ends_itself || outcome.steps < extent.steps) return attempt_of(std::move(outcome), function, cache, capture);
    std::string why = outcome.not_handed_over;
    if (outcome.capture) {
      try {
        Attempt made = stopped(function, cache.key().backend, outcome.stop);
        made.entry = finished_entry(function, cache, *outcome.capture, &outcome.stop);
        events::record("forced_end", place_of(function), {{"step", static_cast<double>(outcome.steps)}});
        return made;
      } catch (const GraphBreak& split) {
        why = split.message();
      }
    }
    events::record("forced_end_refused", why, {{"step", static_cast<double>(outcome.steps)}});
    extent.steps = outcome.steps + ahead;
  }
  return attempt(function, cache, {.may_end_early = true}, capture);
}

template <class Capture>
Attempt attempt(PyFunctionObject* function, Cache& cache, const trace::Extent& extent, const Capture& capture) {
  if (extent.at_will) return attempt_at_will(function, cache, extent, capture);
  return attempt_of(traced(function, [&] { return capture(extent); }), function, cache, capture);
}

// The testing switches: where a region ends though nothing is in the way. `at`: of this one alone, 0: nowhere. `open`:
// frames that are handed on to it. It has no fewer instructions than these, or a deep recursion takes quadratic time.
trace::Extent forced_end(std::int64_t at, std::size_t open = 0) {
  const std::int64_t every = config_number("force_break_every");
  trace::Extent extent{.may_end_early = true, .work = config_number("region_limit")};
  if (at <= 0 && every <= 0) return extent;
  const auto least = static_cast<std::int64_t>(std::max<std::size_t>(open, 2));  // one step would never get on
  extent.steps = at > 0 ? at : std::max(every, least);
  extent.at_will = true;
  return extent;
}

// What one compile takes from its start to its end, which includes what no phase of it counts.
class WholeTime {
 public:
  WholeTime(PyFunctionObject* function, const Cache& cache) : name_(name_of(function, cache)) {}
  ~WholeTime() { events::time("compile", events::milliseconds_since(start_), std::move(name_)); }
  WholeTime(const WholeTime&) = delete;
  WholeTime& operator=(const WholeTime&) = delete;

 private:
  std::string name_;
  std::int64_t start_ = events::now();
  const std::optional<progress::Work> work_ = told_work([&] { return "compiling " + name_; });
  const region::ProfiledPhase phase_{"compile", name_};
};

// config.suppress_errors: a warning, and the call runs eagerly.
Attempt suppressed(PyFunctionObject* function, PyObject* backend, const py::PythonError& error) {
  auto report = py::import_attr("pellucid._logging", "_report_suppressed_error");
  const auto text = py::take(PyObject_CallFunctionObjArgs(report.get(), function, error.value(), nullptr));
  const GraphBreak stop(Reason::CompilerFailed, {{"error", py::text_of(text.get())}});
  return stopped(function, backend, stop_at_end(function, stop, nullptr));
}

// A capture that has asked an abstract class what its instances are is good while no class is registered with one. What
// the backend will import does that, and so does what describes open sizes to it: it is imported now, and the program
// is to be captured once more where anything was.
bool loads_compiler(PyObject* backend, const region::Capture& capture) {
  if (!has_mark(backend, "aot") && capture.open.is_empty()) return false;
  const auto asks = [](const guards::Guard& guard) { return guard.kind == guards::Kind::ABC_TOKEN; };
  if (std::ranges::none_of(capture.guards.all(), asks)) return false;
  const auto takes_gradients = [](const graph::Node* node) {
    PyObject* value = node->example_value.get();
    return value != nullptr && aten::is_fake(value) && aten::meta_of(value).requires_grad;
  };
  const bool with_gradients = std::ranges::any_of(capture.graph.placeholders(), takes_gradients);
  const auto load = py::import_attr("pellucid.backends.call", "load_compiler");
  return py::take(PyObject_CallFunctionObjArgs(load.get(), backend, with_gradients ? Py_True : Py_False, nullptr))
             .get() == Py_True;
}

template <class Capture>
Attempt attempt_or_warn(PyFunctionObject* function, Cache& cache, bool fullgraph, const trace::Extent& extent,
                        const Capture& capture) {
  const CompilingScope scope;
  const WholeTime whole(function, cache);
  cache.begin_compile();
  const ToldCompile told(function, cache, fullgraph);
  std::int64_t leaves_before = -1;
  std::int64_t function_views_before = -1;
  std::optional<EndsBefore> end;
  std::vector<std::int64_t> hooks_behind;
  bool follows_modes = aten::in_function_mode_of_user();
  const auto with = [&](bool constants) {
    for (;;) {
      try {
        std::optional<aten::FunctionModesAside> aside;
        if (follows_modes) aside.emplace(aten::FunctionModesAside::State::ShowsThem);
        return attempt(function, cache, extent, [&](trace::Extent how_far) {
          how_far.leaves_before = leaves_before;
          how_far.function_views_before = function_views_before;
          how_far.hooks_behind = hooks_behind;
          how_far.follows_modes = follows_modes;
          if (end && (how_far.steps < 0 || how_far.steps >= end->step)) {
            how_far.steps = end->step;
            how_far.begins_there = true;
          }
          trace::Outcome outcome = capture(how_far, constants);
          if (outcome.capture && loads_compiler(cache.key().backend, *outcome.capture)) {
            tell_restart("the backend has been loaded, and classes may be instances of others now");
            outcome = capture(how_far, constants);
          }
          if (outcome.ends_before >= 0 && how_far.may_end_early && !outcome.stop.is_error)
            throw EndsBefore{outcome.ends_before, std::make_shared<const trace::BreakInfo>(copy_of(outcome.stop))};
          if (end && outcome.stopped && outcome.steps == end->step) outcome.stop = copy_of(*end->stop);
          if (outcome.needs_modes) throw ModesMatter{};
          if (outcome.needs_constants && !constants) throw NotForOpenNumbers{false};
          return outcome;
        });
      } catch (const LeafLeaves& leaf) {
        tell_restart("a tensor that gradients are accumulated in leaves the region, which ends before it is made");
        leaves_before = leaf.step;
      } catch (const MovedIsSeen& moved) {
        tell_restart(
            "a tensor that moves to other memory is seen behind the graph, and the region ends before it moves");
        leaves_before = moved.step;
      } catch (const FunctionIsLost& function) {
        tell_restart("a view that an autograd.Function makes leaves the region, which ends before it is made");
        function_views_before = function.step;
      } catch (const EndsBefore& earlier) {
        tell_restart("what comes later asks for a region that ends before it");
        end = earlier;
      } catch (const HookNotInside& hook) {
        tell_restart("the backward of a compiled graph would not call a hook as eager code does");
        hooks_behind.push_back(hook.step);
      } catch (const NotForElements&) {
        tell_restart("the backend does not compile what follows from the elements of tensors");
      } catch (const ModesMatter&) {
        tell_restart("the program enters a torch function mode where there is a default device, which is one as well");
        follows_modes = true;
      }
    }
  };
  const auto attempt_open_first = [&] {
    try {
      return with(false);
    } catch (const NotForOpenNumbers& refusal) {
      tell_restart("the backend does not compile for numbers that stay open");
      if (!refusal.of_graph) return with(true);
    }
    try {
      return with(false);
    } catch (const NotForOpenNumbers&) {
      tell_restart("the backend does not compile for numbers that stay open");
      return with(true);
    }
  };
  if (fullgraph || config_number("suppress_errors") == 0) return attempt_open_first();
  try {
    return attempt_open_first();
  } catch (const py::Interruption&) {
    throw;
  } catch (const py::PythonError& error) {
    if (py::is_interruption(error.value()) || PyErr_GivenExceptionMatches(error.value(), PyExc_Exception) == 0) throw;
    return suppressed(function, cache.key().backend, error);
  }
}

// As in torch.compile, fullgraph=True asks for operators whose results depend on values too. `constants`: nothing is
// open.
region::NumberPolicy number_policy(const Cache& cache, bool fullgraph, bool constants = false) {
  PyObject* const backend = cache.key().backend;
  const bool may = graph_numbers(backend) != region::GraphNumbers::None && cache.takes_unbacked;
  // Such a backend has a graph that gives a number of Python for one.
  const bool as_captured = graph_numbers(backend) == region::GraphNumbers::All;
  static const region::NumberHistory nothing_seen;
  const bool is_static = constants || has_mark(backend, "static") || config_number("dynamic_shapes") == 0;
  const bool automatic = config_number("automatic_dynamic_shapes") != 0;
  const bool exports = has_mark(backend, "exports");  // floats are constants there, as in torch.export
  const bool opens_all = has_mark(backend, "dynamic") || config_number("assume_static_by_default") == 0;
  return {.history = is_static   ? nullptr
                     : automatic ? &cache.numbers
                                 : &nothing_seen,
          .graph_numbers = graph_numbers(backend),
          .all_open = opens_all || config_number("force_open") != 0,
          .ints = config_number("specialize_int") == 0,
          .floats = !exports && config_number("specialize_float") == 0,
          .parameters = config_number("force_parameter_static_shapes") == 0,
          .marks_are_kept = config_number("allow_ignore_mark_dynamic") == 0,
          .scalar_outputs = may && (fullgraph || as_captured || config_number("capture_scalar_outputs") != 0),
          .dynamic_output_shapes = may && (fullgraph || config_number("capture_dynamic_output_shape_ops") != 0),
          .long_lists = fullgraph || config_number("capture_scalar_outputs") != 0,
          .late_items = !as_captured && !fullgraph && config_number("capture_scalar_outputs") == 0,
          .value_checks = cache.takes_unbacked,
          .exports = exports,
          .takes_coo = has_mark(backend, "takes_coo"),
          .is_last = automatic && cache.numbers.has_open() && !has_mark(backend, "has_no_limit") &&
                     cache.entries_made() + 1 >= config_number("recompile_limit")};
}

}  // namespace

Attempt compile_region(PyFunctionObject* function, PyObject* const* locals, Cache& cache, bool fullgraph,
                       bool may_fill) {
  auto* code = reinterpret_cast<PyCodeObject*>(cache.key().code);
  constexpr std::int64_t kWholeProgram = 10;  // fullgraph=True asks for all of it
  trace::Extent extent{.work = kWholeProgram * config_number("region_limit")};
  if (!fullgraph && config_number("continue_after_break") != 0) extent = forced_end(config_number("force_break_at"));
  may_fill = may_fill && !has_mark(cache.key().backend, "exports");
  CaptureCache kept(function, locals, cache, fullgraph);
  if (auto entry = kept.load()) {
    Attempt made;
    made.entry = std::move(entry);
    return made;
  }
  try {
    Attempt made =
        attempt_or_warn(function, cache, fullgraph, extent, [&](const trace::Extent& how_far, bool constants) {
          trace::Outcome outcome =
              trace::capture(function, code, locals, how_far, number_policy(cache, fullgraph, constants));
          if (may_fill && outcome.meets_uninitialized) throw FillsFirst{};
          if (!may_fill || !outcome.capture || outcome.capture->after) return outcome;
          const bool fills = outcome.stopped
                                 ? !fullgraph && finds_no_gradient_before_backward(*outcome.capture, outcome.stop)
                                 : fills_what_it_found_empty(*outcome.capture);
          if (!fills) return outcome;
          cache.numbers.note(outcome.capture->numbers);
          throw FillsFirst{};
        });
    if (made.entry) kept.keep();
    return made;
  } catch (const FillsFirst&) {
    Attempt made;
    made.fills_first = true;
    return made;
  }
}

void observe(PyFunctionObject* function, PyObject* const* locals, Cache& cache) {
  const CompilingScope scope;
  auto* code = reinterpret_cast<PyCodeObject*>(cache.key().code);
  trace::Extent extent = forced_end(0);
  extent.follows_modes = aten::in_function_mode_of_user();
  std::optional<aten::FunctionModesAside> aside;
  if (extent.follows_modes) aside.emplace(aten::FunctionModesAside::State::ShowsThem);
  const trace::Outcome outcome =
      traced(function, [&] { return trace::capture(function, code, locals, extent, number_policy(cache, false)); });
  if (outcome.capture) cache.numbers.note(outcome.capture->numbers);
}

Attempt compile_continuation(const frames::State& state, Cache& cache, Cache& root) {
  PyFunctionObject* const function = state.frames.front().function.get();
  try {
    return attempt_or_warn(
        function, cache, false, forced_end(0, state.frames.size()), [&](const trace::Extent& how_far, bool constants) {
          trace::Outcome outcome = trace::capture(state, how_far, number_policy(cache, false, constants));
          if (!outcome.capture) return outcome;
          root.filled_lists.note_turn(state, *outcome.capture);
          const bool is_rest = !outcome.stopped && !outcome.capture->exit;
          if (is_rest && cache.met_lengths.meets_new(root.filled_lists, *outcome.capture)) throw WaitsForLength{};
          return outcome;
        });
  } catch (const WaitsForLength&) {
    events::record("waits_for_length", place_of(function));
    return {};
  }
}

}  // namespace pellucid::runtime
