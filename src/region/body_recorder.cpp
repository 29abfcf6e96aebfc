#include "region/body_recorder.h"

#include <algorithm>
#include <unordered_set>

#include "aten/aten.h"
#include "region/objects.h"
#include "region/region.h"

namespace pellucid::region {

graph::Node* BodyRecorder::here(PyObject* tensor) const {
  return region_.capture->bodies->here(region_.recorder.node_of(tensor));
}

graph::Body& BodyRecorder::open(const char* kind, std::span<PyObject* const> first) {
  for (PyObject* tensor : first) (void)region_.recorder.lift(tensor);
  graph::Body& body = region_.capture->bodies->open(kind);
  renamed_.emplace_back();
  for (PyObject* tensor : first) (void)here(tensor);
  return body;
}

void BodyRecorder::note_written(PyObject* tensor, graph::Node* before) {
  if (!renamed_.empty()) renamed_.back().emplace_back(tensor, before);
}

void BodyRecorder::take_back_names() {
  for (auto at = renamed_.back().rbegin(); at != renamed_.back().rend(); ++at)
    region_.capture->node_of[at->first] = at->second;
  renamed_.pop_back();
}

void BodyRecorder::discard() {
  take_back_names();
  region_.capture->bodies->discard();
}

graph::Node* BodyRecorder::close() {
  take_back_names();
  graph::Node* node = region_.capture->bodies->close();
  node->where = region_.recorder.call_site();
  return node;
}

graph::Node* BodyRecorder::call_node(PyObject* target, py::Owned<> plain, std::span<graph::Node* const> bodies,
                                     std::vector<graph::Arg> args,
                                     std::vector<std::pair<py::Owned<>, graph::Arg>> keywords) {
  graph::Node* node = region_.capture->bodies->graph().call(graph::Op::CallFunction, py::Owned<>::share(target),
                                                            std::move(args), std::move(keywords), {});
  node->where = region_.recorder.call_site();
  node->plain = std::move(plain);
  node->step = region_.steps;
  for (const graph::Node* given : bodies) {
    auto& body = const_cast<graph::Body&>(*given->body);  // which nobody has called yet
    for (const graph::Node* inner : body.graph.nodes()) {
      node->impure |= inner->impure;
      node->may_raise |= inner->may_raise;
      node->random |= inner->random;
      node->written.insert(node->written.end(), inner->written.begin(), inner->written.end());
    }
    body.call = node;
  }
  return node;
}

py::Owned<> BodyRecorder::fresh(PyObject* how, std::size_t count, std::span<PyObject* const> likes) {
  static PyObject* const make = py::import_attr("pellucid._bodies", "fresh").release();
  const auto number = py::take(PyLong_FromSize_t(count));
  const auto sizes = region_.recorder.to_fake(how);
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values{sizes.get(), number.get()};
  for (PyObject* like : likes) values.push_back(held.emplace_back(region_.recorder.lift(like)).get());
  auto made = region_.recorder.fakes().call(make, values.data(), values.size(), nullptr);
  (void)aten::take_facts();
  return made;
}

py::Owned<> BodyRecorder::own_input(PyObject* like, PyObject* how, bool requires_grad) {
  static PyObject* const make = py::import_attr("pellucid._bodies", "input_like").release();
  const auto fake = region_.recorder.lift(like);
  PyObject* values[] = {fake.get(), how, requires_grad ? Py_True : Py_False};
  auto made = region_.recorder.fakes().call(make, values, 3, nullptr);
  (void)aten::take_facts();
  graph::Node* node = region_.capture->bodies->own_input(made.copy());
  node->where = region_.recorder.call_site();
  region_.recorder.give(made.get(), node);
  return made;
}

bool writes_operands(const graph::Body& body) {
  std::unordered_set<const void*> storages;
  for (const graph::Node* node : body.graph.placeholders()) {
    if (node->example_value && aten::is_tensor(node->example_value.get()))
      storages.insert(aten::meta_of(node->example_value.get()).storage);
  }
  return std::ranges::any_of(body.graph.nodes(), [&](const graph::Node* node) {
    return std::ranges::any_of(node->written, [&](const auto& written) { return storages.contains(written.get()); });
  });
}

const char* BodyRecorder::set_outputs(std::span<PyObject* const> tensors) {
  graph::Body& body = *region_.capture->bodies->graph().body;
  std::vector<const void*> given;
  for (PyObject* tensor : tensors) {
    given.push_back(aten::meta_of(region_.recorder.lift(tensor).get()).storage);
    body.outputs.push_back(here(tensor));
  }
  if (writes_operands(body)) return "it writes to tensors that it is given";
  std::unordered_set<const void*> known;
  for (const graph::Node* node : body.graph.placeholders()) {
    if (node->example_value && aten::is_tensor(node->example_value.get()))
      known.insert(aten::meta_of(node->example_value.get()).storage);
  }
  const auto is_new = [&](const void* storage) { return known.insert(storage).second; };
  return std::ranges::all_of(given, is_new) ? nullptr : "it gives a tensor that it is given, or a view, or one twice";
}

void BodyRecorder::copy_alias(graph::Arg& arg, std::unordered_set<const void*>& met) {
  for (graph::Arg& item : arg.items) copy_alias(item, met);
  if (arg.kind != graph::Arg::Kind::Node || arg.node->body != nullptr) return;
  const py::Owned<>& fake = arg.node->example_value;
  if (!fake || !aten::is_tensor(fake.get()) || met.insert(aten::meta_of(fake.get()).storage).second) return;
  static PyObject* const clone = PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "clone");
  PyObject* given = fake.get();
  auto copy = region_.recorder.fakes().call(clone, &given, 1, nullptr);
  (void)aten::take_facts();
  std::vector<graph::Arg> args;
  args.push_back(graph::Arg::of(arg.node));
  graph::Graph& graph = *arg.node->graph;
  arg.node = graph.call(graph::Op::CallMethod, py::str("clone"), std::move(args), {}, std::move(copy));
  arg.node->where = region_.recorder.call_site();
}

