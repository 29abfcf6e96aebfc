// Calls that may wait until the graph has run: logging, warnings, and config.reorderable_logging_functions.
#pragma once
#include "protocols/interpreter.h"

namespace pellucid::protocols {

// Whether config.reorderable_logging_functions names this callable. `self`: the first argument when there is one.
bool is_reorderable(const Interpreter& t, PyObject* callable, PyObject* self);
// The call waits; its value is None.
Result reorder(Interpreter& t, PyObject* callable, Args args);
// Of a logger's method (its object comes first) or warnings.warn. Refuses what cannot be kept until then.
Result defer(Interpreter& t, PyObject* callable, Args args);

// The same of any callable and of arguments that stay what they are: atoms, and objects of the program by identity.
Result defer_as_it_is(Interpreter& t, PyObject* callable, Args args);

py::Owned<> reorderable_functions();  // as a tuple; empty when there are none

// An f-string with tensors in it, on the stack between its making and the call that prints it: its value exists only
// when the call happens. The tuple of its parts: texts, and (tensor, conversion, format, version) tuples.
py::Owned<> new_late_text(Interpreter& t, py::Owned<> parts);
PyObject* parts_of_late_text(PyObject* object);  // borrowed; null when it is none

}  // namespace pellucid::protocols
