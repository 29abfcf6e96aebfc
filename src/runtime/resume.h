// How a program goes on behind a graph break: the unsupported instruction runs for real, in real frames, and the region
// that starts behind it is looked up or compiled; and so on until the program ends.
#pragma once
#include <Python.h>

#include "py/ref.h"
#include "runtime/cache.h"

namespace pellucid::runtime {

// `live`: what the region gave, the values of the open frames as `exit` says; `function` runs in the outermost one.
// `root` is the cache of the compiled function, held by the caller. Gives the program's result, or throws its
// exception.
py::Owned<> go_on(Cache& root, PyFunctionObject* function, const frames::Shape& exit, py::Owned<> live);

}  // namespace pellucid::runtime
