// Sizes that the program has read of tensors of the graph. A compiler gets such a number as the size of that tensor
// again: torch.fx's symbols prove little of the same number in other words, and slowly.
#pragma once
#include <string>
#include <unordered_map>

#include "graph/graph.h"
#include "py/ref.h"
#include "region/result.h"

namespace pellucid::region {

struct Region;

class NodeSizes {
 public:
  explicit NodeSizes(Region& region) : region_(region) {}
  // What `target` of the tensor among the arguments has given, as numbers of the region.
  void note(PyObject* target, const Args& args, PyObject* result);
  // A new node that reads the number; null: it is no size of a tensor that the graph has there.
  graph::Node* read(PyObject* number, py::Owned<> value) const;

 private:
  struct Place {
    PyObject* tensor;
    Py_ssize_t dim;
  };
  void note(PyObject* number, Place place);

  Region& region_;
  std::unordered_map<PyObject*, Place> places_;  // by number
};

}  // namespace pellucid::region
