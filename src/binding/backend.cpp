// What python/pellucid/backends needs from the core.
#include "binding/backend.h"

#include <nanobind/stl/vector.h>

#include "backend/storage_guard.h"
#include "py/interrupts.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

nb::object storage_guard(nb::handle compiled, nb::handle otherwise, nb::handle attributes, nb::handle examples,
                         const std::vector<std::size_t>& written, const std::vector<std::size_t>& whole) {
  PyObject* made = py::enter([&] {
    return backend::storage_guard(compiled.ptr(), otherwise.ptr(), attributes.ptr(), examples.ptr(), written, whole);
  });
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

nb::object run_backend(nb::handle backend, nb::handle module, nb::handle inputs) {
  PyObject* made = py::enter([&] {
    return py::interruptible(
        [&] { return PyObject_CallFunctionObjArgs(backend.ptr(), module.ptr(), inputs.ptr(), nullptr); });
  });
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

}  // namespace

void add_backend(nb::module_& core) {
  core.def("_storage_guard", &storage_guard);
  core.def("_run_backend", &run_backend);
  core.def("_is_interruption", [](nb::handle error) { return py::is_interruption(error.ptr()); });
}

}  // namespace pellucid::binding
