// The extension module pellucid._core, nothing else.
#include <nanobind/nanobind.h>

#include "aten/aten.h"
#include "binding/backend.h"
#include "binding/decompile.h"
#include "binding/hooks.h"
#include "binding/replay.h"
#include "py/ref.h"
#include "runtime/runtime.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of pellucid.";
  pellucid::binding::add_backend(m);
  pellucid::binding::add_decompile(m);
  pellucid::binding::add_replay(m);
#ifdef PELLUCID_TESTS
  pellucid::binding::add_hooks(m);
#endif
  try {
    pellucid::aten::initialise();
    pellucid::runtime::initialise(m.ptr());
  } catch (pellucid::py::PythonError& error) {
    error.restore();
    throw nanobind::python_error();
  }
}
