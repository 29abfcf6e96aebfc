// Python's operations on the numbers of a Space: of ints, floats and both mixed, as Python converts them.
//
// What has to be true for an operation to do the same at other values (the divisor is not 0, the result of exp() is
// finite, …) is recorded as a decision of `who` by the operation itself. Null: it cannot be said here, and nothing was
// recorded. So it is where Python raises at the hints, gives a complex number, an int that leaves 64 bits or a result
// of a function that is not finite, and where an operand is a Bool.
#pragma once
#include "symbolic/space.h"

namespace pellucid::symbolic {

enum class Binary : std::uint8_t { Add, Sub, Mul, TrueDiv, FloorDiv, Mod, Pow, Min, Max };
enum class Unary : std::uint8_t { Pos, Neg, Abs, ToFloat, ToInt, Floor, Ceil, Round };

const Expr* binary(Space& space, Binary operation, const Expr* a, const Expr* b, Who who);
const Expr* unary(Space& space, Unary operation, const Expr* a, Who who);
const Expr* math(Space& space, MathFunction function, const Expr* a, Who who);

// Conditions, for the caller to decide. They need nothing to be true. conditions.h joins and negates them.
const Expr* compare(Space& space, Comparison comparison, const Expr* a, const Expr* b);  // null: of Bools
const Expr* truth(Space& space, const Expr* number);                                     // bool(number): it is not 0

}  // namespace pellucid::symbolic
