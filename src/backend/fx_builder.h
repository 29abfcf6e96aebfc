// One pass over our graph that leaves a torch.fx.Graph.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::backend {

class FxBuilder {
 public:
  explicit FxBuilder(const graph::Graph& graph);
  py::Owned<> build();                               // once
  PyObject* fx_node(const graph::Node* node) const;  // borrowed; after build()

 private:
  void add(const graph::Node& node);
  void add_output();
  py::Owned<> create(graph::Op op, PyObject* name, PyObject* target, PyObject* args, PyObject* kwargs);
  void enter_into_table(graph::Op op, PyObject* node, PyObject* target);
  void finish_names();

  const graph::Graph& source_;
  py::Owned<> out_, root_, name_of_object_, used_names_, base_count_, table_;
  std::vector<py::Owned<>> placeholders_, calls_;
  Py_ssize_t count_ = 0;
};

}  // namespace pellucid::backend
