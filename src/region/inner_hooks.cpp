#include "region/inner_hooks.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_set>

#include "aten/gradients.h"
#include "region/node_tensors.h"
#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {
namespace {

// new_hooks() and hooked() of torch.ops.pellucid.
PyObject* operators() {
  static PyObject* const both =
      py::take(PyObject_CallNoArgs(py::import_attr("pellucid._inner_hooks", "operators").get())).release();
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

bool is_written(const Capture& capture, PyObject* fake) {
  const auto is_it = [&](const auto& written) { return written.get() == aten::meta_of(fake).storage; };
  return std::ranges::any_of(capture.graph.nodes(),
                             [&](const graph::Node* node) { return std::ranges::any_of(node->written, is_it); });
}

}  // namespace

bool InnerHooks::allowed() const { return std::ranges::find(behind, region_.steps) == behind.end(); }

bool InnerHooks::can_pass(PyObject* tensor) const {
  PyObject* fake = region_.recorder.fake_or_itself(tensor);
  const graph::Node* made = region_.recorder.node_of(tensor);
  if (made == nullptr || made->graph != &region_.capture->graph || made->op == graph::Op::Placeholder) return false;
  if (aten::base_of_view(fake) || shares_memory(*made, fake)) return false;
  return std::ranges::none_of(made->graph->nodes(), [&](const graph::Node* node) {
    bool uses = false, has_gradients = false;
    graph::for_each_input(*node, [&](const graph::Node* input) { uses |= input == made; });
    each_tensor_of(*node, [&](PyObject* tensor) { has_gradients |= aten::meta_of(tensor).requires_grad; });
    return uses && has_gradients;
  });
}

// An object from outside knows of no tensor of this call. A function that the region makes knows what its cells hold.
bool InnerHooks::is_from_elsewhere(PyObject* hook) const {
  if (region_.provenance.is_outside(hook)) return true;
  if (PyCFunction_Check(hook))
    return PyCFunction_GET_SELF(hook) && region_.provenance.is_outside(PyCFunction_GET_SELF(hook));
  if (PyMethod_Check(hook)) return region_.provenance.is_outside(PyMethod_GET_SELF(hook));
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
  if (!allowed() || !is_from_elsewhere(hook)) return {};
  PyObject* fake = region_.recorder.fake_or_itself(tensor);
  const auto known = std::ranges::find_if(hooked_, [&](const Hooked& one) { return one.tensor.get() == tensor; });
  py::Owned<> key;
  if (known != hooked_.end()) {
    key = known->key.copy();
  } else {
    if (!can_pass(tensor)) return {};
    PyObject* pass = PyTuple_GET_ITEM(operators(), 1);
    key = new_key();
    PyObject* args[] = {tensor, key.get()};
    const auto passed = region_.recorder.torch_call(graph::Op::CallFunction, pass, pass, Args{args, nullptr}).value;
    region_.recorder.give(fake, region_.recorder.node_of(passed.get()));  // from here on
    hooked_.push_back({py::Owned<>::share(tensor), key.copy()});
    HookedInside hooked{region_.steps, py::Owned<>::share(fake), false, {}};
    hooked.passed.emplace_back(hooked.fake.copy(), py::Owned<>::share(region_.recorder.fake_or_itself(passed.get())));
    region_.capture->hooked_inside.push_back(std::move(hooked));
    region_.deferred.note_hooked(tensor);
  }
  return with_inputs(key.get(), fake);
}

py::Owned<> InnerHooks::new_key() const {
  PyObject* make = PyTuple_GET_ITEM(operators(), 0);
  return region_.recorder.torch_call(graph::Op::CallFunction, make, make, Args{}).value;
}

py::Owned<> InnerHooks::with_inputs(PyObject* key, PyObject* fake) const {
  auto all = inputs_of(fake);
  py::check(PyList_Insert(all.get(), 0, key));
  return py::take(PyList_AsTuple(all.get()));
}

py::Owned<> InnerHooks::pass_all(PyObject* tensors) {
  if (!allowed()) return {};
  std::vector<PyObject*> given(PySequence_Fast_ITEMS(tensors),
                               PySequence_Fast_ITEMS(tensors) + PyTuple_GET_SIZE(tensors));
  const auto has_gradients = [&](PyObject* tensor) {
    return aten::meta_of(region_.recorder.lift(tensor).get()).requires_grad;
  };
  std::vector<PyObject*> with_gradients;
  std::ranges::copy_if(given, std::back_inserter(with_gradients), has_gradients);
  PyObject* pass = PyTuple_GET_ITEM(operators(), 2);
  auto key = new_key();
  PyObject* args[] = {key.get(), tensors};
  auto passed = region_.recorder.torch_call(graph::Op::CallFunction, pass, pass, Args{args, nullptr}).value;
  const auto results = items_now(passed.get());
  HookedInside hooked{
      region_.steps, py::Owned<>::share(region_.recorder.fake_or_itself(results.front().get())), true, {}};
  for (std::size_t i = 0; i < with_gradients.size(); ++i) {
    PyObject* result = results[i].get();
    region_.deferred.note_hooked(with_gradients[i]);
    region_.deferred.note_hooked(result);
    hooked.passed.emplace_back(region_.recorder.lift(with_gradients[i]),
                               py::Owned<>::share(region_.recorder.fake_or_itself(result)));
  }
  passed_.push_back({results.front().copy(), key.copy()});
  region_.capture->hooked_inside.push_back(std::move(hooked));
  return py::take(PySequence_Tuple(passed.get()));
}

py::Owned<> InnerHooks::key_of_passed(PyObject* tensor) const {
  const auto known = std::ranges::find_if(passed_, [&](const Hooked& one) { return one.tensor.get() == tensor; });
  if (known == passed_.end()) return {};
  return with_inputs(known->key.get(), region_.recorder.fake_or_itself(tensor));
}

namespace {

bool any_in_memory_of(const std::vector<graph::Node*>& nodes, PyObject* fake) {
  const void* storage = aten::meta_of(fake).storage;
  return std::ranges::any_of(nodes, [&](const graph::Node* node) {
    bool is_it = false;
    each_tensor_of(*node, [&](PyObject* tensor) { is_it |= aten::meta_of(tensor).storage == storage; });
    return is_it;
  });
}

// In eager code the tensors of a module are in the memory of those that it was given, or gave.
bool shows_copies(const Capture& capture, const HookedInside& hooked) {
  return std::ranges::any_of(hooked.passed, [&](const auto& passed) {
    const auto& [given, result] = passed;
    return any_in_memory_of(capture.graph.outputs(), result.get()) &&
           (any_in_memory_of(capture.graph.placeholders(), given.get()) ||
            any_in_memory_of(capture.graph.outputs(), given.get()));
  });
}

// The tensor itself, or a view of it. Hooks that it gets later come behind those of the graph. What was a view of it
// before has the memory of which it is a copy now.
bool is_result(const Capture& capture, const HookedInside& hooked) {
  if (hooked.of_module) return false;
  const auto& [given, result] = hooked.passed.front();
  std::unordered_set<const graph::Node*> behind;
  for (const graph::Node* node : capture.graph.nodes()) {
    bool is_behind = node->example_value.get() == result.get();
    graph::for_each_input(*node, [&](const graph::Node* input) { is_behind |= behind.contains(input); });
    if (is_behind) behind.insert(node);
  }
  std::vector<graph::Node*> results = capture.graph.outputs();
  std::erase_if(results, [&](const graph::Node* node) { return !behind.contains(node); });
  return any_in_memory_of(results, given.get()) || any_in_memory_of(results, result.get());
}

bool all_results_lead_to(const Capture& capture, PyObject* hooked) {
  const auto leads = [&](const graph::Node* node) {
    PyObject* value = node->example_value.get();
    if (value == nullptr || !aten::is_tensor(value) || !aten::meta_of(value).requires_grad) return true;
    if (node->op == graph::Op::Placeholder && !is_written(capture, value)) return true;
    return static_cast<bool>(aten::leads_to(value, {hooked})[0]);
  };
  return std::ranges::all_of(capture.graph.outputs(), leads) &&
         std::ranges::all_of(capture.graph.placeholders(), leads);
}

bool are_in_a_row(PyObject* one, PyObject* other) {
  return aten::leads_to(one, {other})[0] || aten::leads_to(other, {one})[0];
}

}  // namespace

std::int64_t first_not_as_eager(const Capture& capture) {
  for (auto hooked = capture.hooked_inside.begin(); hooked != capture.hooked_inside.end(); ++hooked) {
    const auto is_apart = [&](const HookedInside& other) {
      return !are_in_a_row(hooked->fake.get(), other.fake.get());
    };
    if (shows_copies(capture, *hooked) || is_result(capture, *hooked) ||
        !all_results_lead_to(capture, hooked->fake.get()) ||
        std::any_of(capture.hooked_inside.begin(), hooked, is_apart))
      return hooked->step;
  }
  return -1;
}

}  // namespace pellucid::region
