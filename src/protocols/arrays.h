// Python's operations on numpy's arrays and scalars, and calls of numpy: numpy itself, over stand-ins, says what each
// gives; the graph calls it with the real ones.
#pragma once
#include <optional>

#include "protocols/interpreter.h"
#include "py/number_operator.h"

namespace pellucid::protocols {

// `callable` is what the node calls; of a method its name. `writes_first`: it changes its first argument.
Result array_call(Interpreter& t, graph::Op op, PyObject* callable, Args args, bool writes_first = false);

Result array_getattr(Interpreter& t, PyObject* array, PyObject* name);
Result array_method(Interpreter& t, PyObject* array, PyObject* name, bool* unbound);
Result array_length(Interpreter& t, PyObject* array);
Result array_iterator(Interpreter& t, PyObject* array);
Result array_truth(Interpreter& t, PyObject* array);
Result array_contains(Interpreter& t, PyObject* array, PyObject* item);
Result array_item(Interpreter& t, PyObject* array, PyObject* key);
Result set_array_item(Interpreter& t, PyObject* array, PyObject* key, PyObject* value);  // value null deletes

// Nothing where no operand is numpy's.
std::optional<Result> numpy_binary(Interpreter& t, PyObject* left, PyObject* right, const py::BinaryOperator& op);
std::optional<Result> numpy_compare(Interpreter& t, PyObject* left, PyObject* right, int op);
// int() or float() of one element.
Result array_number(Interpreter& t, PyObject* type, PyObject* array);
Result numpy_unary(Interpreter& t, PyObject* value, PyObject* function);

// Whether two arrays are one object, which is not known of what may be a view.
void refuse_aliases(Interpreter& t, PyObject* left, PyObject* right);

}  // namespace pellucid::protocols
