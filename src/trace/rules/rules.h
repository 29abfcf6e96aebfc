// Declarations of all opcode rules: a row of opcodes.def without a rule is a link error.
#pragma once
#include "trace/executor.h"

namespace pellucid::trace {
#define OP(number, name, ...) Next do_##name(Executor&, Frame&, int arg);
#include "bytecode/opcodes.def"
}  // namespace pellucid::trace
