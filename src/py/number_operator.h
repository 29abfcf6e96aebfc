// The rows of operators.def, and what stands behind each argument of BINARY_OP: a + b, a += b and so on, for any
// objects.
#pragma once
#include <Python.h>

namespace pellucid::py {

using NumberOperator = PyObject* (*)(PyObject*, PyObject*);  // a new reference; null with an error pending

struct BinaryOperator {
  NumberOperator call;
  const char *symbol, *function, *method, *reflected;
  const char* inplace;  // null when not in place
};
const BinaryOperator& binary_operator(int argument) noexcept;
constexpr int kInPlace = 13;  // the arguments from here on are the in-place ones, in the same order

// Comparisons are told from them by this: kCompareBase + Py_LT …
constexpr int kCompareBase = 100;
struct Comparison {
  const char *symbol, *function, *method;
  int swapped;  // a < b is b > a
};
const Comparison& comparison(int op) noexcept;  // op: Py_LT …

// What a + b, a < b and their like still are when the first candidate, a method written in Python, gave NotImplemented:
// the other operand's turn. `tried`: how many had theirs; 0: that of an in-place method. A new reference; null with an
// error pending.
PyObject* number_operator_after(PyObject* left, PyObject* right, int op, int tried) noexcept;

}  // namespace pellucid::py
