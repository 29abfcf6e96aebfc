// The C function behind each argument of BINARY_OP (bytecode/operators.def): a + b, a += b and so on, for any objects.
#pragma once
#include <Python.h>

namespace pellucid::py {

using NumberOperator = PyObject* (*)(PyObject*, PyObject*);  // a new reference; null with an error pending

NumberOperator number_operator(int argument) noexcept;

}  // namespace pellucid::py
