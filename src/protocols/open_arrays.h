// Arrays of numpy with sizes that may be others at the next call. What torch's size rules say of the calls that stand
// for a call of numpy (python/pellucid/_numpy_sizes.py) holds for the sizes of what numpy gives.
#pragma once
#include <functional>
#include <string>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

bool has_open_size(Interpreter& t, PyObject* array);
// The sizes of an array, ints and such that change.
py::Owned<> sizes_of(Interpreter& t, PyObject* array);

// What is said of an array with an open size by this attribute; nothing: this one does not hang on it.
py::Owned<> open_attribute(Interpreter& t, PyObject* array, const std::string& name);

// Whether a call of numpy has to be understood for other sizes than those at hand: there is an array with an open size
// among its arguments, or an int that changes where it may say one.
bool depends_on_sizes(Interpreter& t, PyObject* callable, Args args);
bool makes_sizes(PyObject* callable);  // an array with sizes that are among its arguments
// Whether there is an array among them.
bool holds_array(PyObject* value);
// The numbers and the sizes of arrays that change are constants of the region from now on.
void fix_sizes(Interpreter& t, PyObject* value, const std::string& who);

// The arguments of a call as what stands for numpy's functions gets them: `tensor_of` gives the fake tensor for an
// array, and torch has numbers of its own for those that change.
struct CallOnFakes {
  py::Owned<> positional, keywords;
};
using TensorOf = std::function<py::Owned<>(PyObject*)>;
CallOnFakes with_fakes(Interpreter& t, Args args, const TensorOf& tensor_of);
// One argument.
py::Owned<> with_fakes(Interpreter& t, PyObject* value, const TensorOf& tensor_of);
// The same for the sizes at hand, with tensors without data.
py::Owned<> at_hand(Interpreter& t, PyObject* value);
// The number of the region for one that torch has given; anything else is itself, and containers of these.
py::Owned<> numbers_of_torch(Interpreter& t, PyObject* value);

// For backends that run graphs as they are: fake tensors with the sizes of what a call gives in the place of the arrays
// of `value`, which numpy gave for the sizes at hand. Nothing: nobody knows how they hang on those of the arguments.
py::Owned<> sizes_of_call(Interpreter& t, PyObject* callable, Args args, PyObject* value);
// The array has the sizes of this fake.
void note_sizes(Interpreter& t, PyObject* array, PyObject* fake);
// The id of each array with open sizes -> their dimensions and the least that each may be, for pellucid._numpy_steps.
py::Owned<> open_dims(Interpreter& t, Args args);

}  // namespace pellucid::protocols
