// pellucid._core._codegen: captures made by hand, to test the emitted functions without an executor.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

void add_codegen_testing(nanobind::module_& core);

}  // namespace pellucid::binding
