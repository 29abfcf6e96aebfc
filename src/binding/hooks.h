#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

// Adds what the tests need to see of the rooms (tests/hooks); only linked with PELLUCID_TESTS.
void add_hooks(nanobind::module_& core);

}  // namespace pellucid::binding
