// Names that are looked up all over, interned once.
#pragma once
#include <Python.h>

namespace pellucid::region {

struct Names {
#define NAME(n) PyObject* n;
#define NAME_AS(n, text) PyObject* n;
#include "region/names.def"
};
const Names& names();

// Fills the tables of names and types; the first capture does it.
void initialise();

}  // namespace pellucid::region
