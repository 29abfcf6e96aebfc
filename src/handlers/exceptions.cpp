// Exceptions, tracebacks, and the exception that is being handled.
#include "handlers/registry.h"

namespace pellucid::handlers {
namespace {

// A method that changes its exception: one that the region made.
Result on_own_exception(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (args.size() > 0 && t.is_outside(args[0])) {
    t.unsupported(Reason::UnsupportedMutation, {{"target", std::string("a ") + Py_TYPE(args[0])->tp_name}});
  }
  return run_native(t, f, args, std::move(then));
}

// None: neither the region nor its caller handles one. What the caller handles is no part of the region.
PyObject* handled_now(Tracer& t, PyObject* f) {
  if (PyObject* handled = t.topmost_handled()) return handled;
  t.guard_not_handling(py::repr_of(f));
  return Py_None;
}

Result exc_info(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (!args.values.empty()) return run_native(t, f, args, std::move(then));
  PyObject* handled = handled_now(t, f);
  if (handled == Py_None)
    return t.settle(std::move(then), Result::of(py::take(PyTuple_Pack(3, Py_None, Py_None, Py_None))));
  auto traceback = py::Owned<>::steal(PyException_GetTraceback(handled));
  return t.settle(
      std::move(then),
      Result::of(py::take(PyTuple_Pack(3, Py_TYPE(handled), handled, traceback ? traceback.get() : Py_None))));
}
Result exception(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (!args.values.empty()) return run_native(t, f, args, std::move(then));
  return t.settle(std::move(then), Result::of(py::Owned<>::share(handled_now(t, f))));
}

// Regions do not run under a trace function.
Result gettrace(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (!args.values.empty()) return run_native(t, f, args, std::move(then));
  return t.settle(std::move(then), Result::none());
}

// The frames of a traceback that the region made have ended, and nobody can look into them.
Result clear_frames(Tracer& t, PyObject* f, Args args, Continuation then) {
  const bool ours = args.values.size() == 1 &&
                    (args.values[0] == Py_None || (PyTraceBack_Check(args.values[0]) && !t.is_outside(args.values[0])));
  if (!ours) t.unsupported(Reason::StackInspection, {{"callee", py::repr_of(f)}});
  return t.settle(std::move(then), Result::none());
}

const Row rows[] = {
    {"builtins.BaseException.with_traceback", on_own_exception},
    {"builtins.BaseException.add_note", on_own_exception},
    {"sys.exc_info", exc_info},
    {"sys.exception", exception},
    {"sys.gettrace", gettrace},
    {"traceback.clear_frames", clear_frames},
};

}  // namespace

const std::span<const Row> kExceptionRows = rows;

}  // namespace pellucid::handlers
