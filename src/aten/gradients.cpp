#include "aten/gradients.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "aten/aten.h"
#include "aten/computed_before.h"

namespace pellucid::aten {

bool records_gradients() noexcept { return c10::GradMode::is_enabled(); }
namespace {

namespace autograd = torch::autograd;

bool hooks_into(const autograd::Node* node) noexcept {
  auto* hooked = const_cast<autograd::Node*>(node);  // which has no other accessors
  return !hooked->pre_hooks().empty() || !hooked->post_hooks().empty() || !hooked->tensor_pre_hooks().empty() ||
         !hooked->retains_grad_hooks().empty() || hooked->tensor_post_acc_grad_hooks() != nullptr;
}

// Where gradients of a tensor go; null: nowhere. A view that was made without gradients, of memory that has been
// written to since, torch lets nobody differentiate.
c10::intrusive_ptr<autograd::Node> edge_of(const at::Tensor& tensor) {
  try {
    return tensor.requires_grad() ? autograd::impl::gradient_edge(tensor).function : nullptr;
  } catch (const c10::Error&) {
    return nullptr;
  }
}

// Visits the nodes of autograd behind some fakes, each once, until `visit` says false.
template <class Visit>
void walk(const std::vector<PyObject*>& fakes, Visit&& visit) {
  std::vector<c10::intrusive_ptr<autograd::Node>> open;
  std::unordered_set<autograd::Node*> seen;
  const auto meet = [&](const c10::intrusive_ptr<autograd::Node>& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  for (PyObject* fake : fakes) meet(edge_of(THPVariable_Unpack(fake)));
  while (!open.empty()) {
    const auto node = std::move(open.back());
    open.pop_back();
    if (!visit(node)) return;
    const autograd::edge_list& edges = node->next_edges();
    for (std::size_t i = edges.size(); i-- > 0;) meet(edges[i].function);
  }
}

// The attributes by which a class of nodes shows what it saved: torch asks there what it asks in a backward pass.
const std::vector<py::Owned<>>& saved_names(PyTypeObject* type) {
  static auto* const known = new std::unordered_map<PyTypeObject*, std::vector<py::Owned<>>>;
  const auto [entry, is_new] = known->try_emplace(type);
  if (!is_new) return entry->second;
  const auto names = py::take(PyObject_Dir(reinterpret_cast<PyObject*>(type)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(names.get(), i);
    const std::string text = py::text_of(name);
    if (text.starts_with("_saved_") || text == "saved_tensors") entry->second.push_back(py::Owned<>::share(name));
  }
  return entry->second;
}

bool has_freed(const c10::intrusive_ptr<autograd::Node>& node) {
  const auto shown = py::Owned<>::steal(autograd::functionToPyObject(node));
  if (!shown) throw py::PythonError();
  for (const auto& name : saved_names(Py_TYPE(shown.get()))) {
    if (py::Owned<>::steal(PyObject_GetAttr(shown.get(), name.get()))) continue;
    const py::PythonError error;
    if (py::text_of(py::take(PyObject_Str(error.value())).get()).find("second time") != std::string::npos) return true;
  }
  return false;
}

// torch exports no type information for the nodes of Python's functions, which have it all the same.
bool runs_backward_of_program(const autograd::Node& node) noexcept {
  return std::string_view(typeid(node).name()) == "N5torch8autograd6PyNodeE";
}

// Whether a backward() of the program gets zeros for results that no gradient comes to, not None.
__attribute__((no_sanitize("vptr"))) bool fills_in_gradients(const autograd::Node& node) noexcept {
  const auto* context = reinterpret_cast<const THPFunction*>(static_cast<const autograd::PyNode&>(node).pyobj());
  return context != nullptr && context->materialize_grads;
}

bool is_hook_of_program(const autograd::FunctionPreHook& hook) noexcept {
  return std::string_view(typeid(hook).name()) == "N5torch8autograd23PyFunctionTensorPreHookE";
}

// UBSan would ask for the class's type information, which torch does not export.
__attribute__((no_sanitize("vptr"))) PyObject* dict_of(autograd::FunctionPreHook& hook) {
  return static_cast<autograd::PyFunctionTensorPreHook&>(hook).dict;
}

}  // namespace

bool is_freed(PyObject* fake) {
  bool freed = false;
  walk({fake}, [&](const auto& node) { return !(freed = has_freed(node)); });
  return freed;
}

bool keeps_any(const std::vector<PyObject*>& fakes, const std::vector<PyObject*>& leaves) {
  bool any = false;
  const auto is_it = [&](PyObject* value) { return std::find(leaves.begin(), leaves.end(), value) != leaves.end(); };
  walk(fakes, [&](const auto& node) {
    any = runs_backward_of_program(*node);
    const auto shown = py::Owned<>::steal(autograd::functionToPyObject(node));
    if (!shown) throw py::PythonError();
    for (const auto& name : saved_names(Py_TYPE(shown.get()))) {
      const auto kept = py::Owned<>::steal(PyObject_GetAttr(shown.get(), name.get()));
      if (!kept) PyErr_Clear();  // it is freed
      any = any || (kept && is_it(kept.get()));
      for (Py_ssize_t i = 0; kept && PyTuple_CheckExact(kept.get()) && i < PyTuple_GET_SIZE(kept.get()); ++i)
        any = any || is_it(PyTuple_GET_ITEM(kept.get(), i));
    }
    return !any;
  });
  return any;
}

py::Owned<> detached(PyObject* fake) { return py::take(THPVariable_Wrap(THPVariable_Unpack(fake).tensor_data())); }

BackwardPath backward_path(const std::vector<PyObject*>& fakes) {
  BackwardPath path;
  walk(fakes, [&](const auto& node) {
    if (auto* leaf = dynamic_cast<autograd::AccumulateGrad*>(node.get())) {
      path.leaves.push_back(py::take(THPVariable_Wrap(leaf->variable)));
    } else if (dynamic_cast<ComputedBefore*>(node.get()) != nullptr) {
      path.outside.push_back(node.get());
    } else if (runs_backward_of_program(*node)) {
      path.runs_python = true;
      path.may_give_none |= node->num_inputs() > 1 && !fills_in_gradients(*node);
    }
    return true;
  });
  return path;
}

std::vector<bool> leads_to(PyObject* fake, const std::vector<PyObject*>& others) {
  std::vector<bool> found(others.size());
  std::vector<c10::intrusive_ptr<autograd::Node>> wanted;
  wanted.reserve(others.size());
  for (PyObject* other : others) wanted.push_back(edge_of(THPVariable_Unpack(other)));
  walk({fake}, [&](const auto& node) {
    for (std::size_t i = 0; i < wanted.size(); ++i) found[i] = found[i] || wanted[i] == node;
    return true;
  });
  return found;
}

const void* computed_before(PyObject* fake) noexcept {
  return dynamic_cast<ComputedBefore*>(autograd::impl::grad_fn_unsafe(THPVariable_Unpack(fake)));
}

py::Owned<> base_of_view(PyObject* object) {
  const auto* view = autograd::impl::get_view_autograd_meta(THPVariable_Unpack(object));
  if (view == nullptr || !view->has_bw_view()) return {};
  return py::take(THPVariable_Wrap(view->get_backward_view().base_));
}

bool is_written_since_made(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return autograd::impl::get_view_autograd_meta(tensor)->get_attr_version() != tensor._version();
}

bool is_inference(PyObject* tensor) noexcept { return THPVariable_Unpack(tensor).is_inference(); }
bool in_inference_mode() noexcept { return c10::InferenceMode::is_enabled(); }

bool has_layout_of_gradient(PyObject* leaf, PyObject* gradient) {
  const at::Tensor &to = THPVariable_Unpack(leaf), &from = THPVariable_Unpack(gradient);
  if (from.layout() != c10::kStrided || to.layout() != c10::kStrided) return false;
  return autograd::utils::obeys_layout_contract(from, to);
}

bool has_no_gradient_hooks(PyObject* object) noexcept {
  if (!is_tensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->autograd_meta() == nullptr) return true;
  const auto* meta = autograd::impl::get_autograd_meta(tensor);
  if (!meta->hooks_.empty() || meta->cpp_hooks_list_ || meta->post_acc_grad_hooks_ || meta->retains_grad_) return false;
  if (meta->grad_dtype_ || meta->allow_grad_dtype_mismatch_) return false;  // then autograd casts what it accumulates
  if (meta->grad_fn_) return !hooks_into(meta->grad_fn_.get());
  const auto accumulator = autograd::impl::try_get_grad_accumulator(tensor);
  return !accumulator || !hooks_into(accumulator.get());
}

bool takes_gradients_silently(PyObject* object) noexcept {
  if (!is_tensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.requires_grad() && autograd::impl::grad_fn_unsafe(tensor) == nullptr && has_no_gradient_hooks(object);
}

bool takes_gradients_by_hooks(PyObject* object) noexcept {
  if (!is_tensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.requires_grad() || autograd::impl::grad_fn_unsafe(tensor) != nullptr) return false;
  const auto* meta = autograd::impl::get_autograd_meta(tensor);
  if (meta->cpp_hooks_list_ || meta->post_acc_grad_hooks_ || meta->retains_grad_) return false;
  if (meta->grad_dtype_ || meta->allow_grad_dtype_mismatch_) return false;
  const PyObject* listed = reinterpret_cast<THPVariable*>(object)->backward_hooks;
  const auto is_listed = [&](const auto& hook) { return is_hook_of_program(*hook) && dict_of(*hook) == listed; };
  if (meta->hooks_.size() != 1 || listed == nullptr || !is_listed(meta->hooks_.front())) return false;
  const auto accumulator = autograd::impl::try_get_grad_accumulator(tensor);
  return !accumulator || (accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

}  // namespace pellucid::aten
