// What the program sees of expressions that torch or the graph made.
#pragma once
#include <unordered_map>

#include "py/ref.h"
#include "symbolic/expr.h"
#include "symbolic/operations.h"

namespace pellucid::region {

class Numbers;

class SaidNumbers {
 public:
  explicit SaidNumbers(Numbers& numbers) : numbers_(numbers) {}

  // A Number, or an int, float or bool where it is a constant.
  py::Owned<> of(const symbolic::Expr* expr);
  // The Number of an expression that a node of the graph gives.
  py::Owned<> of_node(const symbolic::Expr* expr);
  void note_int_of(PyObject* truth, const symbolic::Expr* expr);  // int(truth) is the number of this expression
  PyObject* known(const symbolic::Expr* expr) const;              // borrowed; null: nobody has asked for it

 private:
  py::Owned<> applied(symbolic::Binary operation, const py::Owned<>& left, const py::Owned<>& right);
  py::Owned<> called(PyObject* function, const symbolic::Expr* expr);
  py::Owned<> made(const symbolic::Expr* expr);

  Numbers& numbers_;
  std::unordered_map<const symbolic::Expr*, py::Owned<>> by_expr_;
};

}  // namespace pellucid::region
