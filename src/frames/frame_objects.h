// Frame objects: what the frames of tracebacks are, and what anybody gets who looks at the stack and keeps it. Those of
// open frames stand alone, empty, while the program is a state; entering the frame makes them its own again.
#pragma once
#include <Python.h>

#include <vector>

#include "py/eval_frame.h"
#include "py/ref.h"

namespace pellucid::frames {

// ---- made during capture
py::Owned<> new_frame_object(PyCodeObject* code, PyObject* globals);
// The frame is over: at byte offset `lasti`, with these values, called by the frame of `back` (or null).
void close_frame_object(PyObject* object, int lasti, const std::vector<py::Owned<>>& fast, PyObject* back);

struct ClosedFrame {
  PyObject* globals;
  PyCodeObject* code;
  int lasti;
  std::vector<PyObject*> fast;  // borrowed, null: unbound
  PyObject* back;               // borrowed or null
};
ClosedFrame closed_frame(PyObject* object);

// ---- of open frames (replace311.cpp)
void adopt(py::InterpreterFrame* frame, PyObject* object) noexcept;
void rest(py::InterpreterFrame* frame) noexcept;  // it stands alone
// Somebody else has it, or the dict of locals() that it keeps for the frame.
bool is_wanted(PyObject* resting) noexcept;
// While `frame` is the one that runs: what locals() gave lives as long as the frame, in its frame object.
void keep_locals_of_running(const py::InterpreterFrame* frame) noexcept;

// ---- code of ours (polyfills), whose frames are left out of what the program sees
void hide_code(PyCodeObject* code) noexcept;
bool is_hidden(const PyCodeObject* code) noexcept;

// ---- functions for emitted code; borrowed, alive for good
PyObject* frame_maker();     // (code, globals)
PyObject* frame_closer();    // (frame, lasti, fast, back): `fast` a tuple, unbound slots hold empty_slot(); back: a
                             // frame, None, or region_caller()
PyObject* region_caller();   // the frame that called the region
PyObject* context_linker();  // (exception): what the region's caller handles is its __context__

}  // namespace pellucid::frames
