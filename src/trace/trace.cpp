#include "trace/trace.h"

#include <algorithm>
#include <mutex>

#include "aten/aten.h"
#include "aten/function_modes.h"
#include "aten/layers.h"
#include "base/break_policy.h"
#include "protocols/deferred.h"
#include "py/interrupts.h"
#include "py/traceback.h"
#include "region/seeds.h"
#include "rows/rows.h"
#include "trace/executor.h"
#include "trace/hand_over.h"
#include "trace/setup.h"

namespace pellucid::trace {
namespace {

BreakInfo describe(const GraphBreak& stop, Executor& executor) {
  BreakInfo info;
  info.reason = stop.reason();
  info.message = stop.message();
  info.hint = hint_of(stop.reason());
  info.thrown_at = text_of(stop.thrown_at());
  info.is_error = break_policy::break_is_error();
  for (Frame* frame = executor.region.top; frame != nullptr; frame = frame->back.get()) {
    if (frame->hidden) continue;
    BreakInfo::FrameInfo place;
    place.code = py::Owned<PyCodeObject>::share(frame->code.get());
    place.offset = frame->at;
    place.line = py::line_of(frame->code.get(), frame->at);
    info.stack.insert(info.stack.begin(), std::move(place));
  }
  if (info.stack.empty()) {  // before its first frame is there: it is about the function as a whole
    const region::Capture& capture = *executor.region.capture;
    const int offset = std::max(capture.starts_at, 0);
    info.stack.push_back(
        {py::Owned<PyCodeObject>::share(capture.code.get()), offset, py::line_of(capture.code.get(), offset)});
  }
  info.exception = executor.exception.copy();
  return info;
}

// The live values of the open frames in one tuple, and where they stand.
py::Owned<> live_values(Executor& executor, const frames::State& state, bool at_will, bool begins_there) {
  auto values = frames::values_of(state);
  values.front() = Py_None;  // the outermost frame's function is whichever is called
  auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i]));
  frames::Shape shape = frames::shape_of(state);
  shape.at_will = at_will;
  shape.begins_there = begins_there;
  region::Seeds seeds(executor.region);
  const auto names = frames::value_names(state);
  for (std::size_t i = 1; i < values.size(); ++i) seeds.add(values[i], names[i]);
  shape.changing = seeds.take();
  executor.region.capture->exit = std::make_shared<const frames::Shape>(std::move(shape));
  return tuple;
}

bool is_at_level(const Executor& executor, const aten::GlobalState& before) {
  return before.has_open_levels() || executor.region.recorder.levels.left > 0;
}

// Whether what the region changed of torch's state is what GlobalState puts back. Leaves the thread as it was before.
bool can_leave(Executor& executor, const aten::GlobalState& before) {
  if (is_at_level(executor, before)) return false;
  if (!before.matches()) before.restore();
  return before.matches() && rows::leave_contexts(executor);
}

bool meets_open_sizes_at_levels(Executor& executor) {
  return !executor.region.recorder.levels.led_by.empty() && executor.region.numbers.space().symbols() > 0;
}

bool meets_uninitialized(const Executor& executor) {
  static auto* const mixin =
      reinterpret_cast<PyTypeObject*>(py::import_attr("torch.nn.parameter", "UninitializedTensorMixin").release());
  return std::ranges::any_of(executor.region.capture->source_of,
                             [](const auto& known) { return PyType_IsSubtype(Py_TYPE(known.first), mixin) != 0; });
}

// Whether torch, or a class around tensors, may have asked for a plain size where it is open.
bool may_need_constants(Executor& executor) {
  return meets_open_sizes_at_levels(executor) || executor.region.recorder.wrappers.has_met_open();
}

bool is_constraint_violation(const py::PythonError& error) {
  static PyObject* const type = py::import_attr("pellucid.errors", "ConstraintViolation").release();
  return PyErr_GivenExceptionMatches(error.value(), type) != 0;
}

