#include "runtime/function_views.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/aten.h"
#include "graph/bodies.h"
#include "region/node_tensors.h"

namespace pellucid::runtime {
namespace {

// Memory of its results that one of its arguments has, or another of them. An argument that it writes to and gives back
// is no view of it.
std::unordered_set<const void*> shared_memory(const graph::Node& call) {
  std::unordered_set<PyObject*> given;
  std::unordered_set<const void*> known, shared;
  region::each_tensor_taken(call, [&](PyObject* tensor) {
    given.insert(tensor);
    known.insert(aten::meta_of(tensor).storage);
  });
  region::each_tensor_of(call, [&](PyObject* tensor) {
    const aten::Meta meta = aten::meta_of(tensor);
    if (meta.requires_grad && !given.contains(tensor) && !known.insert(meta.storage).second)
      shared.insert(meta.storage);
  });
  return shared;
}

// What is computed of the call in its own graph.
std::unordered_set<const graph::Node*> computed_of(const graph::Node& call) {
  std::unordered_set<const graph::Node*> found{&call};
  for (const graph::Node* node : call.graph->nodes()) {
    graph::for_each_input(*node, [&](const graph::Node* input) {
      if (found.contains(input)) found.insert(node);
    });
  }
  return found;
}

struct Results {
  int count = 0;           // tensors with gradients in that memory, which the graph gives
  bool any_of_it = false;  // one is computed of the function's
  bool all_its_own = true;
};

bool is_lost(const region::Capture& capture, const graph::Node& call, const void* storage) {
  const auto computed = computed_of(call);
  const bool is_in_body = call.graph != &capture.graph;
  std::unordered_set<PyObject*> own;
  region::each_tensor_of(call, [&](PyObject* tensor) { own.insert(tensor); });
  std::unordered_set<const graph::Node*> met;
  Results results;
  for (const graph::Node* node : capture.graph.outputs()) {
    PyObject* value = node->example_value.get();
    if (node->op == graph::Op::Placeholder || value == nullptr || !aten::is_tensor(value) || !met.insert(node).second)
      continue;
    const aten::Meta meta = aten::meta_of(value);
    if (meta.storage != storage || !meta.requires_grad) continue;
    ++results.count;
    results.any_of_it |= is_in_body || computed.contains(node);
    results.all_its_own = results.all_its_own && own.contains(value);
  }
  if (!results.any_of_it) return false;
  const auto is_memory = [&](const graph::Node* node) {
    bool any = false;
    region::each_tensor_of(*node, [&](PyObject* tensor) { any |= aten::meta_of(tensor).storage == storage; });
    return any;
  };
  // A view of an input is made of the input at run time, unless the function itself gives it; the only one of other
  // memory is a result like any other.
  if (std::ranges::any_of(capture.graph.placeholders(), is_memory)) return !results.all_its_own;
  return results.count > 1;
}

// Torch refuses writes to what a function of the program gave as a view; the graph of a compiler has no views.
bool is_written_behind(const graph::Node& call, const void* storage) {
  return std::ranges::any_of(call.graph->nodes(), [&](const graph::Node* node) {
    const auto is_it = [&](const auto& written) { return written.get() == storage; };
    return node != &call && node->step >= call.step && std::ranges::any_of(node->written, is_it);
  });
}

// AOTAutograd takes an input that a function writes to and gives back for one that is written without gradients, and
// leaves the function out.
bool writes_input(const region::Capture& capture, const graph::Node& call) {
  const auto placeholders = capture.graph.placeholders();
  return std::ranges::any_of(call.written, [&](const auto& written) {
    return std::ranges::any_of(placeholders, [&](const graph::Node* input) {
      bool is_it = false;
      region::each_tensor_of(*input,
                             [&](PyObject* tensor) { is_it |= aten::meta_of(tensor).storage == written.get(); });
      return is_it;
    });
  });
}

void look_at(const region::Capture& capture, const graph::Graph& graph, std::int64_t& first) {
  for (const graph::Node* node : graph.nodes()) {
    if (node->body != nullptr) look_at(capture, node->body->graph, first);
    if (!calls_function(*node) || (first >= 0 && node->step >= first)) continue;
    const auto shared = shared_memory(*node);
    if (writes_input(capture, *node) || std::ranges::any_of(shared, [&](const void* storage) {
          return is_lost(capture, *node, storage) || is_written_behind(*node, storage);
        }))
      first = node->step;
  }
}

}  // namespace

bool calls_function(const graph::Node& node) {
  static PyObject* const call = py::import_attr("pellucid._bodies", "FunctionCall").release();
  return node.op == graph::Op::CallFunction && reinterpret_cast<PyObject*>(Py_TYPE(node.target.get())) == call;
}

std::int64_t first_lost_function(const region::Capture& capture) {
  std::int64_t first = -1;
  look_at(capture, capture.graph, first);
  return first;
}

}  // namespace pellucid::runtime
