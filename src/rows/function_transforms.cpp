// torch.func: vmap, grad, vjp, jvp and what is made of them. torch's own Python is followed down to the functions
// below: those that open and close a level do it for real, so that what is between runs on fakes as torch itself runs
// it, and are nodes, so that the graph does it again.
#include <algorithm>

#include "aten/layers.h"
#include "protocols/torch_function.h"
#include "rows/backward.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// A level opens. Where it cannot be closed by the region, the call that led here runs for real: how far the program
// has come is noted.
Result open_level(Interpreter& t, PyObject* f, Args args) {
  t.region.recorder.levels.note_opening(t.region);
  return switch_level(t, f, args);
}

// What puts tensors into a level, or takes them out of it.
Result across_level(Interpreter& t, PyObject* f, Args args) {
  // Those of predispatch hand on to C code that asks no mode.
  if (protocols::asks_modes(t) && PyFunction_Check(f) != 0 && !describe(f).starts_with("torch._functorch.predispatch."))
    protocols::refuse_asked(t, f);
  return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
}

Result gradients_at_level(Interpreter& t, PyObject* f, Args args) {
  refuse_pass_after_hooks(t);
  return across_level(t, f, args);
}

// What functionalize writes has no gradients in eager, which says so in the backward pass. A compiler makes that pass
// at once.
Result across_functional(Interpreter& t, PyObject* f, Args args) {
  const auto needs_gradient = [&](PyObject* value) {
    return region::cat_of(value) == Cat::Tensor && aten::meta_of(t.region.recorder.lift(value).get()).requires_grad;
  };
  if (!t.region.numbers.policy.runs_as_captured() && std::ranges::any_of(args.values, needs_gradient))
    unsupported(Reason::FunctionTransform, {{"callee", "functionalize of what requires gradients"}});
  return across_level(t, f, args);
}

// The graph does it for what it does to its argument.
Result make_leaf(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1) || region::cat_of(args[0]) != Cat::Tensor) return refuse(t, f, args);
  const auto fake = t.region.recorder.lift(args[0]);
  if (!aten::is_wrapper(fake.get())) unsupported(Reason::LeafInGraph, {{"operation", describe(f)}});
  Result made = across_level(t, f, args);
  if (made.is_value()) t.region.recorder.node_of(made.value.get())->impure = true;
  return made;
}

// What torch loads once in a process, before it is needed: nothing that a graph would have to do again.
Result load(Interpreter& t, PyObject* f, Args args) {
  Result done = run_native(t, f, args);
  return done.is_value() ? Result::none() : std::move(done);
}

Result transform(Interpreter&, PyObject* callable, Args) {
  unsupported(Reason::FunctionTransform, {{"callee", describe(callable)}});
}

const Row rows[] = {
    {"torch._functorch.predispatch._vmap_increment_nesting", open_level, true, true},
    {"torch._functorch.predispatch._vmap_decrement_nesting", state_switch},
    {"torch._functorch.predispatch._jvp_increment_nesting", open_level},
    {"torch._functorch.predispatch._jvp_decrement_nesting", state_switch},
    {"torch._functorch.predispatch._enter_dual_level", open_level},
    {"torch._functorch.predispatch._exit_dual_level", state_switch},
    {"torch._C._functorch._grad_increment_nesting", open_level},
    {"torch._C._functorch._grad_decrement_nesting", state_switch},
    {"torch._C._functorch.set_inplace_requires_grad_allowed", state_switch},
    {"torch._C._functorch.get_inplace_requires_grad_allowed", pure},
    {"torch._C._set_fwd_grad_enabled", state_switch},
    {"torch._C._is_fwd_grad_enabled", pure},
    {"torch._C._autograd._saved_tensors_hooks_disable", open_level},  // torch.func does so around levels
    {"torch._C._autograd._saved_tensors_hooks_enable", state_switch},
    {"torch._C._autograd._saved_tensors_hooks_get_disabled_error_message", pure},
    {"torch._functorch.predispatch._add_batch_dim", across_level},
    {"torch._functorch.predispatch._remove_batch_dim", across_level, true, true},
    {"torch._functorch.predispatch._unwrap_for_grad", across_level},
    {"torch._functorch.predispatch._make_dual", across_level},
    {"torch._functorch.predispatch._unpack_dual", across_level},
    {"torch._C._functorch._wrap_for_grad", across_level},
    {"torch._C._functorch._unwrap_batched", across_level},
    {"torch._C._functorch.get_unwrapped", across_level},
    {"torch._C._functorch.unwrap_if_dead", across_level},
    {"torch._C._functorch.is_batchedtensor", across_level},
    {"torch._C._functorch.is_gradtrackingtensor", across_level},
    {"torch._C._functorch.is_functionaltensor", across_level},
    {"torch._C._functorch.is_functorch_wrapped_tensor", across_level},
    {"torch._C._functorch.is_legacy_batchedtensor", across_level},
    {"torch._C._functorch.is_dead_tensor_wrapper", across_level},
    {"torch._C._functorch.maybe_get_level", across_level},
    {"torch._C._functorch.maybe_get_bdim", across_level},
    {"torch._C._functorch.current_level", pure},
    {"torch._C._functorch.maybe_current_level", pure},
    {"torch._functorch.eager_transforms._autograd_grad", gradients_at_level},
    {"torch._functorch.eager_transforms._set_tensor_requires_grad", make_leaf},
    {"torch._functorch.predispatch.lazy_load_decompositions", load},
    {"torch.autograd.forward_ad._maybe_load_decompositions", load},
    {"torch._functorch.eager_transforms.linearize", transform},
    {"torch._C._functorch._func_increment_nesting", open_level},
    {"torch._C._functorch._func_decrement_nesting", state_switch},
    {"torch._C._functorch._wrap_functional_tensor", across_functional},
    {"torch._C._functorch._unwrap_functional_tensor", across_functional},
    {"torch._C._functorch._assert_wrapped_functional", across_level},
    {"torch._C._functorch._propagate_functional_input_mutation", across_functional},
    {"torch._is_functional_tensor", across_level},
    {"torch._sync", across_level},
};

}  // namespace

const std::span<const Row> kTransformRows = rows;

}  // namespace pellucid::rows
