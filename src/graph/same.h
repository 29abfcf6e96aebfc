// Whether two graphs compute the same of their inputs, node by node.
#pragma once
#include <functional>

#include "graph/graph.h"

namespace pellucid::graph {

// `same_values`: whether the examples of two nodes are alike.
bool are_same(const Graph& one, const Graph& other,
              const std::function<bool(PyObject* one, PyObject* other)>& same_values);

}  // namespace pellucid::graph
