// Generators of the program as real objects: made suspended in the middle of their body.
#pragma once
#include <Python.h>

namespace pellucid::frames {

// Functions for emitted code; borrowed, alive for good.
PyObject* generator_maker();   // (function) -> a generator that did not start, without the values of its frame
PyObject* generator_filler();  // (generator, started, next, fast, stack): `next` is the byte offset where it goes on;
                               // fast (co_nlocalsplus) and stack are tuples, unbound slots hold empty_slot()
PyObject* empty_slot();

}  // namespace pellucid::frames
