#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {
void add_graph_testing(nanobind::module_& core);
}
