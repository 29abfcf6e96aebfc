// What a kept capture may consist of: which guards have a form, what its graph and its plan may call. Writing refuses
// the rest with a reason, reading as a miss.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>

#include "codegen/plan.h"
#include "graph/graph.h"
#include "guards/guard.h"

namespace pellucid::runtime {

inline constexpr int kDeepest = 100;  // nesting of arguments, expressions, sources

// Operators as torch's functions and methods, and Python's own.
bool is_operator(PyObject* callee);
// getattr(tensor, "T"): an attribute that C code computes.
bool is_read_of_tensor(const graph::Node& node);
// A name that torch.Tensor has.
bool is_method_of_tensor(PyObject* name);
// How containers, and objects without code of their own, are made and filled.
bool is_builder(PyObject* callee);
// A statement changes what the plan makes, or what arguments and free variables lead to.
bool changes_only_its_own(const codegen::Stmt& stmt);

bool is_abstract(PyObject* object);
// What is registered with an abstract class and with those below it: with this and the bases of a class it is known
// what is an instance of what.
std::string registered_with(PyObject* type);

// How a guard is written, by its kind.
enum class Form : std::uint8_t {
  Plain,   // number, other
  Object,  // the operand is an object of the table
  Lookup,  // TYPE_LOOKUP
  Function,
  Tensor,
  State,
  Sources,  // DISTINCT
  Refused,
};
Form form_of(guards::Kind kind);
bool has_operand_of_its_kind(const guards::Guard& guard);

}  // namespace pellucid::runtime