template <class Run>
Outcome outcome_of(Executor& executor, const Extent& extent, const std::vector<PyObject*>& taken, Run&& run) {
  Outcome outcome;
  const break_policy::Keeper blocks;
  executor.region.deferred.reorderable = protocols::reorderable_functions();
  const auto before = aten::GlobalState::now();
  const auto finish = [&](py::Owned<> result) {
    const std::int64_t steps = executor.region.steps;
    const int returned_at = executor.region.top->at;
    outcome.capture = executor.finish(std::move(result), taken);
    outcome.capture->instructions = steps;
    outcome.capture->returned_at = returned_at;
  };
  const auto stop_for_constants = [&] {
    const GraphBreak sizes(Reason::FunctionTransform, {{"callee", "a size that stays open"}});
    outcome.capture.reset();
    outcome.stop = describe(sizes, executor);
    outcome.needs_constants = true;
  };
  try {
    if (extent.follows_modes) executor.region.function_modes.follow(aten::function_modes());
    if (aten::in_dispatch_mode()) unsupported(Reason::TorchDispatchMode, {{"mode", "a torch dispatch mode or tracer"}});
    if (aten::is_below_transform()) unsupported(Reason::FunctionTransform, {{"callee", "the program"}});
    auto result = run();
    if (before->has_open_levels()) unsupported(Reason::FunctionTransform, {{"callee", "a level that stays open"}});
    if (extent.may_end_early && !executor.region.cannot_be_built_again) outcome.earlier = before_levels(executor);
    std::unique_ptr<aten::GlobalState> left;
    if (!before->matches()) left = aten::GlobalState::now();
    rows::leave_contexts(executor);
    outcome.meets_uninitialized = meets_uninitialized(executor);
    finish(std::move(result));
    outcome.capture->after = std::move(left);
  } catch (const GraphBreak& stop) {
    outcome.stop = describe(stop, executor);
    // It may be that torch asked a wrapper for a plain size.
    const bool has_failed = stop.reason() == Reason::OpFailed;
    const bool is_refused = has_failed || stop.reason() == Reason::UnsupportedTensor;
    outcome.needs_constants = ((has_failed || !extent.may_end_early) && meets_open_sizes_at_levels(executor) &&
                               is_at_level(executor, *before)) ||
                              (is_refused && executor.region.recorder.wrappers.has_met_open());
    outcome.ends_before = executor.region.ends_before;
    outcome.needs_modes = executor.region.function_modes.are_asked_for;
    outcome.meets_uninitialized = meets_uninitialized(executor);
    executor.region.iterators.undo_unfinished();
    frames::State live;
    std::shared_ptr<const aten::GlobalState> after;
    if (!before->matches()) after = aten::GlobalState::now();
    if (extent.steps >= 0 && executor.region.steps >= extent.steps)
      outcome.stop.is_error = false;  // it ends here at will
    const bool may_end = extent.may_end_early && !outcome.stop.is_error && !executor.region.cannot_be_built_again;
    if (may_end) outcome.earlier = earlier_stops(executor, is_at_level(executor, *before));
    if (may_end && can_leave(executor, *before) && open_frames(executor, live)) {
      outcome.stopped = true;
      std::erase(outcome.earlier, executor.region.steps);  // that is here
      try {
        const bool at_will = extent.at_will && executor.region.steps >= extent.steps;
        const bool begins_there = extent.begins_there && executor.region.steps == extent.steps;
        finish(live_values(executor, live, at_will || stop.reason() == Reason::RegionTooLong, begins_there));
        outcome.capture->after = after;
      } catch (const GraphBreak& other) {  // not so either: `stop` is what counts
        outcome.capture.reset();
        outcome.not_handed_over = other.message();
      }
    }
    outcome.steps = executor.region.steps;
  } catch (const py::Interruption&) {
    throw;
  } catch (const py::PythonError& error) {
    if (is_constraint_violation(error) || !may_need_constants(executor)) throw;
    stop_for_constants();
  } catch (...) {  // torch may fail in C++ where a wrapper is asked for a plain size
    if (!may_need_constants(executor)) throw;
    stop_for_constants();
  }
  before->restore();
  return outcome;
}

}  // namespace

namespace {

// Setting up imports modules, which lets other threads run: they wait here without the GIL, as a static variable's
// guard would not.
void set_up_once(bool& ready, void (*set_up)()) {
  static std::mutex setting_up;
  if (ready) return;
  PyThreadState* thread = PyEval_SaveThread();
  std::unique_lock lock(setting_up);
  PyEval_RestoreThread(thread);
  if (ready) return;
  set_up();
  ready = true;
}

}  // namespace

void initialise_once() {
  static bool ready = false;
  if (ready) return rows::add_numpy_draws();
  set_up_once(ready, initialise);
}

void initialise_types_once() {
  static bool ready = false;
  set_up_once(ready, region::initialise);
}

namespace {

// Captures with the usual hints for what only the graph knows, and again with what turns out to be needed.
template <class Capture>
Outcome with_hints(Capture&& capture_with) {
  constexpr int kMostTries = 6;
  region::UnbackedHints::Setup setup;
  for (int tries = 1;; ++tries) {
    std::optional<region::UnbackedHints::Setup> wished;
    Outcome outcome = capture_with([&](Executor& executor, auto&& run) {
      executor.region.unbacked.hints.setup = setup;
      executor.region.unbacked.hints.may_wish = tries < kMostTries;
      executor.region.unbacked.hints.may_wish_again = tries + 1 < kMostTries;
      Outcome made = run();
      wished = std::move(executor.region.unbacked.hints.wished);
      return made;
    });
    outcome.captures = tries;
    if (!wished) return outcome;
    setup = std::move(*wished);
  }
}

}  // namespace

Outcome capture(PyFunctionObject* function, PyCodeObject* code, PyObject* const* locals, Extent extent,
                const region::NumberPolicy& numbers) {
  initialise_once();  // on first use: importing stays cheap, and pellucid itself is complete by then
  return with_hints([&](auto&& with) {
    Executor executor(function, code, extent);
    executor.region.numbers.policy = numbers;
    executor.region.numbers.scope()->is_traced_again = !numbers.runs_as_captured();
    executor.region.recorder.leaves_before = extent.leaves_before;
    executor.region.recorder.bodies.function_views_before = extent.function_views_before;
    executor.region.inner_hooks.behind = extent.hooks_behind;
    return with(executor,
                [&] { return outcome_of(executor, extent, {}, [&] { return executor.run(function, locals); }); });
  });
}

Outcome capture(const frames::State& state, Extent extent, const region::NumberPolicy& numbers) {
  initialise_once();
  const frames::OpenFrame& outermost = state.frames.front();
  return with_hints([&](auto&& with) {
    Executor executor(outermost.function.get(), outermost.code(), extent);
    executor.region.numbers.policy = numbers;
    executor.region.numbers.scope()->is_traced_again = !numbers.runs_as_captured();
    executor.region.recorder.leaves_before = extent.leaves_before;
    executor.region.recorder.bodies.function_views_before = extent.function_views_before;
    executor.region.inner_hooks.behind = extent.hooks_behind;
    executor.region.capture->arguments = frames::value_names(state);
    executor.region.capture->starts_at = outermost.next;
    return with(executor, [&] {
      return outcome_of(executor, extent, frames::values_of(state), [&] { return executor.run(state); });
    });
  });
}

void initialise() {
  region::initialise();
  rows::initialise();
}

}  // namespace pellucid::trace
