// An enum member is a constant of the program, but its class may give it methods that C code would run.
#pragma once
#include <Python.h>

namespace pellucid::region {

struct Region;

// A method that the enum module itself defines: reads nothing but names and values.
bool is_enums_own(PyObject* function);

// `name` is Python code of the user's for members of this class. The answer is guarded.
bool has_user_method(Region& region, PyTypeObject* enum_class, const char* name);

// Printing, hashing, comparing or converting the member would run such code.
bool runs_user_code(Region& region, PyTypeObject* enum_class);

}  // namespace pellucid::region
