#include "graph/same.h"

#include <algorithm>
#include <unordered_map>

#include "graph/bodies.h"

namespace pellucid::graph {
namespace {

// Numbers and texts of one type are compared, other constants have to be the same object.
bool is_same_constant(PyObject* one, PyObject* other) {
  if (one == other) return true;
  if (one == nullptr || other == nullptr || Py_TYPE(one) != Py_TYPE(other)) return false;
  if (!PyLong_CheckExact(one) && !PyFloat_CheckExact(one) && !PyUnicode_CheckExact(one)) return false;
  // By their text, which tells 0.0 from -0.0.
  return PyFloat_CheckExact(one) ? py::repr_of(one) == py::repr_of(other)
                                 : PyObject_RichCompareBool(one, other, Py_EQ) == 1;
}

class Comparison {
 public:
  using SameValues = std::function<bool(PyObject*, PyObject*)>;
  explicit Comparison(const SameValues& same_values) : same_values_(same_values) {}

  bool of_nodes(const Node& one, const Node& other) {
    const auto same_keyword = [&](const auto& a, const auto& b) {
      return is_same_constant(a.first.get(), b.first.get()) && of_args(a.second, b.second);
    };
    const auto same_arg = [&](const Arg& a, const Arg& b) { return of_args(a, b); };
    const bool is_named = one.op == Op::Placeholder || (one.body != nullptr && other.body != nullptr);
    const bool same = one.op == other.op && (is_named || is_same_constant(one.target.get(), other.target.get())) &&
                      one.attribute.get() == other.attribute.get() && of_bodies(one.body, other.body) &&
                      std::ranges::equal(one.args, other.args, same_arg) &&
                      std::ranges::equal(one.kwargs, other.kwargs, same_keyword) &&
                      of_values(one.example_value.get(), other.example_value.get());
    if (same) counterpart_[&one] = &other;
    return same;
  }

  bool are_counterparts(const Node* one, const Node* other) const {
    const auto found = counterpart_.find(one);
    return found != counterpart_.end() && found->second == other;
  }

 private:
  bool of_bodies(const Body* one, const Body* other) const {
    return one == other || (one != nullptr && other != nullptr && are_same(one->graph, other->graph, same_values_));
  }

  bool of_values(PyObject* one, PyObject* other) const {
    return one == nullptr || other == nullptr ? one == other : same_values_(one, other);
  }

  bool of_args(const Arg& one, const Arg& other) const {
    const auto same_arg = [&](const Arg& a, const Arg& b) { return of_args(a, b); };
    const auto same_key = [](const auto& a, const auto& b) { return is_same_constant(a.get(), b.get()); };
    if (one.kind != other.kind) return false;
    if (one.kind == Arg::Kind::Node) return are_counterparts(one.node, other.node);
    return is_same_constant(one.constant.get(), other.constant.get()) &&
           std::ranges::equal(one.items, other.items, same_arg) && std::ranges::equal(one.keys, other.keys, same_key);
  }

  const SameValues& same_values_;
  std::unordered_map<const Node*, const Node*> counterpart_;
};

}  // namespace

bool are_same(const Graph& one, const Graph& other,
              const std::function<bool(PyObject* one, PyObject* other)>& same_values) {
  Comparison comparison(same_values);
  const auto same_node = [&](const Node* a, const Node* b) { return comparison.of_nodes(*a, *b); };
  return std::ranges::equal(one.placeholders(), other.placeholders(), same_node) &&
         std::ranges::equal(one.nodes(), other.nodes(), same_node);
}

}  // namespace pellucid::graph
