// Operators on any object, in CPython's order of attempts: native on builtin values, recorded on tensors, by special
// methods on everything else.
#pragma once
#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result binary(Interpreter& t, PyObject* left, PyObject* right, int op);   // op as in BINARY_OP
Result compare(Interpreter& t, PyObject* left, PyObject* right, int op);  // Py_LT …
Result unary(Interpreter& t, PyObject* value, int opcode);
// The next candidate of a binary operator or comparison; `stage` is the number of those already tried.
Result reflected(Interpreter& t, PyObject* left, PyObject* right, int op, int stage);
Result truth(Interpreter& t, PyObject* value);                  // a bool
bool is_same(Interpreter& t, PyObject* left, PyObject* right);  // `is`
Result is_instance(Interpreter& t, PyObject* object, PyObject* type, bool subclass);

}  // namespace pellucid::protocols
