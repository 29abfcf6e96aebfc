// The extension module pellucid._core, nothing else.
#include <nanobind/nanobind.h>

#include "binding/aten_testing.h"
#include "binding/backend_binding.h"
#include "binding/bytecode_testing.h"
#include "binding/codegen_testing.h"
#include "binding/graph_testing.h"
#include "binding/guards_testing.h"
#include "binding/handlers_testing.h"
#include "py/ref.h"
#include "runtime/runtime.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of pellucid.";
  pellucid::binding::bind_aten(m);
  pellucid::binding::add_bytecode_testing(m);
  pellucid::binding::add_codegen_testing(m);
  pellucid::binding::add_backend(m);
  pellucid::binding::add_graph_testing(m);
  pellucid::binding::add_guards_testing(m);
  pellucid::binding::add_handlers_testing(m);
  try {
    pellucid::runtime::initialise(m.ptr());
  } catch (pellucid::py::PythonError& error) {
    error.restore();
    throw nanobind::python_error();
  }
}
