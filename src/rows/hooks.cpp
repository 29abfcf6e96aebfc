// Hooks of autograd: registered behind the graph, on the tensors of the call (pellucid/_hooks.py), as the program's own
// functions. What they do happens in the backward pass, which is the program's as well.
#include <algorithm>

#include "aten/layers.h"
#include "protocols/attributes.h"
#include "region/subclasses.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

[[noreturn]] void refuse_hook(const std::string& what) { unsupported(Reason::UntracedCallable, {{"callee", what}}); }

// By what comes behind the node that computes it: that one may have put its result together in its memory.
bool is_written_in_graph(Interpreter& t, PyObject* tensor, PyObject* fake) {
  const void* storage = aten::meta_of(fake).storage;
  const graph::Node* made = t.region.recorder.node_of(tensor);
  return std::ranges::any_of(t.region.capture->graph.nodes(), [&](const graph::Node* node) {
    return node != made &&
           std::ranges::any_of(node->written, [&](const auto& written) { return written.get() == storage; });
  });
}

// A compiler's function gives each of its results a gradient of its own: what such a tensor is used for within the
// graph does not show there. So the region ends where it is first used, and the next one has it as an input.
[[noreturn]] void end_before_uses(Interpreter& t, const graph::Node* made) {
  std::int64_t first = -1;
  for (const graph::Node* node : made->graph->nodes()) {
    bool uses = false;
    graph::for_each_input(*node, [&](const graph::Node* input) { uses |= input == made; });
    if (uses && (first < 0 || node->step < first)) first = node->step;
  }
  t.region.ends_before = first;
  refuse_hook("a hook on a tensor that the graph computes");
}

void check_hooked(Interpreter& t, PyObject* tensor) {
  if (region::cat_of(tensor) != Cat::Tensor) refuse_hook("a hook on what is no tensor");
  if (region::is_subclassed(tensor)) refuse_hook("a hook on a tensor subclass");
  if (aten::is_below_transform()) refuse_hook("a hook below a transform of torch.func");
  if (t.region.capture->bodies->is_open()) refuse_hook("a hook in a block that runs again");
  const auto fake = t.region.recorder.lift(tensor);
  if (t.region.numbers.policy.runs_as_captured()) return;
  if (is_written_in_graph(t, tensor, fake.get())) refuse_hook("a hook on a tensor that the graph writes to");
  if (!t.region.provenance.is_outside(tensor)) end_before_uses(t, t.region.recorder.node_of(tensor));
}

// hook_inside(tensor, hook): what the hook is hung on where it can be called inside of the graph; None.
Result hook_inside(Interpreter& t, PyObject*, Args args) {
  const bool waits = t.region.numbers.policy.runs_as_captured() || t.region.provenance.is_outside(args[0]);
  if (waits || region::cat_of(args[0]) != Cat::Tensor || region::is_subclassed(args[0]) ||
      !t.region.inner_hooks.allowed() || is_written_in_graph(t, args[0], t.region.recorder.lift(args[0]).get()))
    return Result::none();
  auto key = t.region.inner_hooks.key_for(args[0], args[1]);
  return key ? Result::of(std::move(key)) : Result::none();
}

bool hangs_on_key(PyObject* function) {
  static PyObject* const module = py::import_attr("pellucid", "_inner_hooks").release();
  return PyFunction_Check(function) && PyFunction_GetGlobals(function) == PyModule_GetDict(module);
}

// pass_inside(tensors), pass_key(tensor)
Result pass_inside(Interpreter& t, PyObject*, Args args) {
  if (t.region.numbers.policy.runs_as_captured()) return Result::none();
  auto passed = t.region.inner_hooks.pass_all(args[0]);
  if (!passed) refuse_hook("a hook of a module");
  return Result::of(std::move(passed));
}

Result pass_key(Interpreter& t, PyObject*, Args args) {
  auto key = t.region.inner_hooks.key_of_passed(args[0]);
  return key ? Result::of(std::move(key)) : Result::none();
}

