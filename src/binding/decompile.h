// The decompiler as Python sees it.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

void add_decompile(nanobind::module_& core);

}  // namespace pellucid::binding
