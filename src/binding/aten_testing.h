#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

// _core._aten: the room aten as Python tests see it. Not public.
void bind_aten(nanobind::module_& core);

}  // namespace pellucid::binding
