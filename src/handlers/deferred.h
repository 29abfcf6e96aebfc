// Calls that may wait until the graph has run: logging, warnings, and config.reorderable_logging_functions.
#pragma once
#include "handlers/registry.h"

namespace pellucid::handlers {

// Whether config.reorderable_logging_functions names this callable. `self`: the first argument when there is one.
bool is_reorderable(const Tracer& t, PyObject* callable, PyObject* self);
// The call waits; its value is None.
Result reorder(Tracer& t, PyObject* callable, Args args);
// Of a logger's method (its object comes first) or warnings.warn. Refuses what cannot be kept until then.
Result defer(Tracer& t, PyObject* callable, Args args);

// For `defer`: ends the region when an object of the program would see the call (observers.cpp).
void need_no_observer(Tracer& t, PyObject* callable, Args args);

py::Owned<> reorderable_functions();  // as a tuple; empty when there are none

// An f-string with tensors in it, on the stack between its making and the call that prints it: its value exists only
// when the call happens. The tuple of its parts: texts, and (tensor, conversion, format, version) tuples.
py::Owned<> new_late_text(Tracer& t, py::Owned<> parts);
PyObject* parts_of_late_text(PyObject* object);  // borrowed; null when it is none

}  // namespace pellucid::handlers
