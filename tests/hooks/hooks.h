// What tests in Python see of the rooms of the core: submodules of pellucid._core, which has them when it is built with
// PELLUCID_TESTS. Not public.
#pragma once
#include <nanobind/nanobind.h>

namespace pellucid::hooks {

void add_aten(nanobind::module_& core);
void add_open_sizes(nanobind::module_& aten);  // part of it
void add_bytecode(nanobind::module_& core);
void add_codegen(nanobind::module_& core);
void add_graph(nanobind::module_& core);
void add_guards(nanobind::module_& core);
void add_rows(nanobind::module_& core);
void add_symbolic(nanobind::module_& core);

}  // namespace pellucid::hooks
