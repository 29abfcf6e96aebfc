// Exceptions, tracebacks, and the exception that is being handled.
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

// A method that changes its exception: one that the region made.
Result on_own_exception(Interpreter& t, PyObject* f, Args args) {
  if (args.size() > 0 && t.region.provenance.is_outside(args[0])) {
    unsupported(Reason::UnsupportedMutation, {{"target", std::string("a ") + Py_TYPE(args[0])->tp_name}});
  }
  return run_native(t, f, args);
}

// What it writes is an attribute, which a list from outside or the exception's own class may have under that name.
Result add_note(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || !PyUnicode_Check(args[1])) return complain(t, f, args);
  return protocols::call_polyfill(t, "add_note", args.values);
}

// None: neither the region nor its caller handles one. What the caller handles is no part of the region.
PyObject* handled_now(Interpreter& t, PyObject* f) {
  if (PyObject* handled = t.topmost_handled()) return handled;
  t.region.provenance.guard_not_handling(py::repr_of(f));
  return Py_None;
}

Result exc_info(Interpreter& t, PyObject* f, Args args) {
  if (!args.values.empty()) return run_native(t, f, args);
  PyObject* handled = handled_now(t, f);
  if (handled == Py_None) return Result::of(py::take(PyTuple_Pack(3, Py_None, Py_None, Py_None)));
  const Result traceback = protocols::getattr(t, handled, region::names().__traceback__);
  return Result::of(py::take(PyTuple_Pack(3, Py_TYPE(handled), handled, traceback.value.get())));
}
Result exception(Interpreter& t, PyObject* f, Args args) {
  if (!args.values.empty()) return run_native(t, f, args);
  return Result::of(py::Owned<>::share(handled_now(t, f)));
}

// Regions do not run under a trace function.
Result gettrace(Interpreter& t, PyObject* f, Args args) {
  if (!args.values.empty()) return run_native(t, f, args);
  return Result::none();
}

// Real frames that are still open would refuse, which is ignored; ours hold nothing yet.
void clear_frames_of(PyObject* traceback) {
  for (auto* at = reinterpret_cast<PyTracebackObject*>(traceback); at != nullptr; at = at->tb_next)
    const auto done = py::take(PyObject_CallMethod(reinterpret_cast<PyObject*>(at->tb_frame), "clear", nullptr));
}

Result clear_frames(Interpreter& t, PyObject* f, Args args) {
  const bool ours = args.values.size() == 1 &&
                    (args.values[0] == Py_None ||
                     (PyTraceBack_Check(args.values[0]) && !t.region.provenance.is_outside(args.values[0])));
  if (!ours) unsupported(Reason::StackInspection, {{"callee", py::repr_of(f)}});
  if (args.values[0] != Py_None) clear_frames_of(args.values[0]);
  return Result::none();
}

const Row rows[] = {
    {"builtins.BaseException.with_traceback", on_own_exception},
    {"builtins.BaseException.add_note", add_note},
    {"sys.exc_info", exc_info},
    {"sys.exception", exception},
    {"sys.gettrace", gettrace},
    {"traceback.clear_frames", clear_frames},
};

}  // namespace

const std::span<const Row> kExceptionRows = rows;

}  // namespace pellucid::rows
