// Several processes: what is asked of a process group, and collectives that write to tensors of the program.
// pellucid/polyfills_distributed.py calls these around the functions of torch.distributed.
#include "aten/placement.h"
#include "graph/bodies.h"
#include "region/objects.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// What C code says of a process group, or by its name: it stays the same for this very object.
Result asks(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    if (region::is_atom(region::cat_of(value))) continue;
    if (!t.region.provenance.is_outside(value)) return refuse(t, f, args);
    t.region.provenance.guard_identity(value);
  }
  Result result = run_native(t, f, args);
  if (result.is_value() && !region::is_atom(region::cat_of(result.value.get())))
    t.region.provenance.note_constant(result.value.get());
  return result;
}

// A setting of torch.distributed. These say how torch itself goes about a collective, not what it computes.
Result setting(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const settings = py::import_attr("torch.distributed", "config").release();
  if (!only_positional(args, 2, 2) || args[0] != settings || !PyUnicode_Check(args[1]))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getattr__"}, {"type", "module"}});
  return run_native(t, f, args);
}

// reduction(op): the word for it; None: there is none.
Result reduction(Interpreter& t, PyObject* f, Args args) {
  if (t.region.provenance.is_outside(args[0])) t.region.provenance.guard_identity(args[0]);  // else a default of ours
  return run_native(t, f, args);
}

Result runs_as_captured(Interpreter& t, PyObject*, Args) {
  return Result::boolean(t.region.numbers.policy.runs_as_captured());
}

// call_in_place(function, *arguments): a node that calls the function, which writes to some of its tensors.
Result call_in_place(Interpreter& t, PyObject*, Args args) {
  PyObject* const function = args[0];
  const auto on_fakes = py::take(PyObject_GetAttrString(function, "on_fakes"));
  Result result = t.region.recorder.torch_call(graph::Op::CallFunction, on_fakes.get(), function,
                                               Args{args.values.subspan(1), args.kwnames});
  t.region.capture->bodies->graph().nodes().back()->may_raise = true;  // another process may have gone
  return result;
}

// as_it_is(callee, function, ...)
Result as_it_is(Interpreter&, PyObject*, Args args) {
  unsupported(Reason::UntracedCallable, {{"callee", py::text_of(args[0])}});
}

template <const char* kName>
Result polyfill(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, kName, args);
}
constexpr char kAllReduce[] = "all_reduce", kAllGather[] = "all_gather", kBroadcast[] = "broadcast",
               kAllGatherInto[] = "all_gather_single", kReduceScatter[] = "reduce_scatter_single",
               kAllToAll[] = "all_to_all_single", kResolve[] = "resolve_process_group";

}  // namespace

Result has_free_unbacked_symbols(Interpreter& t, PyObject* f, Args args) {
  return t.region.unbacked.any() ? t.inline_function(f, args) : Result::boolean(false);
}

namespace {

// What a graph holds of an argument that is no tensor: a copy of a container.
py::Owned<> constant_of(Interpreter& t, PyObject* f, PyObject* value) {
  if (aten::is_opaque_type(Py_TYPE(value))) {
    if (!t.region.provenance.is_outside(value)) (void)refuse(t, f, {});
    t.region.provenance.guard_identity(value);
    return py::Owned<>::share(value);
  }
  value = t.region.numbers.plain(value);
  if (!t.region.reads.deep_touch(value).is_plain())
    unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of a " + Py_TYPE(value)->tp_name}});
  PyObject* now = t.region.shadows.readable(value);
  return PyList_Check(now) ? py::take(PySequence_List(now)) : py::Owned<>::share(now);
}

}  // namespace

