// What Python code may ask of a capture under way: its frames, values, graph and guards. The code of pellucid.comptime
// and the readers of instructions ask by it. Looking guards and fixes nothing, but for "fix".
#pragma once
#include <Python.h>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::region {

struct Region;

// The torch.fx.Graph of a graph that is not finished. Set by the rooms behind this one, which know torch.fx.
inline py::Owned<> (*fx_graph_of)(const graph::Graph& graph) = nullptr;

// A Python function of a question and what it is about. It answers as long as this object lives; later it raises
// RuntimeError. Questions: "frames", "locals" (of a frame, 0 is the innermost), "stack" (without the operands of the
// call that runs), "whole_stack", "facts" (of a value), "fix" (a number), "guards" (from a number on), "guard_count",
// "graph" (as torch.fx), "graph_text", "graph_state" (it changes with what "graph_text" says).
class Inside {
 public:
  explicit Inside(Region& region);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  PyObject* function() const noexcept { return function_.get(); }

 private:
  Region** open_;  // the capsule's that `function_` is bound to
  py::Owned<> function_;
};

}  // namespace pellucid::region
