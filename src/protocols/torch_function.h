// Calls of torch that the classes of their arguments answer: `__torch_function__`, as torch asks for it.
#pragma once
#include <optional>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

// Whether torch would ask a mode of the program (torch.overrides.TorchFunctionMode) before its next function.
bool asks_modes(const Interpreter& t);
// A graph break where it would: the mode hears of more than the one call.
void refuse_asked(const Interpreter& t, PyObject* callable);
// Whether operations on this tensor are what its class, or a mode, says.
bool is_answered(const Interpreter& t, PyObject* value);

// Whether `__torch_function__` of the class has a say in calls of torch.
bool has_torch_function(Interpreter& t, PyObject* value);
// The same of any of the values, and of those in lists, tuples and slices of them, as torch looks for them.
bool any_has_torch_function(Interpreter& t, Args args);

// What a mode, or the classes of the arguments, answer to a call of torch's C code. Nothing: none of them is asked.
std::optional<Result> by_torch_function(Interpreter& t, PyObject* callable, Args args);
// The same of `getattr(tensor, name)` and `setattr(tensor, name, value)` through a descriptor of torch's.
std::optional<Result> getattr_by_torch_function(Interpreter& t, PyObject* tensor, PyObject* name);
std::optional<Result> setattr_by_torch_function(Interpreter& t, PyObject* tensor, PyObject* name, PyObject* value);

// Whether a Python function of torch is followed, where torch's own code has a rule or is a node: it asks the classes
// of its arguments itself, and may call methods that they have of their own.
bool is_followed(Interpreter& t, PyObject* function, Args args);

}  // namespace pellucid::protocols
