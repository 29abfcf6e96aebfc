#include "graph/bodies.h"
#include "graph/graph.h"

namespace pellucid::graph {
namespace {

std::string text_of_arg(const Arg& arg);

std::string joined(const std::vector<Arg>& items) {
  std::string out;
  for (const Arg& item : items) {
    if (!out.empty()) out += ", ";
    out += text_of_arg(item);
  }
  return out;
}

std::string tuple_text(const std::vector<Arg>& items) {
  std::string out = "(";
  out += joined(items);
  out += items.size() == 1 ? ",)" : ")";
  return out;
}

std::string bracketed(const char* open, const std::vector<Arg>& items, const char* close) {
  std::string out = open;
  out += joined(items);
  out += close;
  return out;
}

std::string dict_text(const Arg& arg) {
  std::string out = "{";
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    if (i > 0) out += ", ";
    out += py::repr_of(arg.keys[i].get());
    out += ": ";
    out += text_of_arg(arg.items[i]);
  }
  out += "}";
  return out;
}

std::string node_text(const Node& node) {
  std::string out = "%";
  out += node.name;
  return out;
}

std::string text_of_arg(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::Node:
      return node_text(*arg.node);
    case Arg::Kind::Constant:
      return py::repr_of(arg.constant.get());
    case Arg::Kind::List:
      return bracketed("[", arg.items, "]");
    case Arg::Kind::Tuple:
      return tuple_text(arg.items);
    case Arg::Kind::Dict:
      return dict_text(arg);
    case Arg::Kind::Slice:
      return bracketed("slice(", arg.items, ")");
  }
  return "?";
}

// "operator.add", "torch.nn.functional.relu"; a method's name in quotes.
std::string target_text(PyObject* target) {
  if (PyUnicode_Check(target)) return py::text_of(target);
  auto name = py::Owned<>::steal(PyObject_GetAttrString(target, "__name__"));
  PyErr_Clear();
  auto module = py::Owned<>::steal(PyObject_GetAttrString(target, "__module__"));
  PyErr_Clear();
  if (!name || !PyUnicode_Check(name.get())) return py::repr_of(target);
  std::string owner = module && PyUnicode_Check(module.get()) ? py::text_of(module.get()) + "." : "";
  if (owner == "_operator.") owner = "operator.";
  return owner + py::text_of(name.get());
}

std::string head_of(const Node& node) {
  std::string out = "    ";
  out += node_text(node);
  out += " : [num_users=";
  out += std::to_string(node.users);
  out += "] = ";
  out += name_of(node.op);
  out += "[target=";
  out += target_text(node.target.get());
  out += "]";
  return out;
}

std::string call_text(const Node& node) {
  std::string out = head_of(node);
  out += "(args = ";
  out += tuple_text(node.args);
  out += ", kwargs = {";
  for (std::size_t i = 0; i < node.kwargs.size(); ++i) {
    if (i > 0) out += ", ";
    out += py::text_of(node.kwargs[i].first.get());
    out += ": ";
    out += text_of_arg(node.kwargs[i].second);
  }
  out += "})\n";
  return out;
}

}  // namespace

std::string_view name_of(Op op) {
  switch (op) {
    case Op::Placeholder:
      return "placeholder";
    case Op::GetAttr:
      return "get_attr";
    case Op::CallFunction:
      return "call_function";
    case Op::CallMethod:
      return "call_method";
    case Op::Output:
      return "output";
  }
  return "?";
}

std::string print(const Graph& graph) {
  std::string out = "graph():\n";
  for (const Node* node : graph.placeholders()) {
    out += head_of(*node);
    out += "  # ";
    out += node->source_text;
    out += "\n";
  }
  for (const Node* node : graph.nodes()) out += call_text(*node);
  if (!graph.has_output()) return out;
  std::vector<Arg> values;
  for (Node* node : graph.outputs()) values.push_back(Arg::of(node));
  out += "    return ";
  out += graph.body != nullptr && graph.body->gives_one ? text_of_arg(values.front()) : tuple_text(values);
  out += "\n";
  for (const Node* node : graph.nodes()) {
    if (node->body != nullptr) out.append("\n").append(node->body->name).append(" = ").append(print(node->body->graph));
  }
  return out;
}

}  // namespace pellucid::graph
