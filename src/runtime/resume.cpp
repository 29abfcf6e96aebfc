#include "runtime/resume.h"

#include "aten/aten.h"
#include "base/events.h"
#include "bytecode/opcodes.h"
#include "frames/replace.h"
#include "py/cpython.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "runtime/compile.h"
#include "runtime/dispatch.h"
#include "runtime/graph_call.h"
#include "runtime/hook.h"
#include "runtime/limits.h"
#include "runtime/stance.h"

namespace pellucid::runtime {
namespace {

constexpr std::size_t kContinuations = 200;          // a program that breaks at more places gains nothing
constexpr std::size_t kManyContinuations = 1000000;  // unless that is wanted

// What looking for an entry behind a break gave. `entry` null: the interpreter goes on.
struct Found {
  Entry* entry = nullptr;
  bool is_refused = false;  // a limit is reached
  Dropped dropped;          // until the region has run: what they take along may run Python code
};

Entry* new_entry(Cache& root, Cache& cache, const frames::State& state, const std::vector<PyObject*>& values,
                 Found& found) {
  if (aten::in_dispatch_mode() || py::has_trace_function()) return nullptr;  // a debugger sees every line
  if (!is_deep_enough(static_cast<int>(state.frames.size()) + kWorthCapturing) || cache.busy || cache.given_up)
    return nullptr;
  if (cache.met_lengths.passes_over()) return nullptr;
  py::InterruptsWait wait;
  cache.drop_dead();
  if (auto entry = adopted(cache, root.continuations_of_others(state), values.data(), nullptr, false)) {
    Entry* taken = cache.add(std::move(entry), false, found.dropped);
    return is_deep_enough(taken->depth) ? taken : nullptr;
  }
  if (!stance_is_plain() && stance_keeps_from(cache)) {
    refuse_by_stance(cache, root, state.frames.front().function.get(), values.data(), nullptr);
    found.is_refused = true;
    return nullptr;
  }
  Attempt attempt;
  {
    const BusyScope busy(cache);
    PyFunctionObject* function = state.frames.front().function.get();
    const Permission given = may_compile(cache, root, function, values.data(), nullptr, false);
    found.is_refused = given.verdict == Verdict::Refused;
    if (!found.is_refused) attempt = compile_continuation(state, cache, root);
    root.backend_failed_unbacked |= cache.backend_failed_unbacked;
    attempt.replaces = given.verdict == Verdict::Replaces;
    given.note_cost(attempt.entry ? attempt.entry->number : -1);
  }
  if (attempt.stop) remember_stop(cache, root, attempt, raises(attempt));
  if (raises(attempt)) raise_unsupported(attempt);
  wait.end();  // before the guards are checked: a handler may have changed what was captured
  if (!attempt.entry) return nullptr;
  if (!attempt.entry->guards->check(values.data(), nullptr)) return nullptr;  // changed while the backend ran
  return cache.add(std::move(attempt.entry), attempt.replaces, found.dropped);
}

void make_real(frames::State& state) {
  frames::put_methods_together(state);
  frames::empty_filled(state);
}

py::Owned<> finish(Cache& root, frames::State state, bool is_refused = false) {
  make_real(state);
  if (is_refused) {  // as a whole: what is called from here would start limits of its own
    const HookPause pause;
    return py::take(frames::finish(std::move(state)));
  }
  const InnerFunctions scope(root, nullptr);
  return py::take(frames::finish(std::move(state)));
}

// The pending exception is one that no second run would meet again (KeyboardInterrupt, Unsupported): raised where the
// region starts, for the program's own handlers.
py::Owned<> finish_raising(Cache& root, frames::State state) {
  const py::PythonError error;
  make_real(state);
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

// What the instruction is about to call; null: it is no call, or one that cannot begin a region. Borrowed.
PyObject* called(const frames::OpenFrame& open) {
  const auto opcode = static_cast<bytecode::Opcode>(open.opcode);
  std::size_t depth = 0;
  if (opcode == bytecode::Opcode::CALL && open.arg < 256 && !open.kwnames)
    depth = static_cast<std::size_t>(open.arg) + 1;
  if (opcode == bytecode::Opcode::CALL_FUNCTION_EX) depth = (open.arg & 1) != 0 ? 3 : 2;
  if (depth == 0 || open.stack.size() < depth) return nullptr;
  const auto from_top = [&](std::size_t at) { return open.stack[open.stack.size() - at].get(); };
  const bool unbound = opcode == bytecode::Opcode::CALL && open.stack.size() > depth && from_top(depth + 1) != nullptr;
  return from_top(unbound ? depth + 1 : depth);
}

// What changes in the region before is open in the first one that is captured here: it need not change once more.
void seed(region::NumberHistory& numbers, const region::NumberHistory& before, const frames::Shape& exit) {
  numbers.seed(before);
  for (const auto& changing : exit.changing) numbers.seed(changing.path, changing.is_float);
}

// Whether the instruction is about to ask a tensor for its number, or for a random one: what it gives is another one at
// the next call, as far as anybody knows.
bool asks_for_any_number(const frames::OpenFrame& open) {
  PyObject* const callable = called(open);
  if (callable == nullptr) return false;
  static PyObject* const item =
      py::take(PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "item")).release();
  static PyObject* const drawing = py::import_attr("random", "__dict__").release();
  static PyObject* const drawn_in_c = py::import_attr("_random", "Random").release();
  if (callable == reinterpret_cast<PyObject*>(&PyFloat_Type) || callable == reinterpret_cast<PyObject*>(&PyLong_Type))
    return open.stack.back() && aten::is_tensor(open.stack.back().get());
  PyObject* const function = PyMethod_Check(callable) != 0 ? PyMethod_GET_FUNCTION(callable) : callable;
  if (PyFunction_Check(function)) return PyFunction_GET_GLOBALS(function) == drawing;
  const py::BoundNative bound = py::bound_native(function);
  PyObject* const native = bound.descriptor == nullptr ? function : bound.descriptor;
  const bool is_method = Py_IS_TYPE(native, &PyMethodDescr_Type);
  return native == item || (is_method && reinterpret_cast<PyObject*>(PyDescr_TYPE(native)) == drawn_in_c);
}

// So the region behind it leaves that number open at once.
void seed_given(region::NumberHistory& numbers, const frames::State& state) {
  const auto& stack = state.frames.back().stack;
  if (stack.empty() || !stack.back()) return;
  const bool is_float = PyFloat_CheckExact(stack.back().get());
  if (!is_float && !PyLong_CheckExact(stack.back().get())) return;
  const auto path = region::hash_of_local(py::interned(frames::name_of_top(state).c_str()).get());
  numbers.note({{path, {.is_float = is_float, .open = true}}});
}

// Where a region has ended at will before the call of a Python function, the next one begins with it: a step would run
// all of it. Whether it is so; the state then stands at the CALL, whose PRECALL matters to the interpreter only.
bool begins_with_call(frames::State& state) {
  frames::OpenFrame& open = state.frames.back();
  PyObject* callable = called(open);
  if (callable == nullptr) return false;
  if (PyMethod_Check(callable) != 0) callable = PyMethod_GET_FUNCTION(callable);
  const bool in_python = PyFunction_Check(callable) != 0 || PyType_HasFeature(Py_TYPE(callable), Py_TPFLAGS_HEAPTYPE);
  if (in_python) open.next = open.at;
  return in_python;
}

}  // namespace

py::Owned<> go_on(Cache& root, PyFunctionObject* function, const frames::Shape& exit, py::Owned<> live) {
  frames::State state = frames::unpack(exit, live.get(), function);
  live = {};
  const frames::Shape* led_here = &exit;
  std::shared_ptr<const frames::Shape> led_here_held;
  py::Owned<> before = py::Owned<>::share(root.object);  // the cache of that region
  bool at_will = exit.at_will, begins_there = exit.begins_there;
  const std::size_t hooks = aten::saved_tensor_hook_count();
  const py::EvalFrame evaluator = py::eval_frame();
  const bool steps = py::steps_through_regions && py::has_trace_function();  // what a step turns on is in its frame
  for (;;) {
    bool gives_any_number = false;
    if (at_will && begins_with_call(state)) {
    } else if (begins_there || (at_will && !frames::has_rule(state))) {
      frames::rewind(state);
    } else {
      gives_any_number = asks_for_any_number(state.frames.back());
      frames::Outcome outcome = step(root, std::move(state));
      if (outcome.finished) return py::take(outcome.result);
      state = std::move(outcome.state);
      if (has_entered_saved_hooks(root, hooks)) return finish(root, std::move(state), true);
    }
    if (evaluates_otherwise(evaluator) || (py::has_trace_function() && !steps))  // a debugger sees every line
      return finish(root, std::move(state));
    frames::take_methods_apart(state);
    Cache* cache = root.continuation(state, at_will ? kManyContinuations : kContinuations);
    if (cache == nullptr) return finish(root, std::move(state));
    const auto held = py::Owned<>::share(cache->object);
    const auto values = frames::values_of(state);
    Found found{cache->find(values.data(), nullptr), false, {}};
    const bool just_checked = found.entry != nullptr;
    try {
      if (!just_checked) {
        seed(cache->numbers, cache_of(before.get())->numbers, *led_here);
        if (gives_any_number) seed_given(cache->numbers, state);
        found.entry = new_entry(root, *cache, state, values, found);
      }
    } catch (py::PythonError& error) {  // the program's `finally` and `with` blocks run
      error.restore();
      return finish_raising(root, std::move(state));
    }
    const Entry* entry = found.entry;
    if (entry == nullptr || (just_checked && !is_deep_enough(entry->depth)))
      return finish(root, std::move(state), found.is_refused);
    const codegen::ReadyInputs inputs = ready_inputs(*entry, just_checked);
    const auto region = entry->region.copy();
    const auto next = entry->exit;
    const StateBehind behind(*entry);
    const bool may_give_up = entry->may_give_up;
    PyObject* const graph = entry->graph_call.get();  // kept alive by the region
    PyObject* result = call_region(region.get(), behind, values.data(), values.size());
    if (result == nullptr) {
      if (!may_run_again(graph)) return finish_raising(root, std::move(state));
      auto again = run_again(graph, [&] { return finish(root, std::move(state)).release(); });
      if (may_give_up) note_rerun_of(*cache, graph, function);
      return again;
    }
    if (next == nullptr) return py::Owned<>::steal(result);
    state = frames::unpack(*next, result, function);
    led_here_held = next, led_here = next.get();
    before = held.copy();
    at_will = next->at_will;
    begins_there = next->begins_there;
    Py_DECREF(result);
  }
}

}  // namespace pellucid::runtime
