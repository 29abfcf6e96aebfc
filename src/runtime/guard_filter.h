// The option `guard_filter_fn`: the user says which guards of a region are checked.
#pragma once
#include <vector>

#include "guards/guard.h"
#include "region/capture.h"

namespace pellucid::runtime {

// Asks the filter of the backend, if it has one, and drops the guards that it does not keep. Runs Python code. Throws
// what the filter raises, and errors about what it gives.
void filter_guards(PyObject* backend, const region::Capture& capture, std::vector<guards::Guard>& guards);

}  // namespace pellucid::runtime
