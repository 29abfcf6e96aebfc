// Operators of libraries other than torch's own, which say by a tag of torch whether they are fit for compilation.
#pragma once
#include "region/result.h"

namespace pellucid::region {

struct Region;

// Notes the operator in the capture's sets, with the arguments as torch gets them: fakes. Throws GraphBreak when no
// overload fits these, or when the program wants none but fit ones and this is another.
void note_operator(Region& region, PyObject* callable, Args args);

// Whether this operator of torch talks to other processes.
bool communicates(PyObject* callable);

}  // namespace pellucid::region
