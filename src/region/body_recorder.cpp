#include "region/body_recorder.h"

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

graph::Node* BodyRecorder::call(PyObject* target, py::Owned<> plain, graph::Node* given, PyObject* options,
                                PyObject* result) {
  auto& body = const_cast<graph::Body&>(*given->body);  // which nobody has called yet
  std::vector<graph::Arg> args;
  args.push_back(graph::Arg::of(given));
  for (graph::Node* operand : body.operands) args.push_back(graph::Arg::of(operand));
  std::vector<std::pair<py::Owned<>, graph::Arg>> keywords;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(options, &at, &name, &value) != 0;)
    keywords.emplace_back(py::Owned<>::share(name), graph::Arg::of(py::Owned<>::share(value)));
  graph::Node* node =
      body.outer.call(graph::Op::CallFunction, py::Owned<>::share(target), std::move(args), std::move(keywords), {});
  node->where = region_.recorder.call_site();
  node->plain = std::move(plain);
  for (const graph::Node* inner : body.graph.nodes()) {
    node->impure |= inner->impure;
    node->may_raise |= inner->may_raise;
    node->random |= inner->random;
    node->written.insert(node->written.end(), inner->written.begin(), inner->written.end());
  }
  node->step = region_.steps;
  body.call = node;
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
