// What records are loaded with, as Python sees it.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

void add_replay(nanobind::module_& core);

}  // namespace pellucid::binding
