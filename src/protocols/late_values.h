// Late values (region/number.h): what functions that raise for no number or text gave for such ones. They leave no
// guard but that of their operands' types.
#pragma once
#include <optional>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

// str, repr, format, hex, round to some digits, str.format, str.join … Nothing: no operand is a number of the region,
// or the function may raise.
std::optional<Result> late_call(Interpreter& t, PyObject* callable, Args args);
// What a tuple, torch.Size, list or dict of the region prints as, with numbers of the region in it.
std::optional<Result> late_text_of(Interpreter& t, PyObject* container);
// Texts that are put together, and those that % makes.
std::optional<Result> late_binary(Interpreter& t, PyObject* left, PyObject* right, int op);
// &, | and ^ of ints.
std::optional<Result> late_bits(Interpreter& t, PyObject* left, PyObject* right, int op);
// A number and an infinity or NaN, added, subtracted or multiplied: what comes of that is no number that a capture
// knows anything of.
std::optional<Result> late_not_finite(Interpreter& t, PyObject* left, PyObject* right, int op);
// Arithmetic of what item() of a tensor gives behind the graph (region/late_items.h), which may be NaN or infinite too.
// Nothing: an operation that raises for some of such numbers.
std::optional<Result> late_arithmetic(Interpreter& t, PyObject* left, PyObject* right, int op);
std::optional<Result> late_negative(Interpreter& t, PyObject* value);
// What an f-string makes of its parts.
std::optional<Result> late_join(Interpreter& t, PyObject* parts);

}  // namespace pellucid::protocols
