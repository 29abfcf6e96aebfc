#include "runtime/listener.h"

#include <exception>
#include <utility>

#include "backend/fx.h"
#include "codegen/emit.h"
#include "region/instruction_listener.h"
#include "runtime/report.h"

namespace pellucid::runtime {
namespace {

// The cache of logging.Logger.isEnabledFor of one logger: logging empties it whenever any level changes.
PyObject* levels = nullptr;
PyObject* ask_levels = nullptr;

constexpr const char* kReading = "pellucid.reading";

// The sources of inputs that the graph would have had if anything used them.
py::Owned<> unused_inputs(const region::Capture& capture) {
  auto rows = py::take(PyList_New(0));
  for (const source::Source* input : capture.unused_inputs)
    py::check(PyList_Append(rows.get(), py::str(source::print(input)).get()));
  return rows;
}

// (comments, texts of the lines, code, objects that the text names)
py::Owned<> listing_of(const region::Capture& capture, const std::string& name) {
  const codegen::Listing listing = codegen::listing(capture, name);
  auto lines = py::take(PyList_New(0));
  for (const std::string& line : listing.lines) py::check(PyList_Append(lines.get(), py::str(line).get()));
  return py::take(
      PyTuple_Pack(4, py::str(listing.notes).get(), lines.get(), listing.code.get(), listing.globals.get()));
}

py::Owned<> read(const Reading::Target& of, std::string_view stage) {
  const region::Capture& capture = *of.capture;
  if (stage == "graph") return py::str(graph::print(capture.graph));
  if (stage == "graph_module") return backend::graph_module(capture);
  if (stage == "guards") return guard_rows(*of.entry->guards);
  if (stage == "guard_lines") return guard_lines(*of.entry->guards);
  if (stage == "effects") return effect_rows(capture);
  if (stage == "emitted") return py::str(codegen::describe(capture, of.name));
  if (stage == "listing") return listing_of(capture, of.name);
  if (stage == "unused") return unused_inputs(capture);
  if (stage == "end") return where_it_ends(capture);
  if (stage == "open") return capture.open.is_empty() ? py::take(Py_BuildValue("([][])")) : capture.open.described();
  PyErr_Format(PyExc_ValueError, "there is no stage %.50s", std::string(stage).c_str());
  throw py::PythonError();
}

PyObject* read_stage(PyObject* self, PyObject* stage) {
  return py::enter([&] {
    const auto* of = static_cast<const Reading::Target*>(PyCapsule_GetPointer(self, kReading));
    if (of == nullptr) py::throw_pending();
    if (of->capture == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "it was not read while the event was told, and is gone");
      throw py::PythonError();
    }
    return read(*of, py::text_of(stage));
  });
}

void free_target(PyObject* capsule) noexcept {
  delete static_cast<Reading::Target*>(PyCapsule_GetPointer(capsule, kReading));
}

PyMethodDef kRead = {"read", read_stage, METH_O, "A stage of the region, while the event is told."};

PyObject* set_of(PyObject*& place, PyObject* value) {
  PyObject* const before = std::exchange(place, value == Py_None ? nullptr : Py_NewRef(value));
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyObject* set_listener(PyObject*, PyObject* function) { return set_of(listener, function); }

PyObject* set_graphs_are_changed(PyObject*, PyObject* whether) {
  const int truth = PyObject_IsTrue(whether);
  if (truth < 0) return nullptr;
  graphs_are_changed = truth != 0;
  Py_RETURN_NONE;
}

PyObject* set_instruction_readers(PyObject*, PyObject* arguments) {
  PyObject *type = nullptr, *readers = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!", &PyType_Type, &type, &PyTuple_Type, &readers) == 0) return nullptr;
  if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), region::instruction_event_type()) == 0) {
    PyErr_SetString(PyExc_TypeError, "it must be a subclass of InstructionEvent");
    return nullptr;
  }
  const bool anybody = PyTuple_GET_SIZE(readers) != 0;
  region::set_instruction_readers(anybody ? type : nullptr, anybody ? readers : nullptr);
  Py_RETURN_NONE;
}

PyObject* set_log_levels(PyObject*, PyObject* arguments) {
  PyObject *cache = nullptr, *ask = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O", &PyDict_Type, &cache, &ask) == 0) return nullptr;
  Py_XDECREF(std::exchange(levels, Py_NewRef(cache)));
  return set_of(ask_levels, ask);
}

