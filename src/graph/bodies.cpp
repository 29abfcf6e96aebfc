#include "graph/bodies.h"

#include "base/reasons.h"

namespace pellucid::graph {
namespace {

bool encloses(const Graph& outer, const Graph& inner) {
  for (const Graph* graph = &inner; graph->body != nullptr;) {
    graph = &graph->body->outer;
    if (graph == &outer) return true;
  }
  return false;
}

[[noreturn]] void misplaced(const Node& node) {
  throw GraphBreak(Reason::Internal, {{"detail", node.name + " is used in a graph that it does not lie in"}});
}

void check_inputs(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    for_each_input(*node, [&](const Node* input) {
      if (input->graph != &graph) misplaced(*input);
    });
  }
}

}  // namespace

Body& Bodies::open(std::string_view kind) {
  std::string name(kind);
  const int number = count_[name]++;
  name.append("_").append(std::to_string(number));
  all_.push_back(std::make_unique<Body>(*innermost_, std::move(name)));
  innermost_ = &all_.back()->graph;
  return *all_.back();
}

Node* Bodies::close() {
  const Body& body = *innermost_->body;
  innermost_ = &body.outer;
  Node* node = innermost_->call(Op::GetAttr, py::str(body.name), {}, {}, {});
  node->body = &body;
  return node;
}

void Bodies::discard() { innermost_ = &innermost_->body->outer; }

Node* Bodies::in(Graph& graph, Node* node) {
  if (node->graph == &graph) return node;
  if (encloses(*node->graph, graph)) return handed_down(*graph.body, in(graph.body->outer, node));
  if (node->graph->body == nullptr) misplaced(*node);
  return in(graph, handed_out(*node->graph->body, node));
}

Node* Bodies::handed_down(Body& body, Node* node) {
  Node*& placeholder = body.inside[node];
  if (placeholder != nullptr) return placeholder;
  if (body.call != nullptr) misplaced(*node);
  body.operands.push_back(node);
  const std::string& source = node->source_text.empty() ? node->name : node->source_text;
  placeholder = body.graph.placeholder(node->name, node->example_value.copy(), -1, source);
  placeholder->where = node->where;
  return placeholder;
}

Node* Bodies::handed_out(Body& body, Node* node) {
  static PyObject* const getitem = py::import_attr("operator", "getitem").release();
  if (body.call == nullptr) misplaced(*node);
  if (node->op == Op::Placeholder) return body.operands[static_cast<std::size_t>(node->index)];
  Node*& outside = body.outside[node];
  if (outside != nullptr) return outside;
  std::vector<Arg> args;
  args.push_back(Arg::of(body.call));
  args.push_back(Arg::of(py::take(PyLong_FromSize_t(body.outputs.size()))));
  body.outputs.push_back(node);
  outside =
      body.outer.call(Op::CallFunction, py::Owned<>::share(getitem), std::move(args), {}, node->example_value.copy());
  outside->where = body.call->where;
  return outside;
}

void Bodies::finish() {
  if (all_.empty()) return;
  for (const auto& body : all_) {
    if (body->call == nullptr) continue;
    body->graph.output(body->outputs);
    body->graph.simplify_body();
    check_inputs(body->graph);
    check_inputs(body->outer);
  }
}

}  // namespace pellucid::graph
