// Optimizers and training loops of torch: what their code asks of torch besides operations on tensors.
#include <algorithm>

#include "region/made_late.h"
#include "region/torch_module.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// A wrapper that keeps torch._dynamo out of a function of torch. Nothing in these keeps a capture from following them.
Result wrapped(Interpreter& t, PyObject* f, Args args) {
  auto inner = py::take(PyObject_GetAttrString(f, "__wrapped__"));
  t.region.provenance.note_constant(inner.get());
  return t.inline_function(inner.get(), args);
}

PyObject* profiler_op(const char* name) {
  const auto ops = py::import_attr("torch", "ops");
  return PyObject_GetAttrString(py::take(PyObject_GetAttrString(ops.get(), "profiler")).get(), name);
}

// ---- ranges that torch's profiler shows: nodes of the graph, so that they begin and end where the program has them

Result enter_range(Interpreter& t, PyObject* f, Args args) {
  const auto is_plain = [](PyObject* value) { return value == Py_None || PyUnicode_CheckExact(value); };
  if (!only_positional(args, 1, 2) || !std::ranges::all_of(args.values, is_plain)) return refuse(t, f, args);
  auto values = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (std::size_t i = 0; i < args.size(); ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  auto range = region::made_late(f, values.get());
  t.region.provenance.keep(range.get());
  t.region.recorder.contexts[range.get()] =
      t.region.recorder.record(graph::Op::CallFunction, f, args, Py_None, true);
  return Result::of(std::move(range));
}

void record_end(Interpreter& t, graph::Node* begun) {
  static PyObject* const of_range = PyObject_GetAttrString(profiler_op("_record_function_exit"), "_RecordFunction");
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, of_range, Args{}, Py_None, true);
  node->args.push_back(graph::Arg::of(begun));
  begun->users += 1;
}

// One that began before the region, in an earlier part of the program, ends behind the graph.
Result leave_range(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return refuse(t, f, args);
  if (auto begun = t.region.recorder.contexts.find(args[0]); begun != t.region.recorder.contexts.end()) {
    record_end(t, begun->second);
    t.region.recorder.contexts.erase(begun);
    return Result::none();
  }
  if (!t.region.provenance.is_outside(args[0])) return refuse(t, f, args);
  auto range = py::take(PyTuple_Pack(1, args[0])), keywords = py::take(PyDict_New());
  t.region.provenance.note_constant(f);
  t.region.deferred.add(f, range.get(), keywords.get());
  return Result::none();
}

// ---- blocks in which torch asks no __torch_function__: what they change is the thread's and no graph's

Result enter_disabled(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || t.region.provenance.is_outside(args[0])) return refuse(t, f, args);
  t.region.provenance.keep(args[0]);
  return run_native(t, f, args);
}
Result leave_disabled(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0 || t.region.provenance.is_outside(args[0])) return refuse(t, f, args);
  PyObject* values[] = {args[0], Py_None, Py_None, Py_None};
  return run_native(t, f, Args{values, nullptr});
}

const Row rows[] = {
    {"torch.optim.optimizer.Optimizer.zero_grad", wrapped},
    {"torch.optim.optimizer.Optimizer.add_param_group", wrapped},
    {"torch.optim.optimizer.Optimizer.state_dict", wrapped},
    {"torch.optim.optimizer.Optimizer.load_state_dict", wrapped},
    {"torch.ops.profiler._record_function_enter_new", enter_range},
    {"torch.ops.profiler._record_function_exit", leave_range},
    {"torch.ops.profiler._record_function_exit._RecordFunction", leave_range},
    {"torch._C.DisableTorchFunctionSubclass", pure},
    {"torch._C.DisableTorchFunctionSubclass.__enter__", enter_disabled},
    {"torch._C.DisableTorchFunctionSubclass.__exit__", leave_disabled},
    {"torch._C.DisableTorchFunction", pure},
    {"torch._C.DisableTorchFunction.__enter__", enter_disabled},
    {"torch._C.DisableTorchFunction.__exit__", leave_disabled},
};

}  // namespace

bool is_range(const graph::Node& entered) {
  static PyObject* const begin = profiler_op("_record_function_enter_new");
  return entered.target.get() == begin;
}
void end_range(Interpreter& t, graph::Node* begun) { record_end(t, begun); }

const std::span<const Row> kTrainingRows = rows;

}  // namespace pellucid::rows
