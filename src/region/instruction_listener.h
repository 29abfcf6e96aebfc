// Who is told of each instruction before it is captured. The run loop looks at one flag for all of these. An event is
// an object of C++, since there are tens of thousands in one capture; its stack gets words when somebody asks for them.
#pragma once
#include <Python.h>

#include <utility>

#include "region/frame.h"

namespace pellucid::region {

struct Region;

inline bool each_instruction = false;                             // somebody watches: a reader or the profile
inline thread_local std::pair<int, int> told_compile = {-1, -1};  // the innermost one in this thread; negative: none

void note_who_watches() noexcept;
void note_instruction(Frame& frame, Region& region);

// The base of pellucid.events.Instruction.
PyTypeObject* instruction_event_type();
// From here on each of `readers`, a tuple, is called with objects of `type`, a subclass of that. Null: nobody.
void set_instruction_readers(PyObject* type, PyObject* readers) noexcept;

}  // namespace pellucid::region
