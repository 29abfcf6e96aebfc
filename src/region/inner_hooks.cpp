#include "region/inner_hooks.h"

#include <algorithm>
#include <functional>

#include "aten/gradients.h"
#include "region/node_tensors.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

// new_hooks() and hooked() of torch.ops.pellucid.
PyObject* operators() {
  static PyObject* const both = py::take(PyObject_CallNoArgs(py::import_attr("pellucid._inner_hooks", "operators").get()))
                                    .release();
  return both;
}

bool shares_memory(const graph::Node& node, PyObject* fake) {
  const void* storage = aten::meta_of(fake).storage;
  bool shares = false;
  each_tensor_taken(node, [&](PyObject* taken) { shares |= aten::meta_of(taken).storage == storage; });
  return shares;
}

bool is_plain_value(PyObject* value) {
  return value == Py_None || PyLong_Check(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value);
}

bool writes_input(const Capture& capture, const graph::Node& node) {
  const auto is_input = [&](const auto& written) {
    return std::ranges::any_of(capture.graph.placeholders(), [&](const graph::Node* input) {
      bool is_it = false;
      each_tensor_of(*input, [&](PyObject* tensor) { is_it |= aten::meta_of(tensor).storage == written.get(); });
      return is_it;
    });
  };
  return std::ranges::any_of(node.written, is_input);
}

}  // namespace

bool InnerHooks::can_pass(PyObject* tensor) const {
  PyObject* fake = region_.recorder.fake_or_itself(tensor);
  const graph::Node* made = region_.recorder.node_of(tensor);
  if (made == nullptr || made->graph != &region_.capture->graph || made->op == graph::Op::Placeholder) return false;
  if (aten::base_of_view(fake) || shares_memory(*made, fake)) return false;
  return std::ranges::none_of(made->graph->nodes(), [&](const graph::Node* node) {
    bool uses = false;
    graph::for_each_input(*node, [&](const graph::Node* input) { uses |= input == made; });
    return uses;
  });
}

// An object from outside knows of no tensor of this call. A function that the region makes knows what its cells hold.
bool InnerHooks::is_from_elsewhere(PyObject* hook) const {
  if (region_.provenance.is_outside(hook)) return true;
  if (!PyFunction_Check(hook) || PyFunction_GetDefaults(hook) != nullptr || PyFunction_GetKwDefaults(hook) != nullptr)
    return false;
  PyObject* cells = PyFunction_GetClosure(hook);
  const Py_ssize_t count = cells == nullptr ? 0 : PyTuple_GET_SIZE(cells);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(cells, i);
    if (region_.provenance.is_outside(cell)) continue;
    PyObject* held = PyCell_GET(cell);
    if (held != nullptr && !region_.provenance.is_outside(held) && !is_plain_value(held)) return false;
  }
  return true;
}

py::Owned<> InnerHooks::inputs_of(PyObject* fake) const {
  std::vector<PyObject*> inputs, fakes;
  for (const graph::Node* node : region_.capture->graph.placeholders()) {
    PyObject* input = node->example_value.get();
    if (input == nullptr || !aten::is_tensor(input) || !aten::meta_of(input).requires_grad) continue;
    fakes.push_back(input);
    inputs.push_back(region_.recorder.tensor_behind(input));
  }
  const std::vector<bool> comes = aten::leads_to(fake, fakes);
  auto found = py::take(PyList_New(0));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (comes[i]) py::check(PyList_Append(found.get(), inputs[i]));
  }
  return found;
}

py::Owned<> InnerHooks::key_for(PyObject* tensor, PyObject* hook) {
  if (!allowed || !is_from_elsewhere(hook)) return {};
  PyObject* fake = region_.recorder.fake_or_itself(tensor);
  const auto known = std::ranges::find_if(hooked_, [&](const Hooked& one) { return one.tensor.get() == tensor; });
  py::Owned<> key;
  if (known != hooked_.end()) {
    key = known->key.copy();
  } else {
    if (!can_pass(tensor)) return {};
    PyObject* make = PyTuple_GET_ITEM(operators(), 0);
    PyObject* pass = PyTuple_GET_ITEM(operators(), 1);
    key = region_.recorder.torch_call(graph::Op::CallFunction, make, make, Args{}).value;
    PyObject* args[] = {tensor, key.get()};
    const auto passed = region_.recorder.torch_call(graph::Op::CallFunction, pass, pass, Args{args, nullptr}).value;
    region_.recorder.stand_for(tensor, passed.get());
    hooked_.push_back({py::Owned<>::share(tensor), key.copy()});
    region_.capture->hooked_inside.push_back(py::Owned<>::share(fake));
    region_.deferred.note_hooked(tensor);
  }
  auto all = inputs_of(fake);
  py::check(PyList_Insert(all.get(), 0, key.get()));
  return py::take(PyList_AsTuple(all.get()));
}

bool calls_hooks_as_eager(const Capture& capture) {
  std::vector<PyObject*> hooked;
  for (const auto& fake : capture.hooked_inside) hooked.push_back(fake.get());
  if (hooked.empty()) return true;
  const auto leads_to_all = [&](PyObject* fake) { return std::ranges::all_of(aten::leads_to(fake, hooked), std::identity{}); };
  const auto fits = [&](const graph::Node* node) {
    PyObject* value = node->example_value.get();
    const bool has_gradients = value != nullptr && aten::is_tensor(value) && aten::meta_of(value).requires_grad;
    return !has_gradients || leads_to_all(value);
  };
  for (const graph::Node* node : capture.graph.outputs()) {
    if (node->op != graph::Op::Placeholder && !fits(node)) return false;
  }
  for (const graph::Node* node : capture.graph.nodes()) {
    if (writes_input(capture, *node) && !fits(node)) return false;  // which is a result then
  }
  for (std::size_t i = 0; i < hooked.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!aten::leads_to(hooked[i], {hooked[j]})[0] && !aten::leads_to(hooked[j], {hooked[i]})[0]) return false;
    }
  }
  return true;
}

}  // namespace pellucid::region
