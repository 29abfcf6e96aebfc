#include "rows/steering.h"

#include "protocols/steering.h"
#include "rows/rows.h"

namespace pellucid::rows {

void steer(PyObject* callable, int how, PyObject* substitute) {
  protocols::steer(callable, static_cast<protocols::Steering>(how), substitute);
}

int steering_of(PyObject* callable) { return static_cast<int>(protocols::steering_of(callable)); }

bool is_leaf(PyObject* callable) {
  initialise();
  return protocols::is_torch_op(callable);
}

}  // namespace pellucid::rows
