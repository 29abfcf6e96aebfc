// Items of tensors whose place other tensors say.
#pragma once
#include <optional>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

// A key of a tensor with an integer for each tensor that stands for one: of a tensor of integers without dimensions
// torch reads the value, as item() does, and goes on with that. Nothing where there is none, or where capture takes no
// numbers that only the graph knows.
std::optional<py::Owned<>> key_with_numbers(Interpreter& t, PyObject* tensor, PyObject* key);

}  // namespace pellucid::protocols
