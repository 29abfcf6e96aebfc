// Graphs inside of a graph: what an operator that takes functions is given (torch.ops.higher_order). A value of an
// enclosing graph that a body uses is handed down through every graph between as an operand; a value of a body that is
// used behind its call is one more of its outputs.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace pellucid::graph {

struct Body {
  Body(Graph& outer, std::string kind) : graph(this), outer(outer), name(std::move(kind)) {}

  Graph graph;
  Graph& outer;
  std::string name;             // torch._dynamo's word for it, once it is complete with a number: "wrap_body_0"
  bool gives_one = false;       // its graph gives its only output itself, not a tuple
  bool keeps_values = false;    // what it computes is of its operator alone: nothing behind the call uses it
  std::vector<Node*> operands;  // of the outer graph, one for each placeholder; null: its operator makes that one
  std::unordered_map<Node*, Node*> inside;   // operand -> its placeholder
  Node* call = nullptr;                      // in the outer graph, once the body is complete
  std::vector<Node*> outputs;                // of the body
  std::unordered_map<Node*, Node*> outside;  // output -> what gives it in the outer graph
};

class Bodies {
 public:
  explicit Bodies(Graph& root) : innermost_(&root) {}

  Graph& graph() const { return *innermost_; }  // where nodes go
  bool is_open() const { return innermost_->body != nullptr; }
  bool empty() const { return all_.empty(); }
  // What stands for a node of any graph in the one where nodes go.
  Node* here(Node* node) { return node->graph == innermost_ ? node : in(*innermost_, node); }

  // The same, in the graph around the innermost body.
  Node* in_outer(Node* node) { return in(innermost_->body->outer, node); }

  bool reaches(const Node& node) const;  // here() gives something

  // Nodes go into a new body from here on. `kind`: torch._dynamo's word for it ("wrap_body").
  Body& open(std::string_view kind);
  // The innermost body is complete: a node that gives it, in the enclosing graph, where nodes go again.
  Node* close();
  void discard();  // of the innermost body nothing is left
  // A tensor that only the innermost body has: its operator makes it when the body is called.
  Node* own_input(py::Owned<> example);
  // Complete bodies that one operator calls with the same tensors get the same inputs: their own, then all that any of
  // them uses.
  void share_operands(std::span<Body* const> bodies);
  // At the end, when it is known what is used.
  void finish();

 private:
  Node* in(Graph& graph, Node* node);
  Node* handed_down(Body& body, Node* node);
  Node* handed_out(Body& body, Node* node);

  Graph* innermost_;
  std::vector<std::unique_ptr<Body>> all_;
  std::unordered_map<std::string, int> count_;
};

}  // namespace pellucid::graph
