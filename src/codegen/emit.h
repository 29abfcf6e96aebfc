// Capture -> one Python function that stands for the region: it has the original's signature, loads the graph's inputs,
// calls the graph, replays the effects and returns the value. Objects the code needs (the compiled graph, classes,
// constants that cannot be marshalled) live in the function's own globals dict under readable names, never in
// co_consts: code objects are invisible to the garbage collector.
#pragma once
#include <string>
#include <vector>

#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::codegen {

// Walks result and effects, decides which nodes are outputs (in order of first use, each once) and finishes the graph
// with them: graph.output(...), then graph.simplify(). Throws GraphBreak(CannotReconstruct / UnsupportedMutation) when
// something that leaves the region cannot be built again. Called once, before the backend.
void finish_graph(region::Capture& capture);

// The function that stands for a region, and its input loader (borrowed: the function's globals hold it; null when the
// inputs are loaded by bytecode).
struct Region {
  py::Owned<PyFunctionObject> function;
  PyObject* input_loader = nullptr;
};

// What the graph takes, in the order of its placeholders.
std::vector<const source::Source*> graph_inputs(const region::Capture& capture);

// `compiled` is what the backend returned (null when the graph has no calls and no outputs: then no graph call is
// emitted). `name` is the global it gets, "__compiled_fn_0".
Region emit(const region::Capture& capture, PyObject* compiled, const std::string& name);

// The same of a plan that was made before: of a capture that knows values but no objects that the region made.
struct Plan;
Region emit(const region::Capture& capture, Plan plan, PyObject* compiled, const std::string& name);

// Whether the emitted function has a graph to call.
bool calls_graph(const region::Capture& capture);

// The emitted function's body as Python text, for logs and reports. After finish_graph.
std::string describe(const region::Capture& capture, const std::string& name);

// The same for who steps through it: a text for each of its lines (empty: part of another one), and its code, in which
// line 2 + i is the one with index i, and line 1 what comes before.
struct Listing {
  std::string notes;  // comments above it
  std::vector<std::string> lines;
  py::Owned<> code;
  py::Owned<> globals;  // a dict: the objects that the text names, those too that the code has as constants
};
Listing listing(const region::Capture& capture, const std::string& name);

}  // namespace pellucid::codegen
