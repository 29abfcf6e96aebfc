#include "runtime/hook.h"

#include <bit>

#include "aten/aten.h"
#include "py/cpython.h"
#include "region/compiled_function.h"
#include "rows/rows.h"
#include "runtime/backend_call.h"
#include "runtime/bind.h"
#include "runtime/dispatch.h"
#include "runtime/stance.h"
#include "runtime/thread_state.h"

namespace pellucid::runtime {

std::atomic<int> hook_users{0};

namespace {

// Every Python call recurses in C while a hook is installed; deeper than this it is taken away.
constexpr int kDeepest = 4000;
constexpr int kHighestRecursionLimit = 10000;
constexpr std::size_t kMostInnerCaches = 256;

struct ThreadHook {
  Cache* root = nullptr;                    // null: not compiling inner functions now
  PyFunctionObject* expected = nullptr;     // its next frame is the eager run itself
  py::InterpreterFrame* passing = nullptr;  // handed to the previous hook: if it comes back, the chain is a ring
  int depth = 0;
  std::size_t saved_hooks = 0;  // that were there when the call began to run eagerly
};
thread_local ThreadHook here;

PyObject* evaluate_hooked(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing);

// ---- the chain, under the GIL

py::EvalFrame previous = nullptr;    // what was there when ours was installed
py::EvalFrame covered_by = nullptr;  // who was on top when ours should have been removed

void install() noexcept {
  const py::EvalFrame now = py::eval_frame();
  if (now == evaluate_hooked) return;
  previous = now;
  covered_by = nullptr;
  py::set_eval_frame(evaluate_hooked);
}

// Only if still on top. Otherwise somebody saved ours as their previous one: it passes frames through, and is removed
// when it finds itself on top without users.
void remove() noexcept {
  if (py::eval_frame() != evaluate_hooked) {
    covered_by = py::eval_frame();
    return;
  }
  // The one who covered ours has put it back on leaving; it must not come back through us.
  py::set_eval_frame(previous == covered_by ? py::kDefaultEvalFrame : previous);
  covered_by = nullptr;
}

PyObject* pass(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing) {
  if (previous == nullptr || previous == py::kDefaultEvalFrame || here.passing == frame)
    return py::kDefaultEvalFrame(tstate, frame, throwing);
  py::InterpreterFrame* const before = std::exchange(here.passing, frame);
  PyObject* result = previous(tstate, frame, throwing);
  here.passing = before;
  return result;
}

// ---- which frames

std::vector<std::string> skipped_directories;
Py_ssize_t decision_index = -1;
PyTypeObject* module_type = nullptr;  // torch.nn.Module
PyObject *disabled_name = nullptr, *recursive_name = nullptr, *wrapped_name = nullptr;

// Leave: not compiled, nor what it calls.
enum class Decision : std::intptr_t { Unknown, Skip, Leave, Try };  // kept with the code object

bool is_skipped_file(const std::string& file) {
  if (file.empty() || file.front() == '<') return true;
  for (const std::string& directory : skipped_directories) {
    if (file.compare(0, directory.size(), directory) != 0) continue;
    if (file.find("-packages/", directory.size()) == std::string::npos) return true;
  }
  return false;
}

Decision decide(PyFunctionObject* function, PyCodeObject* code) {
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((code->co_flags & kSuspends) != 0 || (code->co_flags & kFunction) != kFunction) return Decision::Skip;
  if (slot_count(code) == 0 && code->co_nfreevars == 0) return Decision::Skip;
  for (const char* of_modes : {"__torch_dispatch__", "__torch_function__"}) {
    if (PyUnicode_CompareWithASCIIString(code->co_name, of_modes) == 0) return Decision::Leave;
  }
  if (rows::is_tracer(reinterpret_cast<PyObject*>(function))) return Decision::Leave;
  return is_skipped_file(py::text_of(code->co_filename)) ? Decision::Skip : Decision::Try;
}

Decision decision_about(PyFunctionObject* function, PyCodeObject* code) {
  void* kept = nullptr;
  if (_PyCode_GetExtra(reinterpret_cast<PyObject*>(code), decision_index, &kept) < 0) {
    PyErr_Clear();
    return Decision::Skip;
  }
  auto decision = static_cast<Decision>(reinterpret_cast<std::intptr_t>(kept));
  if (decision == Decision::Unknown) {
    decision = decide(function, code);
    if (_PyCode_SetExtra(reinterpret_cast<PyObject*>(code), decision_index, std::bit_cast<void*>(decision)) < 0)
      PyErr_Clear();
  }
  return decision;
}

bool is_tensor_like(PyObject* object) noexcept {
  return aten::is_tensor(object) || PyType_IsSubtype(Py_TYPE(object), module_type) != 0;
}

bool holds_tensor(PyObject* object) noexcept {
  if (is_tensor_like(object)) return true;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    PyObject* const* items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      if (is_tensor_like(items[i])) return true;
    }
  } else if (PyDict_CheckExact(object)) {
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, nullptr, &value) != 0;) {
      if (is_tensor_like(value)) return true;
    }
  }
  return false;
}

