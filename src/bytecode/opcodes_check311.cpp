// Compiling this file is the check that opcodes.def and operators.def agree with CPython. It is the only includer of
// <opcode.h>, whose macros turn each name below into CPython's number.
#include <Python.h>
#include <opcode.h>

static_assert(PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000,
              "pellucid's bytecode table describes CPython 3.11");

#define OP(number, name, ...) static_assert(number == name, "opcodes.def disagrees with <opcode.h>");
#include "bytecode/opcodes.def"
#define BINARY(number, name, ...) static_assert(number == name, "operators.def disagrees with <opcode.h>");
#include "py/operators.def"
static_assert(HAVE_ARGUMENT == 90, "has_arg() disagrees with <opcode.h>");
