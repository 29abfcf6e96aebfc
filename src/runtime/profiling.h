// What Python asks of the profile of compiling (region/profile.h).
#pragma once
#include <Python.h>

namespace pellucid::runtime {

void add_profiling(PyObject* module);

}  // namespace pellucid::runtime