void BodyRecorder::copy_aliases(std::vector<graph::Arg>& args) {
  std::unordered_set<const void*> met;
  for (graph::Arg& arg : args) copy_alias(arg, met);
}

std::size_t BodyRecorder::keep(graph::Node* given) {
  kept_.push_back(given);
  return kept_.size() - 1;
}

py::Owned<> BodyRecorder::call(PyObject* target, py::Owned<> plain, std::span<graph::Node* const> bodies,
                               std::vector<graph::Arg> args, const py::Owned<>& result) {
  graph::Node* node = call_node(target, std::move(plain), bodies, std::move(args), {});
  node->example_value = result.copy();
  return region_.recorder.unpack(result.get(), node, node->where);
}

graph::Node* BodyRecorder::call(PyObject* target, py::Owned<> plain, graph::Node* given, PyObject* options,
                                PyObject* result) {
  const graph::Body& body = *given->body;
  std::vector<graph::Arg> args;
  args.push_back(graph::Arg::of(given));
  for (graph::Node* operand : body.operands) args.push_back(graph::Arg::of(operand));
  std::vector<std::pair<py::Owned<>, graph::Arg>> keywords;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(options, &at, &name, &value) != 0;)
    keywords.emplace_back(py::Owned<>::share(name), graph::Arg::of(py::Owned<>::share(value)));
  graph::Node* node = call_node(target, std::move(plain), {&given, 1}, std::move(args), std::move(keywords));
  each_tensor(result, [&](PyObject* tensor) {
    if (graph::Node* inner = region_.recorder.node_of(tensor)) (void)region_.capture->bodies->here(inner);
  });
  auto example = py::take(PyTuple_New(static_cast<Py_ssize_t>(body.outputs.size())));
  for (std::size_t i = 0; i < body.outputs.size(); ++i)
    PyTuple_SET_ITEM(example.get(), static_cast<Py_ssize_t>(i), body.outputs[i]->example_value.copy().release());
  node->example_value = std::move(example);
  return node;
}

}  // namespace pellucid::region
