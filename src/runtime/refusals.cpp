#include "runtime/refusals.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/aten.h"
#include "aten/gradients.h"
#include "region/inner_hooks.h"
#include "runtime/backend_call.h"
#include "runtime/compile.h"
#include "runtime/function_views.h"
#include "runtime/report.h"
#include "runtime/restarts.h"

namespace pellucid::runtime {
namespace {

// AOTAutograd takes no inputs in one memory that is written to, of which one requires gradients and another does not.
bool is_written_beside(const region::Capture& capture, PyObject* leaf) {
  const void* const storage = aten::meta_of(leaf).storage;
  const auto has_it = [&](const auto& held) { return held.get() == storage; };
  const auto writes = [&](const graph::Node* node) { return std::ranges::any_of(node->written, has_it); };
  const auto is_beside = [&](const graph::Node* input) {
    PyObject* const other = input->example_value.get();
    return other != leaf && aten::is_tensor(other) && aten::meta_of(other).storage == storage;
  };
  return std::ranges::any_of(capture.graph.placeholders(), is_beside) &&
         std::ranges::any_of(capture.graph.nodes(), writes);
}

}  // namespace

void refuse_inference_results(const region::Capture& capture, PyObject* backend) {
  if (!has_mark(backend, "aot")) return;
  static PyObject* const enter = py::import_attr("torch.autograd.grad_mode", "_enter_inference_mode").release();
  bool enters = false;
  for (const graph::Node* node : capture.graph.nodes()) enters = enters || node->target.get() == enter;
  if (!enters) return;
  for (const graph::Node* node : capture.graph.outputs()) {
    PyObject* const result = node->example_value.get();
    if (aten::is_tensor(result) && aten::is_inference(result))
      throw GraphBreak(Reason::CannotReconstruct, {{"type", "tensor made in inference mode (by this backend)"}});
  }
}

void refuse_leaves(const region::Capture& capture, PyObject* backend) {
  const bool is_compiled = graph_numbers(backend) != region::GraphNumbers::All;
  if (capture.flagged.empty() && (capture.leaves.empty() || !is_compiled)) return;
  std::int64_t first = -1;
  const auto meet_at = [&](std::int64_t step) {
    if (first < 0 || step < first) first = step;
  };
  const auto meet = [&](PyObject* leaf) {
    const auto made = capture.leaves.find(leaf);
    if (is_compiled && made != capture.leaves.end()) meet_at(made->second);
  };
  const auto meet_flagged = [&](PyObject* leaf) {
    if (const auto flag = capture.flagged.find(leaf); flag != capture.flagged.end()) meet_at(flag->second.step);
  };
  std::vector<PyObject*> left;  // that may have a way to gradients behind the graph
  for (const auto* nodes : {&capture.graph.placeholders(), &capture.graph.outputs()}) {
    for (const graph::Node* node : *nodes) {
      if (aten::is_tensor(node->example_value.get())) left.push_back(node->example_value.get());
    }
  }
  for (PyObject* tensor : left) {
    if (aten::is_leaf_with_grad(tensor) || aten::is_parameter(tensor)) meet(tensor);
    // The graph may have made it as a view of an alias.
    if (const auto base = capture.flagged.empty() ? py::Owned<>() : aten::base_of_view(tensor))
      meet_flagged(base.get());
  }
  for (const auto& leaf : aten::backward_path(left).leaves) {
    meet(leaf.get());
    // What requires gradients in the region alone is a leaf of the graph.
    if (!aten::is_leaf_with_grad(leaf.get())) meet_flagged(leaf.get());
  }
  for (const auto& [leaf, flag] : capture.flagged) {
    if (is_compiled && is_written_beside(capture, leaf)) meet_at(flag.step);
    // Whoever differentiates a pass behind the region asks the leaf itself, which may require gradients again.
    // AOTAutograd lets nobody do so.
    if (!flag.aliases.empty() && !has_mark(backend, "aot") && aten::keeps_any(left, {leaf})) meet_at(flag.step);
  }
  if (first >= 0) throw LeafLeaves{first};
}

void refuse_moved(const region::Capture& capture) {
  if (capture.moved.empty()) return;
  std::unordered_map<const void*, std::int64_t> memory;  // that a tensor moves from or to -> the step
  std::unordered_map<PyObject*, std::int64_t> moved;
  std::unordered_set<const graph::Node*> moves;
  for (const region::Moved& one : capture.moved) {
    memory.try_emplace(one.from.get(), one.step);
    memory.try_emplace(one.to.get(), one.step);
    moved.try_emplace(one.fake.get(), one.step);
    moves.insert(one.node);
  }
  std::int64_t first = -1;
  const auto meet = [&](const auto& steps, auto key) {
    const auto found = steps.find(key);
    if (found != steps.end() && (first < 0 || found->second < first)) first = found->second;
  };
  for (const graph::Node* node : capture.graph.nodes()) {
    if (moves.contains(node)) continue;
    for (const auto& place : node->written) meet(memory, place.get());
  }
  std::vector<PyObject*> given;
  for (const auto* nodes : {&capture.graph.placeholders(), &capture.graph.outputs()}) {
    for (const graph::Node* node : *nodes) {
      PyObject* const tensor = node->example_value.get();
      if (!aten::is_tensor(tensor) || moved.contains(tensor)) continue;
      meet(memory, aten::meta_of(tensor).storage);
      if (nodes == &capture.graph.outputs()) given.push_back(tensor);
    }
  }
  for (const auto& leaf : aten::backward_path(given).leaves) meet(moved, leaf.get());
  if (first >= 0) throw MovedIsSeen{first};
}

void refuse_inner_hooks(region::Capture& capture) {
  if (capture.hooked_inside.empty()) return;
  // A backward of the program may give no gradient to what a hook waits for.
  const auto runs_program = [](const graph::Node* node) { return calls_function(*node); };
  if (std::ranges::any_of(capture.graph.nodes(), runs_program)) throw HookNotInside{capture.hooked_inside.front().step};
  if (const std::int64_t step = region::first_not_as_eager(capture); step >= 0) throw HookNotInside{step};
  region::tell_results(capture);
}

void refuse_lost_functions(const region::Capture& capture, PyObject* backend) {
  if (graph_numbers(backend) == region::GraphNumbers::All) return;
  if (const std::int64_t step = first_lost_function(capture); step >= 0) throw FunctionIsLost{step};
}

bool watches_late_reads(const region::Effect& effect) {
  static PyObject* const watch = py::import_attr("pellucid._late_guards", "watch").release();
  return effect.value.get() == watch;
}

void refuse_effects(region::Capture& capture, PyObject* backend) {
  if (!has_mark(backend, "exports")) return;
  std::erase_if(capture.effects, watches_late_reads);  // a graph alone reads its own attributes
  auto effects = effect_rows(capture);
  if (capture.after) py::check(PyList_Append(effects.get(), py::str("the state of torch behind the call").get()));
  if (!capture.draws.empty()) py::check(PyList_Append(effects.get(), py::str("the random numbers it draws").get()));
  if (PyList_GET_SIZE(effects.get()) == 0) return;
  if (capture.after || !capture.draws.empty() || !has_mark(backend, "drops_effects")) {
    const auto text = py::take(PyUnicode_Join(py::str(", ").get(), effects.get()));
    throw GraphBreak(Reason::SideEffect, {{"callee", "what it changes (" + py::text_of(text.get()) + ")"}});
  }
  (void)py::take(PyObject_CallMethod(backend, "note_dropped", "O", effects.get()));
  capture.effects.clear();
}

}  // namespace pellucid::runtime