// In its arguments. A function without arguments works on what it closes over: the closure of an optimizer.
bool has_tensor(py::InterpreterFrame* frame, PyFunctionObject* function) noexcept {
  PyObject* const* slots = py::arguments_of(frame);
  const std::size_t count = slot_count(py::code_of(frame));
  for (std::size_t i = 0; i < count; ++i) {
    if (slots[i] != nullptr && holds_tensor(slots[i])) return true;
  }
  PyObject* const closure = count == 0 ? function->func_closure : nullptr;
  for (Py_ssize_t i = 0; closure != nullptr && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* value = PyCell_GET(PyTuple_GET_ITEM(closure, i));
    if (value != nullptr && holds_tensor(value)) return true;
  }
  return false;
}

// The mark of pellucid.disable and torch.compiler.disable: neither this nor what it calls is compiled.
bool is_disabled(PyFunctionObject* function) noexcept {
  if (function->func_dict == nullptr) return false;
  const auto mark = [&](PyObject* name) { return py::dict_get_str(function->func_dict, name); };
  return mark(disabled_name) == Py_True && mark(recursive_name) != Py_False &&
         region::disabled_by_import(function) == nullptr;
}

// What a wrapper with recursive=False disables, else null: the frames of both run as they are, what they call does not.
PyFunctionObject* disabled_alone(PyFunctionObject* function) noexcept {
  if (function->func_dict == nullptr) return nullptr;
  const auto mark = [&](PyObject* name) { return py::dict_get_str(function->func_dict, name); };
  if (mark(disabled_name) != Py_True || mark(recursive_name) != Py_False) return nullptr;
  PyObject* wrapped = mark(wrapped_name);
  if (wrapped != nullptr && PyMethod_Check(wrapped)) wrapped = PyMethod_GET_FUNCTION(wrapped);
  return wrapped != nullptr && PyFunction_Check(wrapped) ? reinterpret_cast<PyFunctionObject*>(wrapped) : nullptr;
}

// ---- running one

// The cache of an inner function; kept by the root so that it lives as long as the compiled function that led here.
py::Owned<> inner_cache(Cache& root, PyFunctionObject* function, PyCodeObject* code) {
  const CacheKey key{reinterpret_cast<PyObject*>(code), function->func_globals, root.key().backend, nullptr};
  for (const auto& kept : root.inner) {
    if (cache_of(kept.get())->key() == key) return kept.copy();
  }
  auto cache = cache_for(key);
  if (cache_of(cache.get()) != &root && root.inner.size() < kMostInnerCaches) root.inner.push_back(cache.copy());
  return cache;
}

PyObject* run_inner(PyThreadState* tstate, py::InterpreterFrame* frame, PyFunctionObject* function) {
  return py::enter([&] {
    const auto held = inner_cache(*here.root, function, py::code_of(frame));
    Cache& cache = *cache_of(held.get());
    const std::size_t count = slot_count(py::code_of(frame));
    const Call call{function, py::arguments_of(frame), count, nullptr, tstate, frame};
    if (cache.given_up && cache.entries().empty()) return py::take(call.run_eagerly());
    if (!stance_is_plain() && stance_now().stance == Stance::ForceEager) return run_alone(call);
    BoundArguments bound;
    bound.adopt(call.args, count);
    ++here.root->inner_calls;
    if (const Entry* entry = cache.find(bound.slots(), function->func_closure))
      return py::take(run_region(cache, *entry, call, bound, true));
    return call_missed(cache, call, bound, false);
  });
}

