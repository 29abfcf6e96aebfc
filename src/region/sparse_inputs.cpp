#include "region/sparse_inputs.h"

#include <algorithm>
#include <string>

#include "aten/wrapper_subclass.h"
#include "region/region.h"
#include "region/torch_module.h"

namespace pellucid::region {

void SparseInputs::check(PyObject* tensor) {
  const aten::Layout layout = aten::layout_kind(tensor);
  const NumberPolicy& policy = region_.numbers.policy;
  if (layout == aten::Layout::Strided || policy.runs_as_captured()) return;
  const bool is_taken = policy.takes_coo && layout == aten::Layout::SparseCoo && !aten::is_view(tensor) &&
                        !aten::meta_of(tensor).requires_grad;
  if (!is_taken) {
    const auto name = py::take(PyObject_Str(py::take(PyObject_GetAttrString(tensor, "layout")).get()));
    const bool is_quantised = py::text_of(name.get()) == "torch.strided";
    unsupported(Reason::UnsupportedTensor,
                {{"what", is_quantised ? "a quantised tensor" : "a " + py::text_of(name.get()) + " tensor"}});
  }
  has_any_ = true;
  check_writes();
}

void SparseInputs::check_call() const {
  if (has_any_ && aten::in_autocast())  // AOTAutograd casts no sparse tensor
    unsupported(Reason::UnsupportedTensor, {{"what", "a sparse tensor beside autocast"}});
}

void SparseInputs::check_operators(PyObject* target) const {
  if (!region_.numbers.policy.runs_as_captured() && aten::facts_so_far().only_as_captured)
    unsupported(Reason::UnsupportedTensor,
                {{"what", "what " + name_of_target(target) + " takes or gives, a quantised tensor,"}});
}

void SparseInputs::note_writes(const std::vector<aten::HeldStorage>& written) {
  for (const auto& held : written) written_.insert(held.get());
  if (has_any_) check_writes();
}

void SparseInputs::check_writes() const {
  const auto is_written = [&](const graph::Node* input) {
    PyObject* fake = input->example_value.get();
    return cat_of(fake) == Cat::Tensor && written_.contains(aten::meta_of(fake).storage);
  };
  if (!written_.empty() && std::ranges::any_of(region_.capture->graph.placeholders(), is_written))
    unsupported(Reason::UnsupportedTensor, {{"what", "a sparse tensor beside a tensor that is written"}});
}

}  // namespace pellucid::region
