// Which module's namespace messages call "G".
#pragma once
#include <Python.h>

#include <span>

#include "guards/guard.h"

namespace pellucid::guards {

// The globals of the entry. A call of a module starts in torch.nn: there they are those of its forward. Borrowed.
PyObject* home_globals(PyObject* entry_globals, std::span<const Guard> guards);

}  // namespace pellucid::guards
