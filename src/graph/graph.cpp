#include "graph/graph.h"

#include <algorithm>
#include <unordered_set>

#include "base/reasons.h"

namespace pellucid::graph {
namespace {

// Borrowed: `operator.getitem` and `torch._C._set_grad_enabled` live as long as their modules.
PyObject* getitem_function() {
  static PyObject* const function = py::import_attr("operator", "getitem").release();
  return function;
}
PyObject* set_grad_enabled_function() {
  static PyObject* const function = py::import_attr("torch._C", "_set_grad_enabled").release();
  return function;
}

PyObject* profiler_op(const char* name) {
  const auto ops = py::import_attr("torch", "ops");
  const auto profiler = py::take(PyObject_GetAttrString(ops.get(), "profiler"));
  return py::take(PyObject_GetAttrString(profiler.get(), name)).release();
}

// True, False, or no value when the node does not switch the grad mode to a constant.
struct GradSwitch {
  bool is_switch = false;
  bool enabled = false;
};
GradSwitch grad_switch(const Node& node) {
  if (node.op != Op::CallFunction || node.args.size() != 1 || node.args[0].kind != Arg::Kind::Constant) return {};
  PyObject* const value = node.args[0].constant.get();
  if (!PyBool_Check(value) || node.target.get() != set_grad_enabled_function()) return {};
  return {true, value == Py_True};
}

bool grad_enabled_now() {
  auto value = py::take(PyObject_CallNoArgs(py::import_attr("torch", "is_grad_enabled").get()));
  return value.get() == Py_True;
}

bool is_trivial_read(const Node& node) {
  if (node.impure || node.may_raise) return false;
  const bool is_size = node.op == Op::CallMethod && PyUnicode_CompareWithASCIIString(node.target.get(), "size") == 0;
  return node.op == Op::GetAttr || is_size || (node.op == Op::CallFunction && node.target.get() == getitem_function());
}

}  // namespace

Node* Graph::add(Op op) {
  arena_.push_back(Node{});
  Node* node = &arena_.back();
  node->op = op;
  node->graph = this;
  auto& list = op == Op::Placeholder ? placeholders_ : calls_;
  node->index = static_cast<int>(list.size());
  list.push_back(node);
  return node;
}

void Graph::set_name(Node* node, std::string_view candidate) { node->name = names_.unique(candidate); }

Node* Graph::placeholder(std::string name_hint, py::Owned<> example, int source_id, std::string source_text) {
  if (source_text.empty()) throw GraphBreak(Reason::Internal, {{"detail", "a graph input without a source"}});
  if (name_hint.empty() || name_hint.find('[') != std::string::npos) name_hint = identifier_of_source(source_text);
  Node* node = add(Op::Placeholder);
  const std::string target = targets_.unique_plain(name_hint);
  node->target = py::str(target);
  set_name(node, snake_case(target));
  targets_.reserve(node->name);
  node->recorded_name = node->name;
  node->named = true;
  node->example_value = std::move(example);
  node->source_id = source_id;
  node->source_text = std::move(source_text);
  return node;
}

Node* Graph::call(Op op, py::Owned<> target, std::vector<Arg> args, std::vector<std::pair<py::Owned<>, Arg>> kwargs,
                  py::Owned<> example) {
  Node* node = add(op);
  set_name(node, candidate_of_target(target.get()));
  targets_.reserve(node->name);
  node->recorded_name = node->name;
  node->target = std::move(target);
  node->args = std::move(args);
  node->kwargs = std::move(kwargs);
  node->example_value = std::move(example);
  count_users(*node, 1);
  return node;
}

void Graph::rename(Node* node, std::string_view variable) {
  if (node->named) return;
  if (variable != node->name) set_name(node, variable);
  node->named = true;
}

void Graph::output(std::vector<Node*> values) {
  outputs_ = std::move(values);
  finished_ = true;
  output_name_ = names_.unique("output");
  for (Node* node : outputs_) ++node->users;
}

void Graph::count_users(const Node& node, int by) {
  for_each_input(node, [by](Node* input) { input->users += by; });
}

namespace {

void replace_equal(Arg& arg) {
  if (arg.kind == Arg::Kind::Node && arg.node->same_as != nullptr) arg.node = arg.node->same_as;
  for (Arg& item : arg.items) replace_equal(item);
}

}  // namespace

void Graph::join_equal_inputs() {
  const auto is_another = [](const Node* node) { return node->same_as != nullptr; };
  if (std::none_of(placeholders_.begin(), placeholders_.end(), is_another)) return;
  const auto uses_another = [&](const Node& node) {
    bool uses = false;
    for_each_input(node, [&](const Node* input) { uses |= is_another(input); });
    return uses;
  };
  for (Node* node : calls_) {
    if (!uses_another(*node)) continue;
    count_users(*node, -1);
    for (Arg& arg : node->args) replace_equal(arg);
    for (auto& entry : node->kwargs) replace_equal(entry.second);
    count_users(*node, 1);
  }
}

// Of switches that follow one another the last counts, and one that changes nothing has no effect.
void Graph::drop_idle_grad_modes() {
  const auto is_switch = [](const Node* node) { return grad_switch(*node).is_switch; };
  if (std::none_of(calls_.begin(), calls_.end(), is_switch)) return;
  bool enabled = grad_enabled_now();
  std::vector<Node*> kept;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const GradSwitch now = grad_switch(*calls_[i]);
    const bool is_last = i + 1 == calls_.size() || !is_switch(calls_[i + 1]);
    if (now.is_switch && (!is_last || now.enabled == enabled)) continue;
    if (now.is_switch) enabled = now.enabled;
    kept.push_back(calls_[i]);
  }
  calls_ = std::move(kept);
}

