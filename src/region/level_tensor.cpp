#include "region/level_tensor.h"

#include "aten/layers.h"

namespace pellucid::region {

bool is_level_tensor(PyObject* tensor) { return aten::is_wrapper(tensor); }

}  // namespace pellucid::region
