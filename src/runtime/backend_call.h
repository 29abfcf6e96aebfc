// The backend gets a graph, and gives what stands for it.
#pragma once
#include <Python.h>

#include <string>

#include "region/capture.h"
#include "region/number_history.h"
#include "runtime/cache.h"
#include "trace/trace.h"

namespace pellucid::runtime {

struct Compiled {
  py::Owned<> graph;
  py::Owned<> as_captured;  // empty: the backend has made nothing else of it
};

// Throws what asks for another capture (restarts.h), GraphBreak where the backend refuses the graph, its error
// otherwise. `stop`: why the region ends before the program does, else null.
Compiled call_backend(PyFunctionObject* function, region::Capture& capture, Cache& cache, const trace::BreakInfo* stop,
                      const std::string& name);

// Which open numbers such a backend takes in its graphs.
region::GraphNumbers graph_numbers(PyObject* backend);

// [(code, offset), …], outermost first.
py::Owned<> stack_of(const trace::BreakInfo& stop);

}  // namespace pellucid::runtime
