// The captured program: an arena of nodes in execution order. Torch-free; Python objects (callables, constants, fakes)
// are held as owned references.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "py/ref.h"

namespace pellucid::graph {

struct Node;

// One argument of a node: a node, a constant object, or a container of arguments.
struct Arg {
  enum class Kind : std::uint8_t { Node, Constant, List, Tuple, Dict, Slice } kind = Kind::Constant;
  Node* node = nullptr;
  py::Owned<> constant;      // Constant; also the container's type for Tuple when it is a subclass (torch.Size, namedtuple), else empty
  std::vector<Arg> items;    // List, Tuple, Slice (start, stop, step), Dict (values)
  std::vector<py::Owned<>> keys;  // Dict

  static Arg of(Node* n) { Arg a; a.kind = Kind::Node; a.node = n; return a; }
  static Arg of(py::Owned<> c) { Arg a; a.constant = std::move(c); return a; }
};

// One frame of the user's call chain at the time a node was recorded: a persistent list, shared between nodes.
struct CallSite {
  py::Owned<PyCodeObject> code;
  int offset = -1;                       // byte offset of the instruction in `code`
  std::shared_ptr<const CallSite> caller;
  // nn.Module whose forward this frame runs, if any: (path as source text, qualified name of the class)
  std::string module_path;
  py::Owned<> module_type;
};

enum class Op : std::uint8_t { Placeholder, GetAttr, CallFunction, CallMethod, Output };

struct Node {
  Op op;
  py::Owned<> target;            // callable for CallFunction, str for the others
  std::string name;              // unique in the graph; filled by Graph::add from the hint
  std::vector<Arg> args;
  std::vector<std::pair<py::Owned<>, Arg>> kwargs;
  py::Owned<> example_value;     // the fake (or constant) that the node gave
  std::shared_ptr<const CallSite> where;
  int index = 0;                 // position in the graph
  int users = 0;
  bool impure = false;           // mutates an input or state (in-place ops, grad-mode switches): never removed as dead code
  int source_id = -1;            // Placeholder: id in the capture's SourceTable
  std::string source_text;       // Placeholder: printed source, "L['self']._modules['h']…"
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* placeholder(std::string name_hint, py::Owned<> example, int source_id, std::string source_text);
  Node* call(Op op, py::Owned<> target, std::vector<Arg> args, std::vector<std::pair<py::Owned<>, Arg>> kwargs, py::Owned<> example);
  void output(std::vector<Node*> values);       // once, at the end: a tuple of these

  const std::vector<Node*>& placeholders() const noexcept { return placeholders_; }  // head of the graph, first-use order
  const std::vector<Node*>& nodes() const noexcept { return calls_; }                // everything else but the output
  const std::vector<Node*>& outputs() const noexcept { return outputs_; }
  bool has_output() const noexcept { return finished_; }
  std::size_t op_count() const noexcept { return calls_.size(); }
  void truncate(std::size_t calls, std::size_t placeholders);
  // Drops dead get_attr/getitem nodes, cancelled grad-mode pairs, then unused placeholders (rows D16, D22).
  void simplify();

 private:
  std::string unique_name(std::string hint);
  void count_users(const Node& node, int by);
  std::deque<Node> arena_;
  std::vector<Node*> placeholders_, calls_, outputs_;
  bool finished_ = false;
  std::vector<std::pair<std::string, int>> name_counts_;  // see graph.cpp
};

std::string print(const Graph& graph);  // readable text, one line per node

}  // namespace pellucid::graph
