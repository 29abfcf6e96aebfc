#include "runtime/backend_call.h"

#include <algorithm>
#include <unordered_map>

#include "aten/aten.h"
#include "backend/fx.h"
#include "base/events.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "region/known_elements.h"
#include "region/profile.h"
#include "runtime/compile.h"
#include "runtime/listener.h"
#include "runtime/restarts.h"
#include "runtime/told_work.h"

namespace pellucid::runtime {

using events::Counter;

py::Owned<> stack_of(const trace::BreakInfo& stop) {
  auto stack = py::take(PyList_New(0));
  for (const auto& frame : stop.stack) {
    auto item = py::take(Py_BuildValue("(Oi)", frame.code.object(), frame.offset));
    py::check(PyList_Append(stack.get(), item.get()));
  }
  return stack;
}

namespace {

// The real tensors that capture met, in placeholder order.
py::Owned<> example_inputs(const region::Capture& capture) {
  auto inputs = py::take(PyList_New(0));
  for (const graph::Node* node : capture.graph.placeholders()) {
    const auto met = capture.input_of.find(node);
    py::check(PyList_Append(inputs.get(), met == capture.input_of.end() ? Py_None : met->second));
  }
  return inputs;
}

// Backend "eager" without options: nobody sees the graph, so no torch.fx graph is made, which is cyclic by
// construction.
bool runs_as_captured(PyObject* backend) { return !graphs_are_changed && has_mark(backend, "runs_as_captured"); }

// The memory of a node's value, if that is a tensor with one.
const void* memory_of(const graph::Node& node) {
  PyObject* const value = node.example_value.get();
  return value != nullptr && aten::is_tensor(value) ? aten::meta_of(value).storage : nullptr;
}

bool is_view(const graph::Node& node) {
  const void* const memory = memory_of(node);
  if (memory == nullptr || node.impure || node.random) return false;
  bool found = false;
  graph::for_each_input(node, [&](const graph::Node* input) { found |= memory_of(*input) == memory; });
  return found;
}

// A part of a program with graph breaks that gives other views of tensors and computes nothing: a compiled form of it
// costs more than its operators, and has nothing to gain.
bool only_makes_views(const region::Capture& capture, const trace::BreakInfo* stop) {
  const bool is_part = stop != nullptr || capture.starts_at >= 0;
  return is_part && std::ranges::all_of(capture.graph.nodes(), [](const graph::Node* node) { return is_view(*node); });
}

// (reason, stack, whether it is a graph break): why the region ends where it does. `stop`: before the program does.
py::Owned<> ending_of(const region::Capture& capture, const trace::BreakInfo* stop) {
  if (stop == nullptr)
    return py::take(Py_BuildValue("(s[(Oi)]O)", "return_value", capture.code.object(), capture.returned_at, Py_False));
  return py::take(Py_BuildValue("(sOO)", stop->message.c_str(), stack_of(*stop).get(), Py_True));
}

// What a backend may say of a graph without having failed: why the call is not compiled then.
[[noreturn]] void throw_refusal(PyFunctionObject* function, const py::PythonError& error, PyObject* backend) {
  const auto is_a = [&](const char* name) {
    return PyObject_IsInstance(error.value(), py::import_attr("pellucid.backends.errors", name).get()) == 1;
  };
  const auto text = [](PyObject* object) { return py::text_of(py::take(PyObject_Str(object)).get()); };
  if (is_a("GraphRefused")) throw GraphBreak(Reason::UntracedCallable, {{"callee", text(error.value())}});
  const auto name = [&] { return text(py::take(PyObject_GetAttrString(backend, "name")).get()); };
  if (is_a("BackendRefused")) {
    const auto report = py::import_attr("pellucid._logging", "_report_refusal");
    (void)py::take(PyObject_CallFunctionObjArgs(report.get(), function, error.value(), nullptr));
    throw GraphBreak(Reason::BackendRefused, {{"backend", name()}, {"error", text(error.value())}});
  }
  if (is_a("BackendSkips")) throw GraphBreak(Reason::BackendSkips, {{"backend", name()}});
  throw error;
}

// (symbols, conditions, number of the symbol that each placeholder is, else None); None: all ints are constants.
py::Owned<> open_numbers_of(const region::Capture& capture) {
  if (capture.open.is_empty()) return py::Owned<>::share(Py_None);
  auto described = capture.open.described();
  std::unordered_map<int, std::uint32_t> symbol_at;  // by the id of its source
  for (const region::OpenNumbers::Symbol& symbol : capture.open.symbols) {
    if (symbol.source != nullptr && symbol.expr->type == symbolic::Type::Int)
      symbol_at.emplace(symbol.source->id, symbol.expr->operation.symbol);
  }
  auto inputs = py::take(PyList_New(0));
  for (const graph::Node* node : capture.graph.placeholders()) {
    const auto found = symbol_at.find(node->source_id);
    const auto number =
        found == symbol_at.end() ? py::Owned<>::share(Py_None) : py::take(PyLong_FromUnsignedLong(found->second));
    py::check(PyList_Append(inputs.get(), number.get()));
  }
  return py::take(
      PyTuple_Pack(3, PyTuple_GET_ITEM(described.get(), 0), PyTuple_GET_ITEM(described.get(), 1), inputs.get()));
}

// What the backend relies on becomes part of the entry's guards. A number that it leaves one value is a constant at
// once in the next capture.
void take_conditions(region::Capture& capture, PyObject* conditions) {
  for (const region::OpenNumbers::Symbol* fixed : capture.open.require(conditions)) {
    if (fixed->must_stay_open) {
      const guards::Condition& asked = *capture.open.of_backend;
      guards::Why why;
      why.code = py::Owned<PyCodeObject>::share(capture.code.get());
      why.offset = 0;
      why.operation = "the backend compiles it";
      region::throw_constraint_violation(fixed->source, fixed->expr, asked.text_of(asked.names), why);
    }
    for (auto& [path, seen] : capture.numbers) seen.pinned |= path == fixed->path;
  }
}

void take_as_constants(PyFunctionObject* function, const region::Capture& capture, Cache& cache,
                       const py::PythonError& error) {
  if (capture.has_unbacked) {
    cache.takes_unbacked = false;
    cache.backend_failed_unbacked = true;
  }
  auto numbers = capture.numbers;
  for (auto& [path, seen] : numbers) {
    if (capture.has_unbacked) break;
    const auto is_of_it = [&path = path](const auto& symbol) { return symbol.path == path; };
    seen.pinned |= std::ranges::any_of(capture.open.symbols, is_of_it);
  }
  cache.numbers.note(numbers);
  events::record("constants_instead", place_of(function) + ": " + py::repr_of(error.value()));
  const auto report = py::import_attr("pellucid._logging", "_report_constants_instead");
  (void)py::take(PyObject_CallFunctionObjArgs(report.get(), function, error.value(), nullptr));
}

bool is_of_backend(const py::PythonError& error) {
  const auto is_a = [&](const char* module, const char* name) {
    return PyObject_IsInstance(error.value(), py::import_attr(module, name).get()) == 1;
  };
  return is_a("pellucid.errors", "BackendCompilerFailed") || is_a("pellucid.backends.errors", "BackendRefused");
}

// Whether the backend raised, with numbers that the program does not ask to stay open.
bool may_take_as_constants(const region::Capture& capture, const py::PythonError& error) {
  const auto must = [](const auto& symbol) { return symbol.must_stay_open; };
  if (capture.open.is_empty() || std::ranges::any_of(capture.open.symbols, must)) return false;
  return is_of_backend(error);
}

struct HandedOver {
  py::Owned<> forward;  // the graph as it was captured
  py::Owned<> made;     // (compiled form, conditions of the backend); None: it has to be called once more
  double took = 0.0;    // to make the graph, in ms
};

HandedOver hand_over(region::Capture& capture, const Cache& cache, std::pair<int, int> compile_id, PyObject* ending,
                     const std::string& name) {
  const std::int64_t start = events::now();
  const auto module = [&] {
    const region::ProfiledPhase phase("graph_module");
    return backend::graph_module(capture);
  }();
  auto forward = py::take(PyObject_GetAttrString(module.get(), "forward"));
  const double took = events::milliseconds_since(start);
  const auto inputs = example_inputs(capture);
  const auto call = py::import_attr("pellucid._fx", "call_backend");
  const auto open = open_numbers_of(capture);
  const std::int64_t handed_over = events::now();
  const region::ProfiledPhase phase("backend");
  const auto work = told_work([&] {
    const auto backend = py::take(PyObject_GetAttrString(cache.key().backend, "name"));
    return "backend " + py::text_of(backend.get()) + ", " + name;
  });
  auto made = py::Owned<>::steal(PyObject_CallFunction(call.get(), "OOO(ii)OOs", module.get(), inputs.get(),
                                                       cache.key().backend, compile_id.first, compile_id.second, ending,
                                                       open.get(), name.c_str()));
  events::time("graph_module", took);
  events::time("backend", events::milliseconds_since(handed_over));
  if (!made) throw py::PythonError();
  return {std::move(forward), std::move(made), took};
}

}  // namespace

Compiled call_backend(PyFunctionObject* function, region::Capture& capture, Cache& cache, const trace::BreakInfo* stop,
                      const std::string& name) {
  const py::RoomToRecurse room;
  const std::int64_t start = events::now();
  const auto [frame, compilation] = cache.compile_id();
  const bool has_views_alone = only_makes_views(capture, stop);
  if (has_views_alone || runs_as_captured(cache.key().backend)) {
    const region::ProfiledPhase phase("graph_module");
    auto forward = backend::native_forward(capture.graph);
    if (!has_views_alone) events::count(Counter::Graphs);
    const double took = events::milliseconds_since(start);
    events::record("backend", "", {{"hand_off_ms", took}, {"backend_ms", 0.0}});
    events::time("graph_module", took);
    return {std::move(forward), {}};
  }
  const auto ending = ending_of(capture, stop);
  HandedOver handed;
  try {
    handed = hand_over(capture, cache, {frame, compilation}, ending.get(), name);
    // The backend loaded AOTAutograd, which looks around a graph for what no other backend needs.
    while (handed.made.get() == Py_None) handed = hand_over(capture, cache, {frame, compilation}, ending.get(), name);
  } catch (const py::Interruption&) {
    throw;
  } catch (const py::PythonError& error) {
    if (region::has_gone_by_elements(capture) && is_of_backend(error)) {
      region::stop_going_by_elements(capture);
      cache.numbers.note(capture.numbers);
      throw NotForElements{};
    }
    if (!may_take_as_constants(capture, error)) throw_refusal(function, error, cache.key().backend);
    take_as_constants(function, capture, cache, error);
    throw NotForOpenNumbers{capture.has_unbacked};
  }
  auto& [forward, made, hand_off] = handed;
  auto compiled = py::Owned<>::share(PyTuple_GET_ITEM(made.get(), 0));
  if (capture.open.of_backend) take_conditions(capture, PyTuple_GET_ITEM(made.get(), 1));
  events::count(Counter::Graphs);
  events::record("backend", "",
                 {{"hand_off_ms", hand_off}, {"backend_ms", events::milliseconds_since(start) - hand_off}});
  if (compiled.get() == forward.get()) forward = {};
  return {std::move(compiled), std::move(forward)};
}

region::GraphNumbers graph_numbers(PyObject* backend) {
  if (has_mark(backend, "takes_numbers")) return region::GraphNumbers::All;
  return has_mark(backend, "takes_symbols") ? region::GraphNumbers::Ints : region::GraphNumbers::None;
}

}  // namespace pellucid::runtime
