#include "base/progress.h"
#include "py/interrupts.h"
#include "region/inside.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

// What pellucid._comptime.`function` makes of it. A break that the code asks for is one, another exception is the
// business of whoever called the compiled function.
void run_now(Interpreter& t, const char* function, PyObject* what, PyObject* args, PyObject* kwargs) {
  static PyObject* const asked = py::import_attr("pellucid._comptime", "GraphBreakAsked").release();
  const auto run = py::import_attr("pellucid._comptime", function);
  const region::Inside inside(t.region);
  progress::hide();
  const py::InterruptsRun signals_are_handled;  // it may wait for somebody at a keyboard
  const auto done =
      py::Owned<>::steal(PyObject_CallFunctionObjArgs(run.get(), inside.function(), what, args, kwargs, nullptr));
  if (done) return;
  const bool is_break = PyErr_ExceptionMatches(asked) != 0;
  const py::PythonError error;
  if (!is_break) py::throw_as_interruption(error.value());
  unsupported(Reason::ExplicitBreak, {{"message", py::text_of(py::take(PyObject_Str(error.value())).get())}});
}

[[noreturn]] void refuse_code(const char* why) {
  PyErr_Format(PyExc_TypeError, "pellucid.comptime: %s", why);
  throw py::Interruption();
}

// The code runs for real: it must not hold what only this capture knows.
void need_real_code(Interpreter& t, PyObject* code) {
  if (t.region.provenance.is_outside(code) || PyCFunction_Check(code)) return;
  if (!PyFunction_Check(code)) refuse_code("the code must be a function, or exist before the compiled function runs");
  const auto* function = reinterpret_cast<PyFunctionObject*>(code);
  if (function->func_defaults != nullptr || function->func_kwdefaults != nullptr)
    refuse_code("a function that is made in compiled code must have no defaults; ctx.get_local gives variables");
  for (Py_ssize_t i = 0; function->func_closure != nullptr && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    if (!t.region.provenance.is_outside(PyTuple_GET_ITEM(function->func_closure, i)))
      refuse_code("the function must not close over variables of compiled code; ctx.get_local gives them");
  }
}

PyObject* code_of(Args args) { return args.size() > 0 ? args[0] : args.keyword("fn"); }

}  // namespace

Result run_comptime(Interpreter& t, PyObject*, Args args) {
  PyObject* code = code_of(args);
  if (code == nullptr) refuse_code("there is no code to run");
  need_real_code(t, code);
  run_now(t, "run", code, Py_None, Py_None);
  return Result::none();
}

namespace {

// comptime.print_graph() and its like: the method of this name of the context.
Result run_method(Interpreter& t, PyObject* f, Args args) {
  auto values = tuple_of(args.positional());
  auto named = py::take(PyDict_New());
  for (std::size_t i = 0; i < args.keyword_count(); ++i)
    py::check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  auto name = py::take(PyObject_GetAttr(f, region::names().__name__));
  run_now(t, "run_method", name.get(), values.get(), named.get());
  return Result::none();
}

Result run_and_return(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0) return complain(t, f, args);
  run_method(t, f, args);
  return Result::of(py::Owned<>::share(args[0]));
}

#define METHOD(name) \
  { "pellucid._comptime.Comptime." name, run_method, true, true }

const Row rows[] = {
    {"pellucid._comptime.Comptime.__call__", run_comptime, true, true},
    {"pellucid._comptime.Comptime.print_value_stack_and_return", run_and_return, true, true},
    METHOD("graph_break"),
    METHOD("print"),
    METHOD("print_graph"),
    METHOD("print_disas"),
    METHOD("print_value_stack"),
    METHOD("print_locals"),
    METHOD("print_bt"),
    METHOD("print_guards"),
    METHOD("assert_static"),
    METHOD("force_static"),
    METHOD("breakpoint"),
    METHOD("sleep"),
};

#undef METHOD

}  // namespace

const std::span<const Row> kComptimeRows = rows;

}  // namespace pellucid::rows
