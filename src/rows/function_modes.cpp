// The stack of torch function modes: entering and leaving them, and asking which there are.
#include "protocols/torch_function.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

Result push_mode(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return refuse(t, f, args);
  t.region.function_modes.push(t.region.shadows.original(args[0]));
  return Result::none();
}

Result pop_mode(Interpreter& t, PyObject* f, Args args) {
  auto mode = only_positional(args, 0, 0) ? t.region.function_modes.pop() : py::Owned<>();
  if (!mode) return refuse(t, f, args);
  return Result::of(std::move(mode));
}

Result mode_at(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return refuse(t, f, args);
  const auto& stack = t.region.function_modes.stack();
  const long at = PyLong_Check(args[0]) ? PyLong_AsLong(args[0]) : -1;
  if (at < 0 || static_cast<std::size_t>(at) >= stack.size()) {
    PyErr_Clear();
    return refuse(t, f, args);
  }
  return Result::of(stack[static_cast<std::size_t>(at)].copy());
}

Result mode_count(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 0, 0)) return refuse(t, f, args);
  return Result::of(py::take(PyLong_FromSize_t(t.region.function_modes.stack().size())));
}

Result is_any_asked(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 0, 0)) return refuse(t, f, args);
  (void)t.region.function_modes.stack();
  return Result::boolean(protocols::asks_modes(t));
}

// `with torch.device(…)` makes a mode of its own.
Result enter_device(Interpreter& t, PyObject*, Args args) { return protocols::call_polyfill(t, "enter_device", args); }
Result leave_device(Interpreter& t, PyObject*, Args args) { return protocols::call_polyfill(t, "leave_device", args); }

const Row rows[] = {
    {"torch._C._push_on_torch_function_stack", push_mode},
    {"torch._C._pop_torch_function_stack", pop_mode},
    {"torch._C._get_function_stack_at", mode_at},
    {"torch._C._len_torch_function_stack", mode_count},
    {"torch._C._is_torch_function_mode_enabled", is_any_asked},
    {"torch.device.__enter__", enter_device},
    {"torch.device.__exit__", leave_device},
};

}  // namespace

const std::span<const Row> kFunctionModeRows = rows;

}  // namespace pellucid::rows
