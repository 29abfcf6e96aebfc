// What single instructions do on real values: one row for each opcode at which a region may end.
#pragma once
#include <Python.h>

#include <cstdint>

namespace pellucid::frames {

struct Step {
  PyObject** base;  // of the value stack
  PyObject** top;   // behind its last value
  int arg;
  int next;           // byte offset behind it; a jump sets it
  PyObject* kwnames;  // of a CALL, or null
  PyCodeObject* code;

  PyObject*& peek(int depth) noexcept { return top[-1 - depth]; }
  // Drops `count` values and pushes `value` (a new reference).
  void replace(int count, PyObject* value) noexcept;
  void drop(int count) noexcept;
};

// False with an error pending when the instruction raises; the stack may then still hold its operands.
using Rule = bool (*)(Step&) noexcept;
// Null: the interpreter has to run it.
Rule rule_for(int opcode, Step& step) noexcept;

}  // namespace pellucid::frames
