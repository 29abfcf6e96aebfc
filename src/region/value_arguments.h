// Which arguments of torch functions may be any number: the rows of value_arguments.def, and what is asked of them.
#pragma once
#include <Python.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "region/result.h"

namespace pellucid::region {

class Numbers;
struct Region;
struct NumberPolicy;

struct ValueArguments {
  std::vector<std::size_t> positions;
  std::vector<std::string_view> keywords;
  bool as_tensors = false;     // in these positions
  bool are_fractions = false;  // between 0 and 1
  std::string_view as_tensor;  // the keyword of the one position where a tensor is as good; empty: all or none
};

// Null: none of its arguments is known to be one.
const ValueArguments* value_arguments(PyObject* target);
// Whether the graph takes any number as argument `i` of this call.
bool takes_any_number(const ValueArguments* known, Args args, std::size_t i);
// Whether a float that changes may be a tensor of no dimension among these arguments: the result's dtype is that of the
// tensors with dimensions.
bool takes_scalar_tensors(const ValueArguments* known, Args args);
// Whether argument `i` is one where it may.
bool may_be_tensor(const ValueArguments& known, Args args, std::size_t i);
// Whether this is `number / tensor` with a number that is a tensor of no dimension in the graph.
bool divides_scalar_tensor(const NumberPolicy& policy, PyObject* target, Args args);
// Whether an operator has such a number and a tensor of floats that has no dimension itself.
bool has_two_scalar_tensors(const NumberPolicy& policy, PyObject* target, Args args);
// A list or tuple of numbers, one of them open.
bool holds_open_numbers_alone(PyObject* value);
// A list as an index is a tensor of indices, of which the shape tells no more than how many they are.
bool is_list_of_indices(PyObject* index);
bool has_list_of_indices(PyObject* key);
// A break where torch would ask a list or tuple among them in Python: what its class says is not in the graph, which
// has plain ones.
void refuse_read_in_python(Region& region, PyObject* target, Args args);
// Whether argument `i` is the key of an item of a tensor, with such lists.
bool is_key_with_indices(PyObject* target, Args args, std::size_t i);
// Another number may be too large for a dtype, or zero.
bool takes_any_open_number(PyObject* target, Args args);
// Whether a number lies between 0 and 1, which the region relies on then.
bool is_fraction(Numbers& numbers, PyObject* object);

}  // namespace pellucid::region
