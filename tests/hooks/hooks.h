// What tests in Python see of the rooms of the core: submodules of pellucid._core, which has them when it is built with
// PELLUCID_TESTS. Not public.
#pragma once
#include <nanobind/nanobind.h>

#include "aten/aten.h"
#include "py/ref.h"

namespace pellucid::hooks {

// nanobind knows its own exceptions only: ours become pending errors here.
template <class F>
auto guarded(F&& body) {
  try {
    return body();
  } catch (...) {
    py::translate_current_exception();
  }
  throw nanobind::python_error();
}

// aten.cpp: what the callable gives for fakes of the scope.
nanobind::object call_in(aten::FakeScope& scope, const nanobind::object& callable, const nanobind::args& args,
                         const nanobind::kwargs& kwargs);

void add_aten(nanobind::module_& core);
void add_open_sizes(nanobind::module_& aten);  // part of it
void add_bytecode(nanobind::module_& core);
void add_codegen(nanobind::module_& core);
void add_graph(nanobind::module_& core);
void add_guards(nanobind::module_& core);
void add_rows(nanobind::module_& core);
void add_symbolic(nanobind::module_& core);

}  // namespace pellucid::hooks
