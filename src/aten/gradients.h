// Where a backward pass from tensors of a capture goes to.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::aten {

bool records_gradients() noexcept;  // torch.is_grad_enabled()

struct BackwardPath {
  std::vector<py::Owned<>> leaves;   // fakes, in the order in which they are met
  bool runs_python = false;          // it runs a backward() of the program
  bool may_give_none = false;        // to such a one that has several results, and None for those it does not come from
  std::vector<const void*> outside;  // what goes on behind fakes of tensors that were computed before the capture
};
BackwardPath backward_path(const std::vector<PyObject*>& fakes);

// Of each of the others: whether a backward pass from the fake comes to where its gradients go.
std::vector<bool> leads_to(PyObject* fake, const std::vector<PyObject*>& others);

// Where the path goes on behind this fake, if its tensor was computed before the capture; else null.
const void* computed_before(PyObject* fake) noexcept;

// Whether a backward pass from the fake is impossible, since an earlier one has freed what it needs.
bool is_freed(PyObject* fake);
// Whether a backward pass from the fakes comes to what keeps one of these leaves itself. What Python functions keep is
// not known.
bool keeps_any(const std::vector<PyObject*>& fakes, const std::vector<PyObject*>& leaves);
py::Owned<> detached(PyObject* fake);  // over the same memory, outside of autograd

// Whether autograd keeps `gradient` itself as the first gradient of `leaf`, if nobody else knows it, and no copy in
// another layout.
bool has_layout_of_gradient(PyObject* leaf, PyObject* gradient);

// What the tensor is a view of, to autograd; empty: it is no view.
py::Owned<> base_of_view(PyObject* tensor);
// Whether its memory has been written to since autograd has looked at this view.
bool is_written_since_made(PyObject* view);
bool is_inference(PyObject* tensor) noexcept;  // made in inference mode
bool in_inference_mode() noexcept;

// Whether a backward pass adds to the tensor's gradient and does nothing else: a leaf without hooks.
bool takes_gradients_silently(PyObject* tensor) noexcept;
// Whether it is a leaf where a backward pass calls what `_backward_hooks` holds, adds to the gradient, and does nothing
// else.
bool takes_gradients_by_hooks(PyObject* tensor) noexcept;
// Whether nothing hooks into gradients that pass through the tensor.
bool has_no_gradient_hooks(PyObject* tensor) noexcept;

}  // namespace pellucid::aten
