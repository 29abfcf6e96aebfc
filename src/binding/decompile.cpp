// What python/pellucid/_decompile.py needs from the core.
#include "decompile/decompile.h"

#include "binding/decompile.h"
#include "py/ref.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

// (text, module, "equal" | "normalised" | "equivalent" | "unverified", difference), or the reason why there is no text.
nb::object decompile(nb::handle code, bool verify) {
  PyObject* made = py::enter([&] {
    if (!PyCode_Check(code.ptr())) {
      PyErr_SetString(PyExc_TypeError, "a code object is needed");
      py::throw_pending();
    }
    const auto found = pellucid::decompile::decompile(reinterpret_cast<PyCodeObject*>(code.ptr()), verify);
    if (!found.good) return py::str(found.why);
    constexpr const char* kVerified[] = {"unverified", "equivalent", "normalised", "equal"};
    return py::take(Py_BuildValue("(NNsN)", py::str(found.text).release(), py::str(found.module).release(),
                                  kVerified[static_cast<int>(found.verified)], py::str(found.difference).release()));
  });
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

}  // namespace

void add_decompile(nb::module_& core) { core.def("_decompile", &decompile, nb::arg("code"), nb::arg("verify")); }

}  // namespace pellucid::binding
