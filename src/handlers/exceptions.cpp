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

PyObject* handled_in_region(Tracer& t, PyObject* f) {
  PyObject* handled = t.topmost_handled();
  // What the caller of the region handles is no part of it.
  if (handled == nullptr) t.unsupported(Reason::StackInspection, {{"callee", py::repr_of(f)}});
  return handled;
}

Result exc_info(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (!args.values.empty()) return run_native(t, f, args, std::move(then));
  PyObject* handled = handled_in_region(t, f);
  auto traceback = py::Owned<>::steal(PyException_GetTraceback(handled));
  return t.settle(
      std::move(then),
      Result::of(py::take(PyTuple_Pack(3, Py_TYPE(handled), handled, traceback ? traceback.get() : Py_None))));
}
Result exception(Tracer& t, PyObject* f, Args args, Continuation then) {
  if (!args.values.empty()) return run_native(t, f, args, std::move(then));
  return t.settle(std::move(then), Result::of(py::Owned<>::share(handled_in_region(t, f))));
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
    {"traceback.clear_frames", clear_frames},
};

}  // namespace

const std::span<const Row> kExceptionRows = rows;

}  // namespace pellucid::handlers
