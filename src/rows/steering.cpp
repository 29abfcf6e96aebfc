#include "rows/steering.h"

#include "protocols/steering.h"
#include "rows/rows.h"

namespace pellucid::rows {

void steer(PyObject* callable, int how, PyObject* substitute) {
  protocols::steer(callable, static_cast<protocols::Steering>(how), substitute);
}

int steering_of(PyObject* callable) { return static_cast<int>(protocols::steering_of(callable)); }

py::Owned<> steerings() {
  auto all = py::take(PyDict_New());
  for (const auto& [name, how] : protocols::kSteerings)
    py::check(PyDict_SetItemString(all.get(), name, py::take(PyLong_FromLong(static_cast<long>(how))).get()));
  return all;
}

bool is_leaf(PyObject* callable) {
  initialise();
  return protocols::is_torch_op(callable);
}

}  // namespace pellucid::rows
