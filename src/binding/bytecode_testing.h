// pellucid._core._bytecode: the bytecode room seen from Python, for tests and for curiosity.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

void add_bytecode_testing(nanobind::module_& core);

}  // namespace pellucid::binding
