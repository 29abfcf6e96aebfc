// What the extension module exports of the runtime.
#pragma once
#include <Python.h>

namespace pellucid::runtime {

// Makes the types and adds the functions of this room to `module`. Throws PythonError.
void initialise(PyObject* module);

}  // namespace pellucid::runtime
