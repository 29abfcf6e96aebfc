// Operations on numbers that are open (region/number.h): they give another such number and leave no guard, or a truth
// that the region relies on. What these do not know is done with the plain values.
#pragma once
#include <optional>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

// Nothing: no operand is open, or there is no expression for it.
std::optional<Result> number_binary(Interpreter& t, PyObject* left, PyObject* right, int op);
std::optional<Result> number_compare(Interpreter& t, PyObject* left, PyObject* right, int op);
std::optional<Result> number_unary(Interpreter& t, PyObject* value, int opcode);
std::optional<Result> number_truth(Interpreter& t, PyObject* value);
// abs, int, float, math.sqrt …
std::optional<Result> number_call(Interpreter& t, PyObject* callable, Args args);

// What a call of `callable` hands on or computes with itself needs no plain numbers.
bool moves_numbers(PyObject* callable);
// The arguments with the plain values of numbers; `room` holds them.
Args plain_arguments(Interpreter& t, Args args, std::vector<PyObject*>& room);
// + and * of a torch.Size with open sizes, and a slice of one. Nothing: it has none.
std::optional<Result> sizes_binary(Interpreter& t, PyObject* left, PyObject* right, int op);
std::optional<Result> sizes_slice(Interpreter& t, PyObject* sizes, PyObject* slice);
// torch.Size of these items, and the product of a tuple or list. Nothing: no item is open.
std::optional<Result> sizes_made(Interpreter& t, PyObject* items);
std::optional<Result> product_of_items(Interpreter& t, PyObject* items);
// A key or slice for something that is no tensor: it needs the values.
py::Owned<> plain_key(Interpreter& t, PyObject* key);

bool has_number(Args args) noexcept;

// The tensor with data that a plain tensor stands for, where the capture goes by its elements
// (region/known_elements.h); empty: it does not, or this is no such tensor.
py::Owned<> elements_if_known(Interpreter& t, PyObject* value);
// Whether the capture can have the element of this tensor as a number: in the graph, or as a known one.
bool gives_item(Interpreter& t, PyObject* tensor);
// A tensor of one integer or truth that the capture can have as a number: Python takes it where it wants an index.
bool is_index(Interpreter& t, PyObject* value);

// Of a torch.Size with open sizes. It holds them as a tuple does, but what its C code makes of them is checked for
// ints.
bool is_open_size(PyObject* object);

}  // namespace pellucid::protocols
