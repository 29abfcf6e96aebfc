// What python/pellucid/backends needs from the core.
#include "binding/backend.h"

#include <nanobind/stl/vector.h>

#include "aten/aten.h"
#include "backend/prepared_call.h"
#include "py/interrupts.h"
#include "py/random_state.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

nb::object prepared_call(nb::handle compiled, nb::handle otherwise, nb::handle attributes, nb::handle examples,
                         std::vector<std::size_t> written, std::vector<std::size_t> whole,
                         std::vector<std::size_t> simple, std::vector<std::size_t> floats, bool sizes_change) {
  PyObject* made = py::enter([&] {
    return backend::prepared_call(
        compiled.ptr(), otherwise.ptr(), attributes.ptr(), examples.ptr(),
        {std::move(written), std::move(whole), std::move(simple), std::move(floats), sizes_change});
  });
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

template <class F>
void done(F&& body) {
  const auto none = py::Owned<>::steal(py::enter([&] {
    body();
    return py::Owned<>::share(Py_None);
  }));
  if (!none) nb::raise_python_error();
}

nb::object run_backend(nb::handle backend, nb::handle module, nb::handle inputs) {
  PyObject* made = py::enter([&] {
    return py::interruptible(
        [&] { return PyObject_CallFunctionObjArgs(backend.ptr(), module.ptr(), inputs.ptr(), nullptr); });
  });
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

// The random generators of the process as they are when this is made: Python's own, and torch's.
struct Generators {
  py::RandomState python;
  aten::Checkpoint torch;

  explicit Generators(bool cuda) { torch.save_generators(cuda); }
  void restore() {
    python.restore();
    (void)torch.restore();
  }
};

}  // namespace

void add_backend(nb::module_& core) {
  nb::class_<Generators>(core, "_Generators")
      .def("__init__", [](Generators* at, bool cuda) { done([&] { new (at) Generators(cuda); }); })
      .def("restore", [](Generators& self) { done([&] { self.restore(); }); });
  core.def("_prepared_call", &prepared_call);
  core.def("_run_backend", &run_backend);
  core.def("_is_interruption", [](nb::handle error) { return py::is_interruption(error.ptr()); });
}

}  // namespace pellucid::binding
