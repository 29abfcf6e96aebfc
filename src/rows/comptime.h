// Code of the program that runs while its capture stands where it is called: pellucid.comptime, and torch._dynamo's.
#pragma once
#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::rows {

// The torch.fx.Graph of a graph that is not finished. Set by the rooms behind this one, which know torch.fx.
inline py::Owned<> (*fx_graph_of)(const graph::Graph& graph) = nullptr;

}  // namespace pellucid::rows
