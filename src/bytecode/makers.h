// Which instruction put each value on the evaluation stack: what a value on it is to the user, who wrote an expression.
#pragma once
#include <vector>

#include "bytecode/instruction.h"

namespace pellucid::bytecode {

inline constexpr int kManyMakers = -1;  // several ways lead there with different ones, or the interpreter put it there

// Before the instruction with this index: for each value on the stack, the bottom one first, the index of the
// instruction that made it, or kManyMakers. Empty where control never comes. It walks the whole code.
std::vector<int> stack_makers(const DecodedCode& code, int index);

}  // namespace pellucid::bytecode
