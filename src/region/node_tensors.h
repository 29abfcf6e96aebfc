// The tensors that nodes of a graph give and take, by the values of the capture.
#pragma once
#include "aten/aten.h"
#include "graph/graph.h"
#include "region/objects.h"

namespace pellucid::region {

template <class Visit>
void each_tensor_of(const graph::Node& node, Visit&& visit) {
  if (node.example_value) each_tensor(node.example_value.get(), visit);
}

template <class Visit>
void each_tensor_taken(const graph::Node& node, Visit&& visit) {
  graph::for_each_input(node, [&](const graph::Node* input) { each_tensor_of(*input, visit); });
}

// The memory that a node may write: what it is known to write, else all that it takes where it has an effect at all.
template <class Visit>
void each_storage_written(const graph::Node& node, Visit&& visit) {
  for (const aten::HeldStorage& held : node.written) visit(static_cast<const void*>(held.get()));
  if (!node.impure || !node.written.empty()) return;
  each_tensor_taken(node, [&](PyObject* tensor) { visit(static_cast<const void*>(aten::meta_of(tensor).storage)); });
}

}  // namespace pellucid::region
