// Graphs inside of the graph: opened and closed while a region is recorded, then called by an operator.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::region {

struct Region;

class BodyRecorder {
 public:
  explicit BodyRecorder(Region& region) : region_(region) {}

  // The body gets what is recorded until it is closed. `first`: tensors that it is given, in this order, whether it
  // uses them or not.
  graph::Body& open(const char* kind, std::span<PyObject* const> first);
  graph::Node* close();
  void discard();
  // The call of an operator on bodies: `target` gets them and what they use. Tensors below `result` are those that it
  // gives; others of the bodies are when they are used.
  graph::Node* call(PyObject* target, py::Owned<> plain, graph::Node* body, PyObject* options, PyObject* result);
  graph::Node* here(PyObject* tensor) const;  // its node, in the graph that is recorded now; it has one

  // An operator in the open body wrote to a tensor, which had this node before.
  void note_written(PyObject* tensor, graph::Node* before);

 private:
  void take_back_names();

  Region& region_;
  // Of each open body: tensors from outside of it that it has written, and their nodes before.
  std::vector<std::vector<std::pair<PyObject*, graph::Node*>>> renamed_;
};

}  // namespace pellucid::region
