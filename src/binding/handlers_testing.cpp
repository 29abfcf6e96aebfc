#include "binding/handlers_testing.h"

#include <nanobind/stl/string.h>

#include "rows/rows.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

nb::list faults() {
  try {
    rows::initialise();
  } catch (...) {
    py::translate_current_exception();
    throw nb::python_error();
  }
  nb::list texts;
  for (const std::string& fault : protocols::faults()) texts.append(nb::str(fault.c_str()));
  return texts;
}

}  // namespace

void add_handlers_testing(nb::module_& core) {
  nb::module_ m = core.def_submodule("_handlers", "The rows of functions with a rule.");
  m.def("faults", &faults);
}

}  // namespace pellucid::binding
