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

// ---- exception groups
// Whether BaseExceptionGroup takes it for what to look for.
bool is_condition(PyObject* value) {
  if (PyExceptionClass_Check(value)) return true;
  if (!PyTuple_CheckExact(value)) return PyType_Check(value) == 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!PyExceptionClass_Check(PyTuple_GET_ITEM(value, i))) return false;
  }
  return true;
}

Result group_part(Interpreter& t, PyObject* f, Args args, const char* polyfill) {
  if (args.size() != 2 || !is_condition(args[1])) return run_native(t, f, args);  // a TypeError
  return protocols::call_polyfill(t, polyfill, args.values);
}

Result group_split(Interpreter& t, PyObject* f, Args args) { return group_part(t, f, args, "group_split"); }

Result group_subgroup(Interpreter& t, PyObject* f, Args args) { return group_part(t, f, args, "group_subgroup"); }

Result group_derive(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  t.region.numbers.plain(protocols::getattr(t, args[0], py::interned("message").get()).value.get());
  PyObject* values[] = {args[0], t.region.reads.touch(t.region.shadows.original(args[1]))};
  return run_native(t, f, Args{values, nullptr});
}

const Row rows[] = {
    {"builtins.BaseExceptionGroup.split", group_split},
    {"builtins.BaseExceptionGroup.subgroup", group_subgroup},
    {"builtins.BaseExceptionGroup.derive", group_derive},
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
