// A code object as bytes that are the same in every process.
#pragma once
#include <Python.h>

#include <string>

namespace pellucid::py {

// Appends all that the compiler has put into a code object: instructions, constants (the code of the functions in it
// among them), names, lines. A constant that no compiler makes, which code that was edited may have, gives bytes that
// no other process gives.
void add_code_bytes(std::string& bytes, PyObject* code);

}  // namespace pellucid::py