// sys.unraisablehook wants arguments of a type that only C code can make.
PyObject* report_unraisable(PyObject*, PyObject* arguments) {
  PyObject *error = nullptr, *raised_by = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &error, &raised_by) == 0) return nullptr;
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(error))), Py_NewRef(error),
                PyException_GetTraceback(error));
  PyErr_WriteUnraisable(raised_by);
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"report_unraisable", report_unraisable, METH_VARARGS,
     "Tells sys.unraisablehook of an exception and who raised it."},
    {"set_listener", set_listener, METH_O, "Who is told of events: a function of a kind and a dict, or None."},
    {"set_graphs_are_changed", set_graphs_are_changed, METH_O,
     "Whether a torch.fx graph is made of each graph, also for backends that look at none."},
    {"set_instruction_readers", set_instruction_readers, METH_VARARGS,
     "A subclass of InstructionEvent, and the functions that are called with one before each instruction is captured."},
    {"set_log_levels", set_log_levels, METH_VARARGS,
     "A dict, and the function that is called when it is empty at the start of a compile."},
    {},
};

}  // namespace

void tell(const char* kind, const py::Owned<>& fields) noexcept {
  if (listener == nullptr) return;
  try {
    const auto held = py::Owned<>::share(listener);
    const auto done = py::take(PyObject_CallFunction(held.get(), "sO", kind, fields.get()));
  } catch (const py::PythonError& error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.value())), error.value());
    PyErr_WriteUnraisable(listener);
  }
}

void follow_log_levels() {
  if (levels == nullptr || ask_levels == nullptr || PyDict_GET_SIZE(levels) != 0) return;
  const auto done = py::take(PyObject_CallNoArgs(ask_levels));
}

Reading::Reading(const region::Capture& capture, const Entry& entry, std::string name)
    : target_(new Target{&capture, &entry, std::move(name)}) {
  const auto capsule = py::take(PyCapsule_New(target_, kReading, free_target));
  function_ = py::take(PyCFunction_New(&kRead, capsule.get()));
}

Reading::~Reading() { target_->capture = nullptr; }

ToldCompile::ToldCompile(PyFunctionObject* function, const Cache& cache, bool fullgraph) {
  follow_log_levels();
  if (!listens()) return;
  times_.emplace();
  exceptions_ = std::uncaught_exceptions();
  const auto [frame, compilation] = cache.compile_id();
  around_ = std::exchange(region::told_compile, {frame, compilation});
  tell("compile_started",
       py::take(Py_BuildValue("{s:O,s:O,s:i,s:i,s:N,s:O,s:O}", "code", function->func_code, "function", function,
                              "frame_id", frame, "frame_compile_id", compilation, "begins_at",
                              cache.begins_at_as_tuple().release(), "fullgraph", fullgraph ? Py_True : Py_False,
                              "backend", cache.key().backend)));
}

ToldCompile::~ToldCompile() {
  if (!times_) return;
  region::told_compile = around_;
  try {
    const auto milliseconds = py::take(PyDict_New());
    for (const events::Number& sum : times_->sums())
      py::check(PyDict_SetItem(milliseconds.get(), py::str(std::string(sum.name)).get(),
                               py::take(PyFloat_FromDouble(sum.value)).get()));
    PyObject* const failed = std::uncaught_exceptions() > exceptions_ ? Py_True : Py_False;
    tell("compile_finished",
         py::take(Py_BuildValue("{s:O,s:O}", "failed", failed, "milliseconds", milliseconds.get())));
  } catch (const py::PythonError&) {  // no memory for a dict: then nobody is told
  }
}

void tell_restart(const char* why) {
  if (listens()) tell("capture_restarted", py::take(Py_BuildValue("{s:s}", "why", why)));
}

void tell_region(const region::Capture& capture, const Entry& entry, const std::string& name,
                 const trace::BreakInfo* stop) {
  const Reading reading(capture, entry, name);
  tell("region_finished",
       py::take(Py_BuildValue("{s:i,s:s,s:O,s:i,s:O,s:O,s:O}", "number", entry.number, "name", name.c_str(), "code",
                              capture.code.object(), "begin", capture.starts_at, "emitted_function", entry.region.get(),
                              "ends_early", stop == nullptr ? Py_False : Py_True, "read", reading.function())));
}

void tell_backend_starts(const region::Capture& capture, const Entry& entry, const std::string& name,
                         PyObject* backend) {
  const Reading reading(capture, entry, name);
  tell("backend_started",
       py::take(Py_BuildValue("{s:s,s:O,s:O}", "name", name.c_str(), "backend", backend, "read", reading.function())));
}

void tell_backend_ends(PyObject* error) {
  tell("backend_finished", py::take(Py_BuildValue("{s:O}", "error", error == nullptr ? Py_None : error)));
}

void add_listening(PyObject* module) {
  py::check(PyModule_AddFunctions(module, kFunctions));
  py::check(PyModule_AddType(module, region::instruction_event_type()));
}

}  // namespace pellucid::runtime
