// Basic blocks of a program, and which variables are live where.
#pragma once
#include <vector>

#include "bytecode/program.h"

namespace pellucid::bytecode {

struct Block {
  int begin = 0, end = 0;       // instruction indexes, [begin, end)
  std::vector<int> successors;  // blocks: the next one first, then the jump's
  std::vector<int> handlers;    // blocks that exceptions raised in it go to
};

struct ControlFlow {
  std::vector<Block> blocks;  // in code order; the first is the entry
  std::vector<int> block_of;  // instruction -> block
};

ControlFlow control_flow(const Program& program);

// For each instruction, the slots of localsplus whose value may be read later when control is before it (bit `slot`).
// Cells and free variables count as read by whatever touches them.
using Bits = std::vector<bool>;
std::vector<Bits> live_locals(const Program& program, int slots);

}  // namespace pellucid::bytecode
