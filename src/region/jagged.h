// Jagged nested tensors: torch's own class around the values of all parts in one tensor and the offsets at which the
// parts begin. Its sizes are Python's, and one of them is a nested int: a number without a value, of which torch keeps
// one for each tensor of offsets (or lengths).
#pragma once
#include <Python.h>

#include <vector>

#include "aten/aten.h"
#include "graph/graph.h"
#include "py/ref.h"
#include "source/source.h"

namespace pellucid::region {

struct Region;

bool is_jagged_class(PyTypeObject* type) noexcept;
bool is_jagged(PyObject* tensor) noexcept;
// Guards what such a tensor from outside is made of, its nested int included.
void guard_jagged(Region& region, PyObject* tensor);
// A torch.SymInt that has no value.
bool is_nested_int(PyObject* value);
// What torch says of sizes: a nested int has to be one that the program had before, which is found by its path.
void check_nested_ints(const Region& region, PyObject* value);
// What computes it in the graph; null: no tensor of the graph has this size.
graph::Node* nested_int_node(Region& region, PyObject* number);
// Whether it gives one of plain tensors: the class itself, or what a graph calls in place of torch's operators.
bool makes_jagged(PyObject* callable);
// The outer stride is the nested int times a number, of which torch knows no other product.
void fix_ragged_stride(Region& region, PyObject* tensor, const aten::OpenShape& values);
// Whether this is one of the tensors whose size says the least or the largest length: torch's class marks it as
// dynamic, which nobody has promised.
bool says_length(PyObject* tensor, const source::Source* source);
// Whether there are tensors around tensors at any depth among these, and all are jagged ones.
bool are_jagged(const std::vector<PyObject*>& values);
// Calls torch with such fakes among the arguments. The class is torch's own, and answers as it does in eager.
py::Owned<> call_jagged(Region& region, PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs,
                        PyObject* kwnames);
// Whether torch's compilers know what to do with such a tensor, or none is asked.
bool is_for_compilers(const Region& region, PyObject* tensor);
// One around these parts, of which the offsets have the nested int that those of the real tensor have.
py::Owned<> jagged_like(aten::FakeScope& fakes, PyObject* real, PyObject* parts);

}  // namespace pellucid::region
