// The captured program: an arena of nodes in execution order. Torch-free; Python objects (callables, constants, fakes)
// are held as owned references.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/names.h"
#include "py/ref.h"

namespace pellucid::graph {

struct Node;
class Graph;
struct Body;

// One argument of a node: a node, a constant object, or a container of arguments.
struct Arg {
  enum class Kind : std::uint8_t { Node, Constant, List, Tuple, Dict, Slice } kind = Kind::Constant;
  Node* node = nullptr;
  py::Owned<> constant;           // Constant; also the container's type for Tuple when it is a subclass (torch.Size,
                                  // namedtuple), else empty
  std::vector<Arg> items;         // List, Tuple, Slice (start, stop, step), Dict (values)
  std::vector<py::Owned<>> keys;  // Dict

  static Arg of(Node* n) {
    Arg a;
    a.kind = Kind::Node;
    a.node = n;
    return a;
  }
  static Arg of(py::Owned<> c) {
    Arg a;
    a.constant = std::move(c);
    return a;
  }
};

// Calls that are made in the place of a node's own where the graph runs as it is, and give the same.
struct Steps {
  struct Value {
    enum class Kind : std::uint8_t { Argument, Result, Constant } kind = Kind::Constant;
    std::size_t index = 0;  // among the arguments of the node, keywords behind the others; among the steps
    py::Owned<> constant;
  };
  struct Call {
    py::Owned<> callable;
    std::vector<Value> args;
    py::Owned<> kwnames;  // of the last ones; or empty
  };
  std::vector<Call> calls;
  std::size_t gives = 0;  // which of them gives the value of the node
};

// One frame of the user's call chain at the time a node was recorded: a persistent list, shared between nodes.
struct CallSite {
  py::Owned<PyCodeObject> code;
  int offset = -1;  // byte offset of the instruction in `code`
  std::shared_ptr<const CallSite> caller;
  // When this frame is the call of an nn.Module: its path as source text, the same with "@n" for the n-th call after
  // the first, its class.
  std::string module_path, module_key;
  py::Owned<> module_type;
  // When this frame runs a graph that torch.fx wrote as code: a weak reference to its GraphModule, whose nodes know
  // where they come from.
  py::Owned<> graph_module;
};

enum class Op : std::uint8_t { Placeholder, GetAttr, CallFunction, CallMethod, Output };

struct Node {
  Op op;
  Graph* graph = nullptr;     // that it lies in
  py::Owned<> target;         // callable for CallFunction, str for the others
  std::string name;           // unique in the graph; made from the target by the rules of torch.fx
  std::string recorded_name;  // the name before a rename (what source_fn_stack shows)
  std::vector<Arg> args;
  std::vector<std::pair<py::Owned<>, Arg>> kwargs;
  py::Owned<> example_value;  // the fake (or constant) that the node gave
  py::Owned<>
      attribute;  // GetAttr: the object itself (a lifted constant tensor); the target is the name it gets on the module
  const Body* body = nullptr;  // GetAttr: the graph that it gives, for an operator that takes functions
  // What runs in place of such an operator where nobody but this process sees the graph: it is what the program calls.
  py::Owned<> plain;
  std::shared_ptr<const Steps> steps;  // or null
  std::shared_ptr<const CallSite> where;
  std::int64_t step = -1;   // of the program, that recorded it
  int index = 0;            // position among the placeholders or among the calls
  int users = 0;            // how often the value is used by other nodes and by the output
  bool impure = false;      // mutates an input or state (in-place ops, grad-mode switches): never removed as dead code
  bool may_raise = false;   // on the values of its tensors: an index out of range, a singular matrix
  bool random = false;      // draws from a generator
  bool overwrites = false;  // what it writes, it writes without reading it
  std::vector<std::shared_ptr<const void>> written;  // the storages of fakes that it writes to
  bool named = false;                                // has got its name from a variable
  int source_id = -1;                                // Placeholder: id in the capture's SourceTable
  std::string source_text;                           // Placeholder: printed source, "L['self']._modules['h']…"
  std::vector<const Node*> sizes;                    // Placeholder: others that are there as long as it is used
  Node* same_as = nullptr;                           // Placeholder: an earlier one that gives this number at every call
};

class Graph {
 public:
  explicit Graph(Body* body = nullptr) : body(body) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The target is `name_hint`, made an identifier when it is source text; empty: the source text ("L_self_modules_h_").
  Node* placeholder(std::string name_hint, py::Owned<> example, int source_id, std::string source_text);
  Node* call(Op op, py::Owned<> target, std::vector<Arg> args, std::vector<std::pair<py::Owned<>, Arg>> kwargs,
             py::Owned<> example);
  // A program variable got this value: its first one names the node, as torch._dynamo does at STORE_FAST. Placeholders
  // keep theirs.
  void rename(Node* node, std::string_view variable);
  void output(std::vector<Node*> values);  // once, at the end: a tuple of these

  const std::vector<Node*>& placeholders() const noexcept {
    return placeholders_;
  }                                                                    // head of the graph, first-use order
  const std::vector<Node*>& nodes() const noexcept { return calls_; }  // everything else but the output
  const std::vector<Node*>& outputs() const noexcept { return outputs_; }
  bool has_output() const noexcept { return finished_; }
  const std::string& output_name() const noexcept { return output_name_; }
  const Namespace& names() const noexcept { return names_; }
  std::size_t op_count() const noexcept { return calls_.size(); }
  // Puts the first one in the place of inputs that are the same; drops dead get_attr/getitem nodes, cancelled grad-mode
  // pairs, ranges for the profiler with nothing else in the graph, then unused placeholders (rows D16, D17, D22). Every
  // other dead call stays: it may fail at run time. To be called while the thread's grad mode is what it was at the
  // start of the region.
  void simplify();
  // The same for the graph of a body, whose inputs are those that its call gives.
  void simplify_body();
  void order_placeholders(std::vector<Node*> in_order);  // all of them

  Body* const body;  // whose graph it is; null: the region's

 private:
  Node* add(Op op);
  void set_name(Node* node, std::string_view candidate);
  void count_users(const Node& node, int by);
  void join_equal_inputs();
  void drop_idle_grad_modes();
  void drop_dead_reads();
  void drop_what_computes_nothing();
  void renumber();

  std::deque<Node> arena_;
  std::vector<Node*> placeholders_, calls_, outputs_;
  bool finished_ = false;
  std::string output_name_;
  Namespace names_, targets_;
};

// A node that begins a range which torch's profiler shows, and what ends such a range. Borrowed.
bool begins_range(const Node& node);
PyObject* range_end_function();

template <class F>
void for_each_node(const Arg& arg, F&& visit) {
  if (arg.kind == Arg::Kind::Node) visit(arg.node);
  for (const Arg& item : arg.items) for_each_node(item, visit);
}
template <class F>
void for_each_input(const Node& node, F&& visit) {
  for (const Arg& arg : node.args) for_each_node(arg, visit);
  for (const auto& entry : node.kwargs) for_each_node(entry.second, visit);
}

std::string_view name_of(Op op);        // "call_function", torch.fx's word
std::string print(const Graph& graph);  // readable text, one line per node

}  // namespace pellucid::graph
