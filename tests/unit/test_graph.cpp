// Row A35: what a graph may use.
#include "base/reasons.h"
#include "check.h"
#include "graph/bodies.h"
#include "py/ref.h"

using namespace pellucid;
using graph::Arg, graph::Bodies, graph::Graph, graph::Node, graph::Op;

namespace {

Node* call_with(Graph& graph, const char* name, std::vector<Node*> inputs) {
  std::vector<Arg> args;
  for (Node* input : inputs) args.push_back(Arg::of(input));
  return graph.call(Op::CallFunction, py::str(name), std::move(args), {}, {});
}

// The operator that calls the body which was open.
Node* close_and_call(Bodies& bodies, Graph& outer) {
  graph::Body& body = *bodies.graph().body;
  std::vector<Node*> inputs{bodies.close()};
  inputs.insert(inputs.end(), body.operands.begin(), body.operands.end());
  body.call = call_with(outer, "wrap", std::move(inputs));
  return body.call;
}

// A graph with an input, and a body in it that is open.
struct OneBody {
  Graph root;
  Bodies bodies{root};
  Node* x = root.placeholder("x", {}, -1, "x");
  graph::Body& body = bodies.open("wrap_body");
};

}  // namespace

TEST("A35: a value of an outer graph is an input of each body down to the one that uses it") {
  Graph root;
  Bodies bodies(root);
  Node* x = root.placeholder("x", {}, -1, "x");
  graph::Body& first = bodies.open("wrap_body");
  graph::Body& second = bodies.open("wrap_body");
  Node* inside = bodies.here(x);
  CHECK(inside->graph == &second.graph && inside->op == Op::Placeholder);
  CHECK_EQ(bodies.here(x), inside);
  CHECK_EQ(second.operands.size(), std::size_t{1});
  CHECK(second.operands[0]->graph == &first.graph);
  CHECK_EQ(first.operands.size(), std::size_t{1});
  CHECK_EQ(first.operands[0], x);
}

TEST("A35: a body that is complete goes back to the one around it") {
  Graph root;
  Bodies bodies(root);
  graph::Body& first = bodies.open("wrap_body");
  bodies.open("wrap_body");
  close_and_call(bodies, first.graph);
  CHECK_EQ(&bodies.graph(), &first.graph);
  close_and_call(bodies, root);
  CHECK_EQ(&bodies.graph(), &root);
  CHECK(!bodies.is_open());
  bodies.open("wrap_body");
  bodies.discard();
  CHECK_EQ(&bodies.graph(), &root);
}

TEST("A35: a node that uses one of another graph is an error of ours") {
  OneBody of;
  auto& [root, bodies, x, body] = of;
  body.outputs.push_back(call_with(body.graph, "sin", {x}));  // not handed down
  close_and_call(bodies, root);
  CHECK_THROWS(GraphBreak, (bodies.finish(), 0));
}

TEST("A35: nothing reaches a value of a body whose operator gives none of them") {
  OneBody of;
  auto& [root, bodies, x, body] = of;
  Node* value = call_with(body.graph, "sin", {bodies.here(x)});
  body.keeps_values = true;
  close_and_call(bodies, root);
  CHECK(!bodies.reaches(*value));
  CHECK_THROWS(GraphBreak, bodies.here(value));
}

TEST("A35: a value of a body that is used behind its call is one of its outputs") {
  OneBody of;
  auto& [root, bodies, x, body] = of;
  Node* value = call_with(body.graph, "sin", {bodies.here(x)});
  Node* call = close_and_call(bodies, root);
  Node* outside = bodies.here(value);
  CHECK(outside->graph == &root && outside->args[0].node == call);
  CHECK_EQ(bodies.here(value), outside);
  CHECK_EQ(body.outputs.size(), std::size_t{1});
  bodies.finish();
  CHECK_EQ(body.graph.outputs().size(), std::size_t{1});
}

TEST("A35: a body that nothing calls any more is left out of the check, and its graph has no output") {
  OneBody of;
  auto& [root, bodies, x, body] = of;
  call_with(body.graph, "sin", {x});
  bodies.discard();
  bodies.finish();
  CHECK(!body.graph.has_output());
}