// hook_later(function, tensors, *arguments)
Result hook_later(Interpreter& t, PyObject*, Args args) {
  static PyObject* const handle_type = py::import_attr("torch.utils.hooks", "RemovableHandle").release();
  const auto tensors = protocols::native_elements(t, args[1]);
  if (!tensors) refuse_hook("a hook on what is no tensor");
  for (Py_ssize_t i = 0; !hangs_on_key(args[0]) && i < PyTuple_GET_SIZE(tensors.get()); ++i)
    check_hooked(t, PyTuple_GET_ITEM(tensors.get(), i));
  auto given = tuple_of(args.values.subspan(1)), keywords = py::take(PyDict_New());
  PyTuple_SetItem(given.get(), 0, tensors.copy().release());
  t.region.provenance.note_constant(args[0]);
  t.region.deferred.add_hook(args[0], given.get(), keywords.get());
  PyObject* last = args[args.size() - 1];
  if (PyObject_TypeCheck(last, reinterpret_cast<PyTypeObject*>(handle_type)))
    t.region.deferred.late_handles.insert(last);
  return Result::none();
}

// What a handle of the region would be asked for is known behind the graph, and so is what it then removes.
Result remove_handle(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1) || !t.region.deferred.late_handles.contains(args[0]))
    return t.inline_function(f, args);
  auto given = py::take(PyTuple_Pack(1, args[0])), keywords = py::take(PyDict_New());
  t.region.provenance.note_constant(f);
  t.region.deferred.add_hook(f, given.get(), keywords.get());
  return Result::none();
}

template <const char* polyfill>
Result by_polyfill(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, polyfill, args);
}
constexpr char kRegister[] = "register_hook", kAccumulated[] = "register_post_accumulate_grad_hook",
               kMulti[] = "register_multi_grad_hook", kInputs[] = "setup_input_hook", kOutputs[] = "setup_output_hook";

Result retain_grad(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1) || region::cat_of(args[0]) != Cat::Tensor) return refuse(t, f, args);
  if (!aten::meta_of(t.region.recorder.lift(args[0]).get()).requires_grad) return refuse(t, f, args);  // it raises
  return protocols::call_polyfill(t, "retain_grad", args);
}

// Hooks of modules hear of a node of autograd, that of an operator of our own where a compiler's function has none.
template <const char* polyfill>
Result module_hook(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const identity = py::import_attr("torch.nn.modules._functions", "BackwardHookFunction").release();
  if (!t.region.numbers.policy.runs_as_captured() && !t.region.inner_hooks.allowed()) return refuse(t, f, args);
  t.region.provenance.note_constant(identity);
  return protocols::call_polyfill(t, polyfill, args);
}

const Row rows[] = {
    {"torch.Tensor.register_hook", by_polyfill<kRegister>},
    {"torch.Tensor.register_post_accumulate_grad_hook", by_polyfill<kAccumulated>},
    {"torch.autograd.graph.register_multi_grad_hook", by_polyfill<kMulti>},
    {"torch._C.TensorBase.retain_grad", retain_grad},
    {"torch.utils.hooks.RemovableHandle.remove", remove_handle},
    {"torch.autograd.graph._MultiHandle.remove", remove_handle},
    {"torch.utils.hooks.BackwardHook.setup_input_hook", module_hook<kInputs>},
    {"torch.utils.hooks.BackwardHook.setup_output_hook", module_hook<kOutputs>},
    {"pellucid.polyfills_hooks.hook_later", hook_later},
    {"pellucid.polyfills_hooks.hook_inside", hook_inside},
    {"pellucid.polyfills_hooks.pass_inside", pass_inside},
    {"pellucid.polyfills_hooks.pass_key", pass_key},
};

}  // namespace

const std::span<const Row> kHookRows = rows;

}  // namespace pellucid::rows
