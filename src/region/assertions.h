// Nodes that assert what the graph goes by.
#pragma once
#include <string>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::region {

struct Region;

// `text`: the condition, for the message.
void assert_scalar(Region& region, graph::Arg condition, const std::string& text);

// What an operator gives has sizes that the capture knows by the elements of tensors, which are guarded: the graph says
// them, since a compiler that traces it does not know the elements.
void say_sizes(Region& region, PyObject* result);

}  // namespace pellucid::region
