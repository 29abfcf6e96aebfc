// Instructions that can be edited and put together again. `offset` and `arg` of jumps are ignored: `target` counts.
#pragma once
#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "bytecode/position.h"

namespace pellucid::bytecode {

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Position> positions;         // one for each instruction
  std::vector<ExceptionRange> exceptions;  // sorted, without overlap
};

struct Encoded {
  std::string code, line_table, exception_table;
};

// Fills in offsets, EXTENDED_ARG prefixes and jump distances of `program`, and gives the bytes.
// Throws PythonError (ValueError) for a jump whose opcode cannot go that way.
Encoded encode(Program& program, int first_line);

// Depth of the stack before each instruction; -1 where control never comes. Throws PythonError (ValueError) when two
// ways to an instruction disagree, or when the stack runs empty.
std::vector<int> stack_depths(const Program& program);
int max_stack_depth(const Program& program, const std::vector<int>& depths);

}  // namespace pellucid::bytecode
