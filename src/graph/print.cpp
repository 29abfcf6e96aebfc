#include "graph/graph.h"

namespace pellucid::graph {
namespace {

std::string text_of_arg(const Arg& arg);

std::string joined(const std::vector<Arg>& items) {
  std::string out;
  for (const Arg& item : items) out += (out.empty() ? "" : ", ") + text_of_arg(item);
  return out;
}

std::string dict_text(const Arg& arg) {
  std::string out;
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    out += (i == 0 ? "" : ", ") + py::repr_of(arg.keys[i].get()) + ": " + text_of_arg(arg.items[i]);
  }
  return "{" + out + "}";
}

std::string text_of_arg(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::Node: return "%" + arg.node->name;
    case Arg::Kind::Constant: return py::repr_of(arg.constant.get());
    case Arg::Kind::List: return "[" + joined(arg.items) + "]";
    case Arg::Kind::Tuple: return "(" + joined(arg.items) + (arg.items.size() == 1 ? ",)" : ")");
    case Arg::Kind::Dict: return dict_text(arg);
    case Arg::Kind::Slice: return "slice(" + joined(arg.items) + ")";
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

std::string call_text(const Node& node) {
  std::string kwargs;
  for (const auto& [key, value] : node.kwargs) {
    kwargs += (kwargs.empty() ? "" : ", ") + py::text_of(key.get()) + ": " + text_of_arg(value);
  }
  return "%" + node.name + " : [num_users=" + std::to_string(node.users) + "] = " + std::string(name_of(node.op)) +
         "[target=" + target_text(node.target.get()) + "](args = (" + joined(node.args) + (node.args.size() == 1 ? ",)" : ")") +
         ", kwargs = {" + kwargs + "})\n";
}

}  // namespace

std::string_view name_of(Op op) {
  switch (op) {
    case Op::Placeholder: return "placeholder";
    case Op::GetAttr: return "get_attr";
    case Op::CallFunction: return "call_function";
    case Op::CallMethod: return "call_method";
    case Op::Output: return "output";
  }
  return "?";
}

std::string print(const Graph& graph) {
  std::string out = "graph():\n";
  for (const Node* node : graph.placeholders()) {
    out += "    %" + node->name + " : [num_users=" + std::to_string(node->users) + "] = placeholder[target=" +
           py::text_of(node->target.get()) + "]  # " + node->source_text + "\n";
  }
  for (const Node* node : graph.nodes()) out += "    " + call_text(*node);
  if (!graph.has_output()) return out;
  std::string values;
  for (const Node* node : graph.outputs()) values += (values.empty() ? "%" : ", %") + node->name;
  return out + "    return (" + values + (graph.outputs().size() == 1 ? ",)\n" : ")\n");
}

}  // namespace pellucid::graph