void Graph::drop_dead_reads() {
  for (std::size_t i = calls_.size(); i-- > 0;) {
    Node* node = calls_[i];
    if (node->users > 0 || !is_trivial_read(*node)) continue;
    count_users(*node, -1);
    calls_[i] = nullptr;
  }
  std::erase(calls_, nullptr);
}

// Nothing is computed in ranges of a profiler and behind switches of the grad mode, which is set behind the region as
// well.
void Graph::drop_what_computes_nothing() {
  const auto computes_nothing = [](const Node* node) {
    return begins_range(*node) || node->target.get() == range_end_function() || grad_switch(*node).is_switch;
  };
  if (outputs_.empty() && std::all_of(calls_.begin(), calls_.end(), computes_nothing)) calls_.clear();
}

void Graph::renumber() {
  for (std::size_t i = 0; i < placeholders_.size(); ++i) placeholders_[i]->index = static_cast<int>(i);
  for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i]->index = static_cast<int>(i);
}

bool begins_range(const Node& node) {
  static PyObject* const begin = profiler_op("_record_function_enter_new");
  return node.target.get() == begin;
}

PyObject* range_end_function() {
  static PyObject* const end = PyObject_GetAttrString(profiler_op("_record_function_exit"), "_RecordFunction");
  return end;
}

void Graph::order_placeholders(std::vector<Node*> in_order) {
  placeholders_ = std::move(in_order);
  renumber();
}

void Graph::simplify_body() {
  drop_dead_reads();
  renumber();
}

void Graph::simplify() {
  join_equal_inputs();
  drop_idle_grad_modes();
  drop_dead_reads();
  drop_what_computes_nothing();
  std::unordered_set<const Node*> kept;
  for (const Node* node : placeholders_) {
    if (node->users > 0) kept.insert(node->sizes.begin(), node->sizes.end());
  }
  std::erase_if(placeholders_, [&](const Node* node) { return node->users == 0 && !kept.contains(node); });
  renumber();
}

}  // namespace pellucid::graph
