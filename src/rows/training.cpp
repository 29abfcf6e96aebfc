// Optimizers and training loops of torch: what their code asks of torch besides operations on tensors.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_set>

#include "aten/gradients.h"
#include "aten/layers.h"
#include "protocols/torch_function.h"
#include "region/made_late.h"
#include "rows/backward.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// A wrapper that keeps torch._dynamo out of a function of torch. Nothing in these keeps a capture from following them.
Result wrapped(Interpreter& t, PyObject* f, Args args) {
  auto inner = py::take(PyObject_GetAttrString(f, "__wrapped__"));
  t.region.provenance.note_constant(inner.get());
  return t.inline_function(inner.get(), args);
}

// The whole step of an optimizer in one operator. AOTAutograd cannot differentiate or functionalize it.
Result fused_step(Interpreter& t, PyObject* f, Args args) {
  if (!t.region.numbers.policy.runs_as_captured())
    unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " for a backend that compiles"}});
  return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
}

// ---- ranges that torch's profiler shows: nodes of the graph, so that they begin and end where the program has them

Result enter_range(Interpreter& t, PyObject* f, Args args) {
  protocols::refuse_asked(t, f);
  const auto is_plain = [](PyObject* value) { return value == Py_None || PyUnicode_CheckExact(value); };
  if (!only_positional(args, 1, 2) || !std::ranges::all_of(args.values, is_plain)) return refuse(t, f, args);
  auto values = tuple_of(args.positional());
  auto range = region::made_late(f, values.get());
  t.region.provenance.keep(range.get());
  t.region.recorder.contexts[range.get()] = t.region.recorder.record(graph::Op::CallFunction, f, args, Py_None, true);
  return Result::of(std::move(range));
}

}  // namespace

void end_range(Interpreter& t, graph::Node* begun) {
  graph::Node* node =
      t.region.recorder.record(graph::Op::CallFunction, graph::range_end_function(), Args{}, Py_None, true);
  node->args.push_back(graph::Arg::of(begun));
  begun->users += 1;
}

