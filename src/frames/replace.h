// On-stack replacement: puts a state into real frames of the program's own functions. The only writer of CPython's
// frames; one file for each CPython version.
#pragma once
#include "frames/state.h"

namespace pellucid::frames {

// The interpreter takes the program over and runs it to its end. A new reference; null with an error pending when the
// program raises.
PyObject* finish(State state) noexcept;

// The same, but what runs next raises `error`.
PyObject* finish_raising(State state, py::PythonError error) noexcept;

struct Outcome {
  bool finished = false;       // the interpreter has run the program to its end: `result` is what it gave
  PyObject* result = nullptr;  // new reference; null: it raised
  State state;                 // else: one instruction further
};

// Whether step() can run the instruction itself.
bool has_rule(const State& state);

// Runs the innermost frame's instruction for real, all frames linked as they would be: what looks at the stack sees
// them. When it raises, the frame that handles the exception is the innermost one, at its handler. Without a rule for
// the instruction (real_step.cpp) the interpreter finishes the innermost frame, and the one outside of it goes on.
Outcome step(State state) noexcept;

}  // namespace pellucid::frames