// From and to distributed tensors, and between placements: a node, as AOTAutograd is given it.
Result distributed_tensor(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const bound = py::import_attr("pellucid._distributed", "Bound").release();
  PyObject* const checks = args.keyword("run_check");  // the processes would talk to each other now
  if (args.size() == 0 || region::cat_of(args[0]) != Cat::Tensor || (checks != nullptr && checks != Py_False))
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  auto given = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size() - 1)));
  auto keywords = py::take(PyDict_New());
  for (std::size_t i = 1; i < args.size(); ++i)
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i - 1), constant_of(t, f, args[i]).release());
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    const auto value = constant_of(t, f, args.values[args.size() + i]);
    py::check(PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(args.kwnames, static_cast<Py_ssize_t>(i)), value.get()));
  }
  const auto call = py::take(PyObject_CallFunctionObjArgs(bound, f, given.get(), keywords.get(), nullptr));
  t.region.provenance.keep(call.get());
  return t.region.recorder.torch_call(graph::Op::CallFunction, call.get(), call.get(),
                                      Args{args.values.first(1), nullptr});
}

// Its mesh and placements.
Result distributed_property(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || region::cat_of(args[0]) != Cat::Tensor) return t.inline_function(f, args);
  (void)t.region.recorder.lift(args[0]);  // what a tensor from outside holds is guarded
  Result result = run_native(t, f, args);
  if (result.is_value() && aten::is_opaque_type(Py_TYPE(result.value.get())))
    t.region.provenance.note_constant(result.value.get());
  return result;
}

namespace {

const Row rows[] = {
    {"torch._C._distributed_c10d.ProcessGroup.size", asks, false},
    {"torch._C._distributed_c10d.ProcessGroup.rank", asks, false},
    {"torch._C._distributed_c10d.ProcessGroup.name", asks, false},
    {"torch._C._distributed_c10d.ProcessGroup.group_name.fget", asks, false},
    {"torch._C._distributed_c10d._resolve_process_group", polyfill<kResolve>, false},
    {"pellucid.polyfills_distributed.resolve_by_name", asks, false},
    {"torch._C._distributed.Placement.is_shard", pure, false},
    {"torch._C._distributed.Placement.is_replicate", pure, false},
    {"torch._C._distributed.Placement.is_partial", pure, false},
    {"torch._C._distributed.Shard.is_shard", pure, false},
    {"torch._C._distributed.Shard.dim.fget", pure, false},
    {"torch._C._distributed.Shard.__eq__", pure, false},
    {"torch._C._distributed.StridedShard.dim.fget", pure, false},
    {"torch._C._distributed.Replicate.is_replicate", pure, false},
    {"torch._C._distributed.Replicate.__eq__", pure, false},
    {"torch._C._distributed.Partial.is_partial", pure, false},
    {"torch._C._distributed.Partial.reduce_op.fget", pure, false},
    {"torch._C._distributed.Partial.__eq__", pure, false},
    {"torch.utils._config_module.ConfigModule.__getattr__", setting},
    {"torch.distributed.distributed_c10d.all_reduce", polyfill<kAllReduce>, false},
    {"torch.distributed.distributed_c10d.all_gather", polyfill<kAllGather>, false},
    {"torch.distributed.distributed_c10d.all_gather_into_tensor", polyfill<kAllGatherInto>, false},
    {"torch.distributed.distributed_c10d.all_gather_single", polyfill<kAllGatherInto>, false},
    {"torch.distributed.distributed_c10d.reduce_scatter_tensor", polyfill<kReduceScatter>, false},
    {"torch.distributed.distributed_c10d.reduce_scatter_single", polyfill<kReduceScatter>, false},
    {"torch.distributed.distributed_c10d.all_to_all_single", polyfill<kAllToAll>, false},
    {"torch.distributed.distributed_c10d.broadcast", polyfill<kBroadcast>, false},
    {"pellucid.polyfills_distributed.reduction", reduction, false},
    {"pellucid.polyfills_distributed.runs_as_captured", runs_as_captured, false},
    {"pellucid.polyfills_distributed.call_in_place", call_in_place, false},
    {"pellucid.polyfills_distributed.as_it_is", as_it_is, false},
    // What DistributedDataParallel does around a model is for its reducer, which hears of each forward as it is. Both
    // run for real, so that the forward between them is one graph whatever they do.
    {"torch.nn.parallel.distributed.DistributedDataParallel._pre_forward", refuse},
    {"torch.nn.parallel.distributed.DistributedDataParallel._post_forward", refuse},
};

}  // namespace

const std::span<const Row> kDistributedRows = rows;

}  // namespace pellucid::rows
