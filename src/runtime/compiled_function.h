// `CompiledFunction`: what pellucid.compile gives for a Python function. A cache hit runs guards on the vectorcall
// arguments and calls the region's function; nothing else stands between.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::runtime {

// CompiledFunction(function, backend, *, fullgraph=False, instance=None, config=None)
void initialise_compiled_function_type(PyObject* module);

// What `CompiledFunction.__call__` gives to those who ask for it, as compilers that read Python code do. Calls go on to
// run the native one.
void show_call_as(PyObject* function);

bool is_compiled_function(PyObject* object) noexcept;

// Records of the stops of all captures of this function, oldest first; a list of pellucid.errors.BreakRecord.
py::Owned<> break_reasons_of(PyObject* compiled);
// One dict for each entry: {"code", "function", "guards", "scope", "hits", "region"}. Of a function or code object that
// is not compiled itself: the entries of whatever was compiled from it.
py::Owned<> cache_entries_of(PyObject* object);
// The guards of all entries, also those of functions that were compiled on their own while this one ran:
// {region: [{"kind", "source", "source_kind", "text", "file", "line", "operation"}, …]}.
py::Owned<> guards_of(PyObject* compiled);
// What its guards cost at a call with these arguments: (region, nanoseconds of a call, number of guards, [(guard as
// above, whether it is about reading its value, nanoseconds), …]); None when no entry fits the call.
py::Owned<> guard_costs_of(PyObject* compiled, PyObject* args, PyObject* kwargs, int repeats);
// Captures and compiles for a call with these arguments, and runs and keeps nothing of it: the record of the stop, or
// None. What a call would raise of the capture or the backend is raised.
py::Owned<> compile_alone(PyObject* compiled, PyObject* args, PyObject* kwargs);
// Why calls missed, oldest first; a list of str.
py::Owned<> guard_failures_of(PyObject* compiled);
py::Owned<> recompiles_of(PyObject* compiled);

}  // namespace pellucid::runtime
