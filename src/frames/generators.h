// Suspended generators as values: read where they stand, made and set in the middle of their body. Nothing here runs
// code of the program but the destructors of what leaves a frame.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "py/ref.h"

namespace pellucid::frames {

// ---- read
// Suspended or not started, in no handler, and nobody holds its frame: then its state is what stands below.
bool is_readable_generator(PyObject* object) noexcept;
bool is_running(PyObject* generator) noexcept;  // its frame is being executed: there is nothing to read
bool has_ended(PyObject* generator) noexcept;

struct GeneratorState {
  PyFunctionObject* function;
  PyCodeObject* code;
  bool started;
  int next;                       // byte offset where it goes on
  std::vector<PyObject*> values;  // fast, then the stack; borrowed, null: unbound
};
GeneratorState state_of_generator(PyObject* generator);
PyObject* generator_slot(PyObject* generator, Py_ssize_t index) noexcept;  // of these values
// All but the values themselves, for guards: where it stands and which slots are filled. Of one that has ended: None.
py::Owned<> place_of_generator(PyObject* generator);
bool stands_at(PyObject* generator, PyObject* place) noexcept;
std::string describe_place(PyObject* place);  // "f at byte 12"

// ---- running: its frame is one of a state (replace311.cpp)
bool is_frame_of(const void* interpreter_frame, PyObject* generator) noexcept;
// Goes on in the body as the interpreter does, through the evaluator. A new reference; null with an error pending:
// StopIteration when the body has returned.
PyObject* resume_generator(PyObject* generator) noexcept;
// The exception that it handles; empty: none.
void set_handled(PyObject* generator, py::Owned<> exception) noexcept;
py::Owned<> take_handled(PyObject* generator) noexcept;
// What the frame held is elsewhere now. To gen_send_ex2 it has yielded; then, with rest_generator, it is one that did
// not start: nothing of it runs should it die like this.
void park_generator(PyObject* generator) noexcept;
void rest_generator(PyObject* generator) noexcept;

// ---- written: functions for emitted code; borrowed, alive for good
PyObject* generator_maker();   // (function) -> a generator that did not start, without the values of its frame
PyObject* generator_filler();  // (generator, started, next, fast, stack, handled, frame): fast (co_nlocalsplus) and
                               // stack are tuples, unbound slots hold empty_slot(); handled: an exception or None;
                               // frame: the frame object or None
PyObject* generator_ender();   // (generator): its body is over
PyObject* empty_slot();

}  // namespace pellucid::frames
