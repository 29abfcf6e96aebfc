// The bytes of a code object, before they are decoded.
#pragma once
#include <Python.h>

namespace pellucid::bytecode {

// Whether the last instruction and its caches end where the code does. PyCode_GetCode writes behind the end where not.
bool has_whole_instructions(PyCodeObject* code);

}  // namespace pellucid::bytecode
