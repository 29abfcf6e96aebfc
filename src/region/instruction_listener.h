// Who is told of each instruction before it is captured. The run loop looks at one flag for all of these.
#pragma once
#include <Python.h>

#include "region/frame.h"

namespace pellucid::region {

inline PyObject* instruction_listener = nullptr;  // owned; null: nobody
inline bool each_instruction = false;             // somebody watches: this one or the profile

void note_who_watches() noexcept;
void note_instruction(Frame& frame);

}  // namespace pellucid::region
