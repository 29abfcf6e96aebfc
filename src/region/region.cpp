#include "region/region.h"

#include "region/body_audit.h"

namespace pellucid::region {

Region::Region(PyFunctionObject* function, PyCodeObject* code) : capture(std::make_unique<Capture>()) {
  capture->function = py::Owned<PyFunctionObject>::share(function);
  capture->code = py::Owned<PyCodeObject>::share(code);
}

Region::~Region() = default;

}  // namespace pellucid::region
