// pellucid._core._rows: the rows of functions with a rule, as Python tests see them.
#include "rows/rows.h"

#include <nanobind/stl/string.h>

#include "hooks.h"

namespace nb = nanobind;

namespace pellucid::hooks {
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

void add_rows(nb::module_& core) {
  nb::module_ m = core.def_submodule("_rows", "The rows of functions with a rule.");
  m.def("faults", &faults);
}

}  // namespace pellucid::hooks