namespace {

// One that began before the region, in an earlier part of the program, ends behind the graph.
Result leave_range(Interpreter& t, PyObject* f, Args args) {
  protocols::refuse_asked(t, f);
  if (!only_positional(args, 1, 1)) return refuse(t, f, args);
  if (auto begun = t.region.recorder.contexts.find(args[0]); begun != t.region.recorder.contexts.end()) {
    end_range(t, begun->second);
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
// Function modes are not asked either. The default device is one, which the graph asks, unless modes are followed.
Result enter_without_modes(Interpreter& t, PyObject* f, Args args) {
  (void)t.region.function_modes.stack();
  return enter_disabled(t, f, args);
}
Result leave_disabled(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0 || t.region.provenance.is_outside(args[0])) return refuse(t, f, args);
  PyObject* values[] = {args[0], Py_None, Py_None, Py_None};
  return run_native(t, f, Args{values, nullptr});
}

// ---- backward passes

std::vector<PyObject*> tensors_in(Interpreter& t, PyObject* value) {
  if (region::cat_of(value) == Cat::Tensor) return {value};
  const auto items = protocols::native_elements(t, value);
  if (!items) refuse_pass("from what is no tensor");
  std::vector<PyObject*> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (region::cat_of(item) != Cat::Tensor) refuse_pass("from what is no tensor");
    tensors.push_back(item);  // held by the container
  }
  return tensors;
}

std::vector<PyObject*> fakes_of(Interpreter& t, const std::vector<PyObject*>& tensors) {
  std::vector<PyObject*> fakes;
  fakes.reserve(tensors.size());
  for (PyObject* tensor : tensors) fakes.push_back(t.region.recorder.lift(tensor).get());  // held by the region
  return fakes;
}

// What a pass may come to that ends in a leaf with hooks.
enum class LeafHooks : std::uint8_t { Refused, Followed };

// A tensor from outside that a pass of the graph comes to does no more than that graph does.
void guard_target(Interpreter& t, PyObject* tensor, bool is_leaf, LeafHooks hooks = LeafHooks::Refused) {
  const region::Source* source = t.region.provenance.source_of(tensor);
  if (source == nullptr) return;  // the region made it
  if (is_leaf && hooks == LeafHooks::Followed && aten::takes_gradients_by_hooks(tensor)) {
    t.region.provenance.guard(region::Kind::GRADIENT_TARGET, source, {}, 2);
    return;
  }
  // Of a leaf that the region itself has told to require gradients its metadata says all else.
  const bool takes_some = is_leaf && aten::meta_of(tensor).requires_grad;
  if (!(takes_some ? aten::takes_gradients_silently(tensor) : aten::has_no_gradient_hooks(tensor)))
    refuse_pass("to a tensor with hooks");
  t.region.provenance.guard(region::Kind::GRADIENT_TARGET, source, {}, takes_some ? 1 : 0);
}

// The leaves that a pass from these tensors comes to, as the program knows them. `end`: a tensor where the pass ends;
// only there may it come to what was computed before the region.
std::vector<PyObject*> guarded_leaves(Interpreter& t, const std::vector<PyObject*>& tensors, PyObject* end = nullptr,
                                      LeafHooks hooks = LeafHooks::Refused) {
  refuse_pass_after_hooks(t);
  const aten::BackwardPath path = aten::backward_path(fakes_of(t, tensors));
  // Compilers follow what the program's backward() does; where the graph runs as it is, nothing has followed it.
  if (path.runs_python && t.region.numbers.policy.runs_as_captured()) refuse_pass("through an autograd.Function");
  // It was followed with a gradient for each result.
  if (path.may_give_none) refuse_pass("that may give None to an autograd.Function");
  const void* known = end == nullptr ? nullptr : aten::computed_before(fakes_of(t, {end}).front());
  for (const void* behind : path.outside) {
    if (behind != known) refuse_pass("through tensors that were computed before the region");
  }
  if (!path.outside.empty()) guard_target(t, end, false);
  std::vector<PyObject*> leaves;
  for (const auto& fake : path.leaves) {
    PyObject* const leaf = t.region.recorder.tensor_behind(fake.get());
    // One that requires none any more gets none, though its hooks would be called.
    guard_target(t, leaf, true, aten::is_leaf_with_grad(fake.get()) ? hooks : LeafHooks::Refused);
    leaves.push_back(leaf);
  }
  return leaves;
}

Result leaves_of(Interpreter& t, PyObject*, Args args) {
  if (aten::in_function_transform()) refuse_pass("below a transform of torch.func");  // which eager refuses
  const auto leaves = guarded_leaves(t, tensors_in(t, args[0]), nullptr, LeafHooks::Followed);
  const auto takes_gradients = [&](PyObject* leaf) {
    return aten::is_leaf_with_grad(t.region.recorder.fake_or_itself(leaf));
  };
  if (std::ranges::none_of(leaves, takes_gradients)) refuse_pass("that comes to no leaf");
  return Result::of(tuple_of(leaves));
}

// hooks_of(leaf): the dict of its hooks, which were registered before the region; None where there are none.
Result hooks_of(Interpreter& t, PyObject*, Args args) {
  PyObject* leaf = args[0];
  if (!t.region.provenance.is_outside(leaf) || !aten::takes_gradients_by_hooks(leaf)) return Result::none();
  const auto name = py::str("_backward_hooks");
  const auto hooks = py::take(PyObject_GetAttr(leaf, name.get()));
  return Result::of(t.region.provenance.note_attribute(leaf, name.get(), hooks.get()));
}

// A body that draws random numbers, which a pass of the same graph would have to draw again: AOTAutograd cannot.
bool draws_inside(const graph::Node* node) {
  const bool has_body = !node->args.empty() && node->args[0].kind == graph::Arg::Kind::Node && node->args[0].node->body;
  return node->random && has_body;
}

// Whether this value of `create_graph` (null: none is given) may ask for a pass that is recorded.
bool records_graph(PyObject* create_graph) {
  return create_graph != nullptr && create_graph != Py_False && create_graph != Py_None;
}

// A pass by this function of torch. Where autograd of torch itself sees the graph run, it knows by itself what a pass
// has freed.
Result run_pass(Interpreter& t, PyObject* callable, PyObject* target, Args args) {
  if (records_graph(args.size() > 4 ? args[4] : args.keyword("create_graph")) &&
      aten::backward_path(fakes_of(t, tensors_in(t, args[0]))).runs_python)
    refuse_pass("through an autograd.Function that records a graph");  // it was followed without one
  region::Capture& capture = *t.region.capture;
  const auto run = [&] { return t.region.recorder.torch_call(graph::Op::CallFunction, callable, target, args); };
  if (t.region.numbers.policy.runs_as_captured()) return run();
  if (std::ranges::any_of(capture.graph.nodes(), draws_inside))
    refuse_pass("through a checkpointed block that draws random numbers, for a backend that compiles");
  const bool is_first = !capture.freed;
  if (is_first) capture.freed = std::make_shared<region::FreedTensors>(capture.graph);
  try {
    return run();
  } catch (const GraphBreak&) {  // it has freed the fakes, and is no part of the region
    if (is_first) capture.freed.reset();
    throw;
  }
}

// A pass that is differentiated itself: what it computes with a leaf depends on whether that requires gradients now.
void check_differentiated(Interpreter& t, const std::vector<PyObject*>& from, PyObject* create_graph) {
  if (!records_graph(create_graph)) return;
  const auto changed = t.region.grad_flags.used_before_change();
  if (!changed.empty() && aten::keeps_any(fakes_of(t, from), changed))
    refuse_pass("with create_graph=True, by a leaf of which requires_grad has changed,");
}

PyObject* autograd_grad() {
  static PyObject* const function = py::import_attr("torch.autograd", "grad").release();
  return function;
}

Result gradients_of(Interpreter& t, PyObject*, Args args) {
  static PyObject* const kwnames = Py_BuildValue("(s)", "allow_unused");
  PyObject* values[] = {args[0], args[1], args[2], args[3], args[4], Py_True};
  const graph::Graph& graph = t.region.capture->bodies->graph();
  const std::size_t before = graph.nodes().size();
  // Hooks are called by the program's own code behind the node, in the order in which the pass comes to their leaves.
  static PyObject* const in_order = py::import_attr("pellucid._gradients", "gradients_in_order").release();
  static PyObject* const past_hooks = py::import_attr("pellucid._gradients", "gradients_past_hooks").release();
  const bool hooked = args[5] == Py_True;
  check_differentiated(t, tensors_in(t, args[0]), args[4]);
  Result result = Result::none();
  t.region.grad_flags.while_on(tensors_in(t, args[1]), [&] {  // the pass comes to those as well that get none now
    result =
        run_pass(t, hooked ? in_order : autograd_grad(), hooked ? past_hooks : autograd_grad(), Args{values, kwnames});
  });
  if (!result.is_value()) return result;
  const Py_ssize_t count = PyTuple_GET_SIZE(result.value.get());
  auto are_own = py::take(PyTuple_New(count));
  std::unordered_set<PyObject*> taken;
  for (Py_ssize_t i = count; i-- > 0;) {  // of one tensor for two leaves, the last one takes it
    PyObject *gradient = PyTuple_GET_ITEM(result.value.get(), i), *leaf = PyTuple_GET_ITEM(args[1], i);
    const graph::Node* node = gradient == Py_None ? nullptr : t.region.recorder.node_of(gradient);
    const bool is_new = node != nullptr && node->graph == &graph && node->op != graph::Op::Placeholder &&
                        taken.insert(gradient).second && static_cast<std::size_t>(node->index) >= before;
    const bool is_own = is_new && aten::has_layout_of_gradient(t.region.recorder.fake_or_itself(leaf), gradient);
    PyTuple_SET_ITEM(are_own.get(), i, PyBool_FromLong(is_own));
  }
  return Result::of(py::take(PyTuple_Pack(2, result.value.get(), are_own.get())));
}

// order_of_pass(): the numbers of the leaves of the last call of gradients_of(), as that pass came to them.
Result order_of_pass(Interpreter&, PyObject*, Args) {
  static PyObject* const order = py::import_attr("pellucid._gradients", "ORDER").release();
  return Result::of(py::take(PyList_AsTuple(order)));
}

Result refuse_backward(Interpreter&, PyObject*, Args) { refuse_pass("to such inputs"); }

Result gradient(Interpreter& t, PyObject* f, Args args) {
  const auto given = [&](std::size_t i, const char* name) { return i < args.size() ? args[i] : args.keyword(name); };
  PyObject *outputs = given(0, "outputs"), *inputs = given(1, "inputs");
  if (outputs == nullptr || inputs == nullptr) return refuse(t, f, args);
  const auto to = tensors_in(t, inputs);
  (void)guarded_leaves(t, tensors_in(t, outputs), to.size() == 1 ? to.front() : nullptr);
  check_differentiated(t, tensors_in(t, outputs), given(4, "create_graph"));
  return run_pass(t, f, f, args);
}

// Where all are of one device and dtype, one group: of more, torch's hash table says the order.
Result group_tensors(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0) return refuse(t, f, args);
  const auto lists = protocols::native_elements(t, args[0]);
  if (!lists || PyTuple_GET_SIZE(lists.get()) == 0) return refuse(t, f, args);
  std::optional<std::pair<std::string, std::string>> kind;
  for (PyObject* tensor : tensors_in(t, PyTuple_GET_ITEM(lists.get(), 0))) {
    const auto fake = t.region.recorder.lift(tensor);
    const auto text = [&](const char* name) {
      return py::repr_of(py::take(PyObject_GetAttrString(fake.get(), name)).get());
    };
    std::pair<std::string, std::string> own{text("device"), text("dtype")};
    if (!kind) kind = own;
    if (*kind != own) return refuse(t, f, args);
  }
  if (!kind) return refuse(t, f, args);
  return protocols::call_polyfill(t, "one_group_of_tensors", args);
}

