// Declarations of all opcode rules: a symbolic row of opcodes.def without a rule is a link error.
#pragma once
#include "protocols/protocols.h"
#include "trace/executor.h"

namespace pellucid::trace {
#define OP(number, name, ...) Next do_##name(Executor&, Frame&, int arg);
#include "bytecode/opcodes.def"
[[noreturn]] void refuse(bytecode::Opcode op);  // ends the region, in the words of its row

// Shared by the rules for names (load_store.cpp, classes.cpp).
inline PyObject* name_at(const Frame& frame, int index) { return PyTuple_GET_ITEM(frame.code->co_names, index); }
Next unbound(Executor& ex, const Frame& frame, int slot, bool free_variable);
Result load_global(Executor& ex, Frame& frame, PyObject* name);  // of the module, then of builtins
}  // namespace pellucid::trace
