// Length, iteration, membership and subscripts of any object, in CPython's order of attempts.
#pragma once
#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result length(Interpreter& t, PyObject* value);
Result iterate(Interpreter& t, PyObject* iterable);  // iter(x)
Result next(Interpreter& t, PyObject* iterator);     // raises StopIteration
// A tuple of all elements when that needs no Python code; null when `value` must be iterated by a polyfill.
py::Owned<> native_elements(Interpreter& t, PyObject* value);
// The same for C code that makes or fills a set: of a set it takes the table, past an __iter__ of its class.
py::Owned<> elements_for_set(Interpreter& t, PyObject* value);
Result contains(Interpreter& t, PyObject* container, PyObject* item);
Result subscript(Interpreter& t, PyObject* container, PyObject* key);
// A null value deletes.
Result store_subscript(Interpreter& t, PyObject* container, PyObject* key, PyObject* value);

}  // namespace pellucid::protocols
