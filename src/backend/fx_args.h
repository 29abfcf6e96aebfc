// Arguments of our nodes as Python objects.
#pragma once
#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::backend {

// `value_of(node)` gives the Python object that stands for a node (a torch.fx.Node, or a value), borrowed.
using ValueOf = PyObject* (*)(const graph::Node* node, void* context);

py::Owned<> object_of(const graph::Arg& arg, ValueOf value_of, void* context);

// A tuple of `items`, or an instance of the tuple subclass `type` when there is one (namedtuple, torch.Size).
py::Owned<> tuple_of(py::Owned<> items, PyObject* type);

}  // namespace pellucid::backend
