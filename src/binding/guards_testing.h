// pellucid._core._guards: sources and guard programs built by hand, for tests and the micro benchmark.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

void add_guards_testing(nanobind::module_& core);

}  // namespace pellucid::binding