template <const char* polyfill>
Result by_polyfill(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, polyfill, args);
}
constexpr char kTensorBackward[] = "tensor_backward", kAutogradBackward[] = "autograd_backward";

const Row rows[] = {
    {"torch._C._group_tensors_by_device_and_dtype", group_tensors},
    {"torch.Tensor.backward", by_polyfill<kTensorBackward>},
    {"torch.autograd.backward", by_polyfill<kAutogradBackward>},
    {"torch.autograd.grad", gradient},
    {"pellucid.polyfills_training.leaves_of", leaves_of},
    {"pellucid.polyfills_training.gradients_of", gradients_of},
    {"pellucid.polyfills_training.refuse_backward", refuse_backward},
    {"pellucid.polyfills_training.hooks_of", hooks_of},
    {"pellucid.polyfills_training.order_of_pass", order_of_pass},
    {"torch.optim.optimizer.Optimizer.zero_grad", wrapped},
    {"torch.optim.optimizer.Optimizer.add_param_group", wrapped},
    {"torch.optim.optimizer.Optimizer.state_dict", wrapped},
    {"torch.optim.optimizer.Optimizer.load_state_dict", wrapped},
    {"torch.ops.profiler._record_function_enter_new", enter_range},
    {"torch.ops.profiler._record_function_exit", leave_range},
    {"torch.ops.profiler._record_function_exit._RecordFunction", leave_range},
    {"torch._fused_adam_", fused_step, true, true},
    {"torch._fused_adamw_", fused_step, true, true},
    {"torch._fused_sgd_", fused_step, true, true},
    {"torch._fused_adagrad_", fused_step, true, true},
    {"torch._C.DisableTorchFunctionSubclass", pure},
    {"torch._C.DisableTorchFunctionSubclass.__enter__", enter_disabled},
    {"torch._C.DisableTorchFunctionSubclass.__exit__", leave_disabled},
    {"torch._C.DisableTorchFunction", pure},
    {"torch._C.DisableTorchFunction.__enter__", enter_without_modes},
    {"torch._C.DisableTorchFunction.__exit__", leave_disabled},
};

}  // namespace

const std::span<const Row> kTrainingRows = rows;

}  // namespace pellucid::rows
