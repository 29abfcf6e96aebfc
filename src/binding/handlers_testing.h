#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::binding {

// _core._handlers: the rows of the room handlers as Python tests see them. Not public.
void add_handlers_testing(nanobind::module_& core);

}  // namespace pellucid::binding
