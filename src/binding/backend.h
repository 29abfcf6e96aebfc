#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {
void add_backend(nanobind::module_& core);
}
