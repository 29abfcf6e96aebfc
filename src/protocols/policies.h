// What most rules for C functions do, used as rules themselves.
#pragma once
#include "protocols/interpreter.h"

namespace pellucid::protocols {

// Reads everything below its arguments and changes nothing: guard all, run for real.
Result pure(Interpreter& t, PyObject* callable, Args args);
// The same, but elements may be anything: only the containers themselves are read (len, list(x), dict.keys …).
Result shallow(Interpreter& t, PyObject* callable, Args args);
// Changes its first argument (list.append …): works on the shadow.
Result mutates_self(Interpreter& t, PyObject* callable, Args args);
Result adds_to_self(Interpreter& t, PyObject* callable, Args args);  // the same; takes nothing out of it
Result refuse(Interpreter& t, PyObject* callable, Args args);
// Regions of it would not pay: the call is one step, and the hook captures the functions of the program in it.
Result runs_as_it_is(Interpreter& t, PyObject* callable, Args args);
Result nothing(Interpreter& t, PyObject* callable, Args args);  // has no effect here

Result run_native(Interpreter& t, PyObject* callable, Args args);  // the real call, exceptions become the program's

// f(argument) makes what walks the container, an iterator or view; null: it walks none.
Result walker_of(Interpreter& t, PyObject* f, PyObject* argument, PyObject* container);

}  // namespace pellucid::protocols
