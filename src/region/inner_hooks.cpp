#include "region/inner_hooks.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "aten/gradients.h"
#include "aten/layers.h"
#include "region/node_tensors.h"
#include "region/region.h"
#include "region/snapshot.h"

namespace pellucid::region {
namespace {

// new_hooks(), hooked() and hooked_all() of torch.ops.pellucid.
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

bool InnerHooks::allowed() const {
  return !aten::is_below_transform() && !region_.capture->bodies->is_open() && region_.audits.empty() &&
         std::ranges::find(behind, region_.steps) == behind.end();
}

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
    HookedInside hooked{region_.steps, py::Owned<>::share(fake), false, key.copy(), {}};
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
  const auto inputs = py::take(PyList_AsTuple(inputs_of(fake).get()));
  return py::take(PyTuple_Pack(3, key, inputs.get(), Py_None));
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
  auto first = py::Owned<>::share(region_.recorder.fake_or_itself(results.front().get()));
  HookedInside hooked{region_.steps, std::move(first), true, key.copy(), {}};
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

// In eager code the tensors of a module are in the memory of those that it was given, or gave: where a result of the
// graph is in such a copy, and another one, or an input, in what it is a copy of.
bool shows_copies(const Capture& capture) {
  std::unordered_map<const void*, const void*> first;  // of copies of copies
  for (const HookedInside& hooked : capture.hooked_inside) {
    for (const auto& [given, result] : hooked.passed) {
      const void* from = aten::meta_of(given.get()).storage;
      const auto known = first.find(from);
      if (hooked.of_module)
        first.emplace(aten::meta_of(result.get()).storage, known == first.end() ? from : known->second);
    }
  }
  std::unordered_map<const void*, const void*> shown;  // the memory that shows, by what it is a copy of
  bool any = false;
  const auto show = [&](const graph::Node* node) {
    each_tensor_of(*node, [&](PyObject* tensor) {
      const void* storage = aten::meta_of(tensor).storage;
      const auto known = first.find(storage);
      any |= shown.emplace(known == first.end() ? storage : known->second, storage).first->second != storage;
    });
  };
  std::ranges::for_each(capture.graph.placeholders(), show);
  std::ranges::for_each(capture.graph.outputs(), show);
  return any;
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

bool has_gradients(const graph::Node* node) {
  PyObject* value = node->example_value.get();
  return value != nullptr && aten::is_tensor(value) && aten::meta_of(value).requires_grad;
}

// An input that is written with gradients is a result too, of which nobody knows what a pass that comes to it comes to.
bool writes_gradients(const Capture& capture) {
  return std::ranges::any_of(capture.graph.placeholders(), [&](const graph::Node* node) {
    return has_gradients(node) && is_written(capture, node->example_value.get());
  });
}

struct Results {
  std::vector<PyObject*> leading;
  bool are_all = true;
};
Results results_leading_to(const Capture& capture, PyObject* hooked) {
  Results results;
  for (const graph::Node* node : capture.graph.outputs()) {
    if (node->op == graph::Op::Placeholder || !has_gradients(node)) continue;
    PyObject* value = node->example_value.get();
    const bool leads = aten::leads_to(value, {hooked})[0];
    results.are_all = results.are_all && leads;
    if (leads) results.leading.push_back(value);
  }
  return results;
}

bool are_in_a_row(PyObject* one, PyObject* other) {
  return aten::leads_to(one, {other})[0] || aten::leads_to(other, {one})[0];
}

}  // namespace

std::int64_t first_not_as_eager(const Capture& capture) {
  if (shows_copies(capture)) {
    const auto is_behind = [](const HookedInside& hooked) { return hooked.of_module; };
    return std::ranges::find_if(capture.hooked_inside, is_behind)->step;
  }
  for (auto hooked = capture.hooked_inside.begin(); hooked != capture.hooked_inside.end(); ++hooked) {
    const auto is_apart = [&](const HookedInside& other) {
      return !are_in_a_row(hooked->fake.get(), other.fake.get());
    };
    if (is_result(capture, *hooked) ||
        (writes_gradients(capture) && !results_leading_to(capture, hooked->fake.get()).are_all) ||
        std::any_of(capture.hooked_inside.begin(), hooked, is_apart))
      return hooked->step;
  }
  return -1;
}

void tell_results(Capture& capture) {
  for (const HookedInside& hooked : capture.hooked_inside) {
    const Results results = results_leading_to(capture, hooked.fake.get());
    if (results.are_all) continue;
    auto leading = py::take(PyTuple_New(static_cast<Py_ssize_t>(results.leading.size())));
    for (std::size_t i = 0; i < results.leading.size(); ++i)
      PyTuple_SET_ITEM(leading.get(), static_cast<Py_ssize_t>(i), Py_NewRef(results.leading[i]));
    for (Effect& effect : capture.effects) {
      PyObject* args = effect.args.get();
      PyObject* given = args != nullptr && PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
      const bool hangs = given != nullptr && PyTuple_CheckExact(given) && PyTuple_GET_SIZE(given) == 3 &&
                         PyTuple_GET_ITEM(given, 0) == hooked.key.get();
      if (!hangs) continue;
      auto told = py::take(PyTuple_Pack(3, hooked.key.get(), PyTuple_GET_ITEM(given, 1), leading.get()));
      auto list = py::take(PySequence_List(args));
      py::check(PyList_SetItem(list.get(), 0, told.release()));
      effect.args = py::take(PyList_AsTuple(list.get()));
    }
  }
}

}  // namespace pellucid::region
