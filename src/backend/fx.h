// Graph -> torch.fx, once, in bulk, at the hand-off to a backend.
#pragma once
#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::backend {

// A function that runs the graph: positional inputs in placeholder order, returns a tuple. Assembled natively from the
// nodes (no source text, no compile()), frees each intermediate after its last use.
py::Owned<> native_forward(const graph::Graph& graph);

// A torch.fx.GraphModule (our lazy subclass in pellucid/_fx.py): nodes filled through the C API; `forward` is
// native_forward until somebody edits and recompiles the graph; `code`/`print_readable()` are made when asked for, so
// is the metadata that costs text (stack traces, sources). The graph must have its output.
py::Owned<> graph_module(const region::Capture& capture);

// The torch.fx.Graph alone.
py::Owned<> fx_graph(const graph::Graph& graph);

}  // namespace pellucid::backend