PyObject* evaluate_on_this_thread(PyThreadState* tstate, py::InterpreterFrame* frame) {
  PyFunctionObject* function = py::function_of(frame);
  if (here.expected == function) {
    here.expected = nullptr;
    return pass(tstate, frame, 0);
  }
  if (PyFunctionObject* alone = disabled_alone(function); alone != nullptr) {
    PyFunctionObject* const before = std::exchange(here.expected, alone);
    PyObject* result = pass(tstate, frame, 0);
    here.expected = before;
    return result;
  }
  const Decision decision = decision_about(function, py::code_of(frame));
  if (decision == Decision::Leave || is_disabled(function) || aten::in_mode_of_user()) {
    const HookPause pause;
    return pass(tstate, frame, 0);
  }
  if (decision == Decision::Skip || !has_tensor(frame, function)) return pass(tstate, frame, 0);
  if (has_entered_saved_hooks(*here.root, here.saved_hooks)) {
    const HookPause pause;
    return pass(tstate, frame, 0);
  }
  return run_inner(tstate, frame, function);
}

PyObject* evaluate_deep(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing) {
  const bool ours = py::eval_frame() == evaluate_hooked;
  if (ours) py::set_eval_frame(py::kDefaultEvalFrame);
  PyObject* result = py::kDefaultEvalFrame(tstate, frame, throwing);
  if (ours && hook_users.load() != 0 && py::eval_frame() == py::kDefaultEvalFrame) py::set_eval_frame(evaluate_hooked);
  return result;
}

PyObject* evaluate_hooked(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing) {
  if (hook_users.load(std::memory_order_relaxed) == 0 && py::eval_frame() == evaluate_hooked) remove();
  if (here.depth >= kDeepest) return evaluate_deep(tstate, frame, throwing);
  ++here.depth;
  const bool take = here.root != nullptr && here.passing != frame && throwing == 0 && !compiling_here() &&
                    !py::is_traced(tstate) && py::is_starting(frame);
  PyObject* result = take ? evaluate_on_this_thread(tstate, frame) : pass(tstate, frame, throwing);
  --here.depth;
  return result;
}

}  // namespace

InnerFunctions::InnerFunctions(Cache& root, PyFunctionObject* outer) noexcept
    : root_before_(here.root), expected_before_(here.expected), hooks_before_(here.saved_hooks) {
  if (!root.worth_hooking() || Py_GetRecursionLimit() > kHighestRecursionLimit) return;
  installed_ = true;
  ++root.hooked_runs;
  here.root = &root;
  here.expected = outer;
  here.saved_hooks = aten::saved_tensor_hook_count();
  hook_users.fetch_add(1);
  install();
}

InnerFunctions::~InnerFunctions() {
  if (!installed_) return;
  here.root = root_before_;
  here.expected = expected_before_;
  here.saved_hooks = hooks_before_;
  if (hook_users.fetch_sub(1) == 1) remove();
}

bool has_entered_saved_hooks(const Cache& root, std::size_t before) noexcept {
  if (aten::saved_tensor_hook_count() <= before || graph_numbers(root.key().backend) == region::GraphNumbers::All)
    return false;
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  PyObject *const hook = aten::pack_hook(), *module = nullptr;
  if (hook != nullptr && _PyObject_LookupAttr(hook, name, &module) < 0) PyErr_Clear();
  const auto held = py::Owned<>::steal(module);
  const bool is_text = held && PyUnicode_Check(held.get()) != 0;
  return !is_text || !py::text_of(held.get()).starts_with("torch.");
}

void HookPause::pause() noexcept { paused_ = std::exchange(here.root, nullptr); }
void HookPause::resume() noexcept { here.root = paused_; }

PyObject* evaluate_as_before(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing) {
  return pass(tstate, frame, throwing);
}

void set_skipped_directories(std::vector<std::string> directories) { skipped_directories = std::move(directories); }

bool hook_is_installed() noexcept { return py::eval_frame() == evaluate_hooked; }

void initialise_hook() {
  decision_index = _PyEval_RequestCodeExtraIndex(nullptr);
  module_type = reinterpret_cast<PyTypeObject*>(py::import_attr("torch.nn", "Module").release());
  disabled_name = py::interned("_torchdynamo_disable").release();
  recursive_name = py::interned("_torchdynamo_disable_recursive").release();
  wrapped_name = py::interned("__wrapped__").release();
}

}  // namespace pellucid::runtime
