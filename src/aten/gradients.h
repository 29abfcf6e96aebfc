// Where a backward pass from tensors of a capture goes to.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::aten {

bool records_gradients() noexcept;  // torch.is_grad_enabled()

struct BackwardPath {
  std::vector<py::Owned<>> leaves;   // fakes, in the order in which they are met
  bool runs_python = false;          // it runs a backward() of the program
  std::vector<const void*> outside;  // what goes on behind fakes of tensors that were computed before the capture
};
BackwardPath backward_path(const std::vector<PyObject*>& fakes);

// Where the path goes on behind this fake, if its tensor was computed before the capture; else null.
const void* computed_before(PyObject* fake) noexcept;

// Whether a backward pass from the fake is impossible, since an earlier one has freed what it needs.
bool is_freed(PyObject* fake);
py::Owned<> detached(PyObject* fake);  // over the same memory, outside of autograd

// Whether autograd keeps `gradient` itself as the first gradient of `leaf`, if nobody else knows it, and no copy in
// another layout.
bool has_layout_of_gradient(PyObject* leaf, PyObject* gradient);

// Whether a backward pass adds to the tensor's gradient and does nothing else: a leaf without hooks.
bool takes_gradients_silently(PyObject* tensor) noexcept;
// Whether it is a leaf where a backward pass calls what `_backward_hooks` holds, adds to the gradient, and does nothing
// else.
bool takes_gradients_by_hooks(PyObject* tensor) noexcept;
// Whether nothing hooks into gradients that pass through the tensor.
bool has_no_gradient_hooks(PyObject* tensor) noexcept;

}  // namespace pellucid::aten
