#include "runtime/graph_call.h"

#include <frameobject.h>
#include <structmember.h>

#include <optional>
#include <utility>

#include "base/events.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "region/wrapper_subclasses.h"
#include "runtime/compile.h"
#include "runtime/draws.h"

namespace pellucid::runtime {
namespace {

struct GraphCall {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* compiled;
  PyObject* function;         // of the program, for reports
  aten::GlobalState* before;  // owned
  GraphFacts* facts;          // owned
  PyTypeObject* failure;      // what `compiled` raised at its last calls, one after the other; compared only
  int failures;
  int reruns;  // since it last gave a result
  bool reported;
};

PyTypeObject* graph_call_type = nullptr;
thread_local bool interrupted = false;    // by an error that is not the graph's
thread_local PyObject* failed = nullptr;  // raised and left no trace; compared only, never followed

GraphCall* cast(PyObject* object) noexcept { return reinterpret_cast<GraphCall*>(object); }

// A tensor around tensors has no memory but that of its parts.
void save_tensor(aten::Checkpoint& checkpoint, PyObject* tensor, aten::Keep keep) {
  const bool wraps = region::is_wrapper_subclass(tensor);
  checkpoint.save(tensor, wraps ? aten::Keep::State : keep);
  if (wraps) region::each_part(tensor, [&](PyObject* part) { save_tensor(checkpoint, part, keep); });
}

void save(aten::Checkpoint& checkpoint, const UndoPlan& plan, PyObject* const* args, std::size_t count) {
  for (const UndoPlan::Input& input : plan.inputs) {
    if (input.position < count) save_tensor(checkpoint, args[input.position], input.keep);
  }
  for (const UndoPlan::Attribute& attribute : plan.attributes)
    save_tensor(checkpoint, attribute.tensor.get(), attribute.keep);
  for (std::size_t i = 0; plan.writes() && i < count; ++i) {
    if (aten::is_tensor(args[i])) checkpoint.save_if_view(args[i]);  // else a number
  }
  if (plan.generators) checkpoint.save_generators(plan.cuda);
  events::count(events::Counter::KeptBytes, checkpoint.bytes());
}

constexpr char kGraphFile[] = "<pellucid graph>";

PyObject* dumped_graphs = nullptr;  // a set of file names, or null: graphs that pellucid.debug runs from there

bool is_graph_file(PyObject* file) noexcept {
  if (PyUnicode_CompareWithASCIIString(file, kGraphFile) == 0) return true;
  if (dumped_graphs == nullptr) return false;
  const int found = PySet_Contains(dumped_graphs, file);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

using Traceback = PyTracebackObject;

Traceback* traceback_of(PyObject* error) noexcept {  // borrowed from the error
  PyObject* traceback = reinterpret_cast<PyBaseExceptionObject*>(error)->traceback;
  return traceback != nullptr && PyTraceBack_Check(traceback) ? reinterpret_cast<Traceback*>(traceback) : nullptr;
}

PyObject* file_of(const Traceback& entry) noexcept {
  const auto code = py::Owned<PyCodeObject>::steal(PyFrame_GetCode(entry.tb_frame));
  return code->co_filename;  // of a code object that the frame holds
}

// Users know nothing of the function that runs the graph.
void hide_graph_frames(PyObject* error) {
  const Traceback* first = traceback_of(error);
  while (first != nullptr && is_graph_file(file_of(*first))) first = first->tb_next;
  auto shown =
      py::Owned<>::share(first == nullptr ? Py_None : reinterpret_cast<PyObject*>(const_cast<Traceback*>(first)));
  PyException_SetTraceback(error, shown.get());
}

// numpy's own functions, and what stands in graphs for those and for operators with bodies.
bool is_called_by_graphs(const std::string& file) {
  static const std::string* const numpy = new std::string(region::directory_of("numpy"));
  static const std::string* const own = new std::string(region::directory_of("pellucid"));
  const auto is_below = [&](const std::string& directory) { return !directory.empty() && file.starts_with(directory); };
  return is_below(*numpy) || is_below(*own);
}

// Whether an error came from code that is no part of the graph. Of an opaque one nobody knows what is.
bool is_of_others(PyObject* error) {
  const std::string& torch = region::torch_directory();
  for (const Traceback* at = traceback_of(error); at != nullptr; at = at->tb_next) {
    if (is_graph_file(file_of(*at))) continue;
    const std::string file = py::text_of(file_of(*at));
    if (file.starts_with(torch + "_library/")) return false;  // what it calls is an operator of the graph
    if (!file.starts_with(torch) && !file.starts_with('<') && !is_called_by_graphs(file)) return true;
  }
  return false;
}

// Whether a hook of the program's raised it, such as the one of torch.utils.checkpoint that has seen enough. A second
// run would call the hook once more.
bool came_from_pack_hook(PyObject* error) {
  PyObject* hook = aten::pack_hook();
  if (hook != nullptr && PyMethod_Check(hook) != 0) hook = PyMethod_GET_FUNCTION(hook);
  if (hook == nullptr || PyFunction_Check(hook) == 0) return false;
  for (const Traceback* at = traceback_of(error); at != nullptr; at = at->tb_next) {
    const auto code = py::Owned<PyCodeObject>::steal(PyFrame_GetCode(at->tb_frame));
    if (code.object() == PyFunction_GET_CODE(hook)) return true;
  }
  return false;
}

// What a backend tells of its graph to whoever called the compiled function: no error that the program would meet.
bool is_report(PyObject* error) {
  return PyObject_IsInstance(error, py::import_attr("pellucid.errors", "GraphFailed").get()) == 1;
}

// Code that raises makes an object, or says what happened; only what another thread sends is a class alone.
bool is_sent_by_a_thread() noexcept { return _PyThreadState_UncheckedGet()->curexc_value == nullptr; }

// Whether the call may run again. With the error of the graph pending, before and after; an error of ours takes its
// place.
bool took_back(aten::Checkpoint* checkpoint, const aten::GlobalState& before, bool is_opaque) {
  interrupted = is_sent_by_a_thread();
  py::PythonError error;
  interrupted = interrupted || py::interruption_in(error.value()) != nullptr;
  hide_graph_frames(error.value());
  interrupted = interrupted || (!is_opaque && is_of_others(error.value()));
  before.restore();
  const bool is_hooks = came_from_pack_hook(error.value());  // what happened before it, has happened in eager too
  const bool complete = !is_hooks && (checkpoint == nullptr || checkpoint->restore());
  const bool may_run_again = complete && !is_report(error.value());
  error.restore();
  return may_run_again;
}

struct Arguments {
  PyObject* const* values;
  std::size_t nargsf;
  PyObject* kwnames;
};

// A new reference; or null with the error pending, and `failed` says whether everything is as before.
py::Owned<> run(PyObject* object, const py::Owned<>& graph, const Arguments& args) {
  GraphCall* self = cast(object);
  std::optional<aten::Checkpoint> checkpoint;
  if (!self->facts->undo.is_empty()) {
    save(checkpoint.emplace(), self->facts->undo, args.values,
         static_cast<std::size_t>(PyVectorcall_NARGS(args.nargsf)));
  }
  auto result = py::Owned<>::steal(PyObject_Vectorcall(graph.get(), args.values, args.nargsf, args.kwnames));
  if (result) return result;
  const bool is_opaque = static_cast<bool>(self->facts->as_captured);
  const bool complete = took_back(checkpoint ? &*checkpoint : nullptr, *self->before, is_opaque);
  failed = complete ? object : nullptr;
  return result;
}

// The compiled graph has raised what the captured one does not. Once it has done so too often, it is not called again.
void note_failure(GraphCall* self, const py::PythonError& error) {
  const bool again = std::exchange(self->failure, Py_TYPE(error.value())) == Py_TYPE(error.value());
  self->failures = again ? self->failures + 1 : 1;
  const std::int64_t limit = config_number("graph_failure_limit");
  if (!std::exchange(self->reported, true)) {
    auto report = py::import_attr("pellucid._logging", "_report_graph_failure");
    (void)py::take(
        PyObject_CallFunction(report.get(), "OOL", self->function, error.value(), static_cast<long long>(limit)));
  }
  if (limit == 0 || self->failures < limit || !self->facts->as_captured) return;
  events::record("graph_given_up", Py_TYPE(error.value())->tp_name);
  const auto dropped = py::Owned<>::steal(std::exchange(self->compiled, self->facts->as_captured.release()));
}

// With the error of the compiled graph pending and everything taken back: the graph as it was captured tells whether
// the error is the program's own.
py::Owned<> run_as_captured(PyObject* object, const Arguments& args) {
  GraphCall* self = cast(object);
  const py::PythonError error;
  failed = nullptr;
  auto result = run(object, self->facts->as_captured.copy(), args);
  if (result) note_failure(self, error);
  return result;
}

// With the error of the graph pending, before and after: it will draw again what it was given.
void put_draws_back(PyObject* object, KeptDraws* kept) {
  if (failed != object) return;
  if (kept == nullptr) {
    failed = nullptr;
    return;
  }
  py::PythonError error;
  kept->put_back();
  failed = object;
  error.restore();
}

// False: with an error pending.
bool may_compute_arrays() {
  static PyObject* const check = py::import_attr("pellucid._numpy", "check_errors").release();
  return static_cast<bool>(py::Owned<>::steal(PyObject_CallNoArgs(check)));
}

PyObject* call(PyObject* object, PyObject* const* values, std::size_t nargsf, PyObject* kwnames) {
  GraphCall* self = cast(object);
  const Arguments args{values, nargsf, kwnames};
  return py::enter([&]() -> py::Owned<> {
    PyObject* const drawer = self->facts->drawer.get();
    const auto draws = drawer == nullptr ? nullptr : take_kept(drawer);
    if (self->facts->computes_arrays && !may_compute_arrays()) {  // torch would not raise
      failed = object;
      interrupted = false;
      if (drawer != nullptr) put_draws_back(object, draws.get());
      py::throw_pending();
    }
    const auto graph = py::Owned<>::share(self->compiled);  // another thread may give it up
    auto result = run(object, graph, args);
    if (result) self->failures = self->reruns = 0;
    const bool is_undone = !result && failed == object && !interrupted && PyErr_ExceptionMatches(PyExc_Exception) != 0;
    if (is_undone && self->facts->as_captured) result = run_as_captured(object, args);
    if (!result && drawer != nullptr) put_draws_back(object, draws.get());
    if (!result) py::throw_pending();
    return result;
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(cast(object)->compiled);
  Py_VISIT(cast(object)->function);
  if (cast(object)->facts == nullptr) return 0;
  Py_VISIT(cast(object)->facts->as_captured.get());
  Py_VISIT(cast(object)->facts->drawer.get());
  for (const UndoPlan::Attribute& attribute : cast(object)->facts->undo.attributes) Py_VISIT(attribute.tensor.get());
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  Py_CLEAR(cast(object)->compiled);
  Py_CLEAR(cast(object)->function);
  const std::unique_ptr<aten::GlobalState> before(cast(object)->before);
  const std::unique_ptr<GraphFacts> facts(cast(object)->facts);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  const auto held_type = py::Owned<PyTypeObject>::steal(type);
}

PyObject* repr(PyObject* object) { return PyUnicode_FromFormat("<graph compiled to %R>", cast(object)->compiled); }

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphCall, vectorcall), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(GraphCall, compiled), READONLY, nullptr},
    {},
};

}  // namespace

py::Owned<> make_graph_call(PyFunctionObject* function, PyObject* compiled, GraphFacts facts,
                            std::unique_ptr<aten::GlobalState> before) {
  auto object = py::take(PyType_GenericAlloc(graph_call_type, 0));
  GraphCall* self = cast(object.get());
  self->vectorcall = call;
  self->compiled = Py_NewRef(compiled);
  self->function = Py_NewRef(reinterpret_cast<PyObject*>(function));
  self->before = before.release();
  self->facts = new GraphFacts(std::move(facts));
  return object;
}

bool may_run_again(PyObject* graph_call) noexcept {
  if (graph_call == nullptr || std::exchange(failed, nullptr) != graph_call) return false;
  return PyErr_ExceptionMatches(PyExc_Exception) != 0;
}

void step_through_regions(PyObject* files) {
  py::steps_through_regions = files != nullptr;
  const auto old = py::Owned<>::steal(std::exchange(dumped_graphs, files == nullptr ? nullptr : Py_NewRef(files)));
}

bool was_interrupted() noexcept { return interrupted; }

int note_rerun(PyObject* graph_call) noexcept { return ++cast(graph_call)->reruns; }

// No tp_clear: the cycles it can be in go through the dict of the region's globals.
void initialise_graph_call_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_repr, reinterpret_cast<void*>(repr)},
      {Py_tp_members, kMembers},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.GraphCall", sizeof(GraphCall), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  graph_call_type =
      reinterpret_cast<PyTypeObject*>(py::take(PyType_FromModuleAndSpec(module, &spec, nullptr)).release());
}

}  // namespace pellucid::runtime
