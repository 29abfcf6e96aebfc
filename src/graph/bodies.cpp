#include "graph/bodies.h"

#include <algorithm>

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
  all_.push_back(std::make_unique<Body>(*innermost_, std::string(kind)));
  innermost_ = &all_.back()->graph;
  return *all_.back();
}

Node* Bodies::close() {
  Body& body = *innermost_->body;
  const int number = count_[body.name]++;
  body.name.append("_").append(std::to_string(number));
  innermost_ = &body.outer;
  Node* node = innermost_->call(Op::GetAttr, py::str(body.name), {}, {}, {});
  node->body = &body;
  return node;
}

Node* Bodies::own_input(py::Owned<> example) {
  Body& body = *innermost_->body;
  body.operands.push_back(nullptr);
  return body.graph.placeholder("child", std::move(example), -1, "an argument of " + body.name);
}

void Bodies::share_operands(std::span<Body* const> bodies) {
  std::vector<Node*> shared;
  for (const Body* body : bodies) {
    for (Node* operand : body->operands) {
      if (operand != nullptr && std::ranges::find(shared, operand) == shared.end()) shared.push_back(operand);
    }
  }
  for (Body* body : bodies) {
    std::vector<Node*> placeholders, operands;
    for (std::size_t i = 0; i < body->operands.size(); ++i) {
      if (body->operands[i] == nullptr) placeholders.push_back(body->graph.placeholders()[i]);
    }
    operands.resize(placeholders.size());
    for (Node* operand : shared) placeholders.push_back(handed_down(*body, operand));
    operands.insert(operands.end(), shared.begin(), shared.end());
    body->operands = std::move(operands);
    body->graph.order_placeholders(std::move(placeholders));
  }
}

void Bodies::discard() { innermost_ = &innermost_->body->outer; }

bool Bodies::reaches(const Node& node) const {
  if (node.graph == innermost_ || encloses(*node.graph, *innermost_)) return true;
  const Body* body = node.graph->body;
  return body != nullptr && body->call != nullptr && !body->keeps_values && reaches(*body->call);
}

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
  if (body.call == nullptr || body.keeps_values) misplaced(*node);
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
