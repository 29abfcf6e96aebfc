// For tests/runtime/test_interrupts.py: interrupts that arrive at a moment that can be told and repeated, the nth
// allocation of an object. Everything that runs allocates, so every phase of a call can be met.
#pragma once
#include <Python.h>

namespace unit {

// interrupt_at(n, what): at the nth allocation of this thread from now on the signal `what` (a number) arrives, or
// another thread sends the exception class `what`. 0: never.
PyObject* interrupt_at(PyObject* module, PyObject* args);
// The number of allocations since then; ends it.
PyObject* allocations(PyObject* module, PyObject* unused);

}  // namespace unit
