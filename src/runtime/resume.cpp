#include "runtime/resume.h"

#include "base/events.h"
#include "frames/replace.h"
#include "py/eval_frame.h"
#include "runtime/compile.h"
#include "runtime/dispatch.h"
#include "runtime/graph_call.h"
#include "runtime/hook.h"

namespace pellucid::runtime {
namespace {

constexpr std::size_t kContinuations = 200;          // a program that breaks at more places gains nothing
constexpr std::size_t kManyContinuations = 1000000;  // unless that is wanted

// The entry for this state: found, or compiled now; null when the interpreter has to go on.
Entry* entry_for(Cache& root, Cache& cache, const frames::State& state, const std::vector<PyObject*>& values) {
  if (Entry* entry = cache.find(values.data(), nullptr)) return entry;
  if (cache.busy || cache.given_up) return nullptr;
  cache.drop_dead();
  Attempt attempt;
  {
    const BusyScope busy(cache);
    cache.given_up = !may_compile(cache, root, state.frames.front().function.get(), values.data(), nullptr);
    if (!cache.given_up) attempt = compile_continuation(state, cache);
  }
  if (attempt.stop) remember_stop(cache, root, attempt, raises(attempt));
  if (raises(attempt)) raise_unsupported(attempt);
  if (!attempt.entry) return nullptr;
  if (!attempt.entry->guards->check(values.data(), nullptr)) return nullptr;  // changed while the backend ran
  return cache.add(std::move(attempt.entry));
}

py::Owned<> finish(Cache& root, frames::State state) {
  const InnerFunctions scope(root, nullptr);
  return py::take(frames::finish(std::move(state)));
}

// The pending exception is one that no second run would meet again (KeyboardInterrupt, Unsupported): raised where the
// region starts, for the program's own handlers.
py::Owned<> finish_raising(Cache& root, frames::State state) {
  const py::PythonError error;
  const InnerFunctions scope(root, nullptr);
  return py::take(frames::finish_raising(std::move(state), error));
}

frames::Outcome step(Cache& root, frames::State state) {
  const InnerFunctions scope(root, nullptr);
  return frames::step(std::move(state));
}

// The program has put in an evaluator of its own (torch.compile's): it would get to see what compiling runs.
bool evaluates_otherwise(py::EvalFrame before) noexcept {
  const py::EvalFrame now = py::eval_frame();
  return now != before && now != py::kDefaultEvalFrame && !hook_is_installed();
}

}  // namespace

py::Owned<> go_on(Cache& root, PyFunctionObject* function, const frames::Shape& exit, py::Owned<> live) {
  frames::State state = frames::unpack(exit, live.get(), function);
  live = {};
  bool at_will = exit.at_will;
  const py::EvalFrame evaluator = py::eval_frame();
  for (;;) {
    if (at_will && !frames::has_rule(state)) {
      frames::rewind(state);
    } else {
      frames::Outcome outcome = step(root, std::move(state));
      if (outcome.finished) return py::take(outcome.result);
      state = std::move(outcome.state);
    }
    if (evaluates_otherwise(evaluator) || py::has_trace_function())  // a debugger sees every line
      return finish(root, std::move(state));
    Cache* cache = root.continuation(state, at_will ? kManyContinuations : kContinuations);
    if (cache == nullptr) return finish(root, std::move(state));
    const auto held = py::Owned<>::share(cache->object);
    const auto values = frames::values_of(state);
    Entry* entry = nullptr;
    try {
      entry = entry_for(root, *cache, state, values);
    } catch (py::PythonError& error) {  // the program's `finally` and `with` blocks run
      error.restore();
      return finish_raising(root, std::move(state));
    }
    if (entry == nullptr) return finish(root, std::move(state));
    const auto region = entry->region.copy();
    const auto next = entry->exit;
    const auto after = entry->after;
    PyObject* const graph = entry->graph_call.get();  // kept alive by the region
    PyObject* result = call_region(region.get(), values.data(), values.size(), after.get());
    if (result == nullptr) {
      if (!may_run_again(graph)) return finish_raising(root, std::move(state));
      return run_again(graph, function, [&] { return finish(root, std::move(state)).release(); });
    }
    if (next == nullptr) return py::Owned<>::steal(result);
    state = frames::unpack(*next, result, function);
    at_will = next->at_will;
    Py_DECREF(result);
  }
}

}  // namespace pellucid::runtime
