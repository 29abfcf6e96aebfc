// pellucid._core._handlers: the rows of functions with a rule, as Python tests see them.
#include <nanobind/stl/string.h>

#include "handlers/registry.h"
#include "hooks.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {

nb::list faults() {
  try {
    handlers::initialise();
  } catch (...) {
    py::translate_current_exception();
    throw nb::python_error();
  }
  nb::list texts;
  for (const std::string& fault : handlers::faults()) texts.append(nb::str(fault.c_str()));
  return texts;
}

}  // namespace

void add_handlers(nb::module_& core) {
  nb::module_ m = core.def_submodule("_handlers", "The rows of functions with a rule.");
  m.def("faults", &faults);
}

}  // namespace pellucid::hooks
