// What emitted code calls for its graph. It passes the call on. When the graph raises, nothing of the region's effects
// has happened yet; what the graph itself has done (writes into inputs, random numbers drawn, switched torch state) is
// taken back. So the call can be run again by the interpreter, where the program's own handlers see the error. Before
// that, what a backend has made of the graph gives way to the graph as it was captured: if that one does not raise, the
// error was no error of the program.
#pragma once
#include <Python.h>

#include <memory>

#include "aten/aten.h"
#include "py/ref.h"
#include "runtime/undo_plan.h"

namespace pellucid::runtime {

struct GraphFacts {
  UndoPlan undo;
  // The backend made something else of the graph, so an error may be its own: this runs it node by node.
  py::Owned<> as_captured;
  bool computes_arrays = false;  // for numpy, which may have been told to make errors of warnings
  py::Owned<> drawer;            // of the random numbers that are among its arguments; empty: none are
};

// `before`: the torch state under which the region starts.
py::Owned<> make_graph_call(PyFunctionObject* function, PyObject* compiled, GraphFacts facts,
                            std::unique_ptr<aten::GlobalState> before);
void initialise_graph_call_type(PyObject* module);

// Whether `graph_call` (may be null) is what raised the error that is pending on this thread, and the region can be run
// again by the interpreter: everything is as it was before the graph was called.
bool may_run_again(PyObject* graph_call) noexcept;

// Whether that error came from code that is no part of the graph, such as a signal's handler. Asked before anything
// else runs.
bool was_interrupted() noexcept;

// pellucid.debug: traced calls run regions, and graphs are the code of these files, a set of names that may grow. Null:
// no more.
void step_through_regions(PyObject* files);

// The second run gave a result: how many of them did so one after the other. Of a graph that is alive.
int note_rerun(PyObject* graph_call) noexcept;

// With the error of the graph pending, and may_run_again: the second run. `run` gives a new reference or null.
template <class F>
py::Owned<> run_again(PyObject* graph_call, F&& run) {
  const auto held = py::Owned<>::share(graph_call);
  const bool interruption = was_interrupted();
  const py::PythonError error;
  auto result = py::take(run());
  if (interruption) throw error;
  return result;
}

}  // namespace pellucid::runtime
