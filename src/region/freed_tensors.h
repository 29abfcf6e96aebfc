// Results of a region whose autograd graph a backward pass of it has freed. Backends that differentiate the graph
// cannot be asked for their gradients: the graph gives them without, and emitted code has them say what torch says of
// a second pass.
#pragma once
#include <unordered_map>

#include "graph/graph.h"

namespace pellucid::region {

class FreedTensors {
 public:
  explicit FreedTensors(graph::Graph& graph) : graph_(graph) {}
  // What the graph gives in place of `node`, which computes the fake; null: a backward pass from it is possible.
  graph::Node* detached(PyObject* fake, graph::Node* node);

 private:
  graph::Graph& graph_;
  std::unordered_map<PyObject*, graph::Node*> known_;
};

}  // namespace pellucid::region
