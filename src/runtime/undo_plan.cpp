#include "runtime/undo_plan.h"

#include <algorithm>
#include <map>

#include "region/subclasses.h"
#include "region/wrapper_subclasses.h"

namespace pellucid::runtime {
namespace {

using aten::Keep;
using graph::Node;

constexpr int kNever = -1;

// Of one storage, by position among the nodes.
struct Use {
  int first_write = kNever;
  int last_write = kNever;  // before the last node that may raise
  int first_read = kNever;
};

const void* storage_of(PyObject* value) {
  return value != nullptr && aten::is_tensor(value) ? aten::meta_of(value).storage : nullptr;
}

bool writes(const Node& node, const void* storage) {
  return std::ranges::any_of(node.written, [&](const auto& written) { return written.get() == storage; });
}

class Planner {
 public:
  Planner(const region::Capture& capture, bool in_order) : capture_(capture), in_order_(in_order) {
    for (const Node* node : nodes()) {
      if (node->may_raise) last_raise_ = node->index;
    }
    for (const Node* node : nodes()) {
      for (const auto& storage : node->written) note_write(uses_[storage.get()], node->index);
    }
    if (last_raise_ == kNever || uses_.empty()) return;
    for (const Node* node : nodes()) note_reads(*node);
  }

  UndoPlan plan() {
    UndoPlan plan;
    plan.may_raise = last_raise_ != kNever;
    const auto& placeholders = capture_.graph.placeholders();
    for (std::size_t i = 0; i < placeholders.size(); ++i) {
      plan.cuda |= is_on_cuda(*placeholders[i]);
      if (const Use* use = use_of(*placeholders[i])) plan.inputs.push_back({i, keep(*use, *placeholders[i])});
    }
    for (const Node* node : nodes()) {
      plan.generators |= node->random && last_raise_ != kNever && (!in_order_ || node->index <= last_raise_);
      if (node->op != graph::Op::GetAttr) continue;
      if (const Use* use = use_of(*node)) plan.attributes.push_back({node->attribute.copy(), keep(*use, *node)});
    }
    return plan;
  }

 private:
  const std::vector<Node*>& nodes() const { return capture_.graph.nodes(); }

  void note_write(Use& use, int at) const {
    if (use.first_write == kNever) use.first_write = at;
    if (at <= last_raise_) use.last_write = at;
  }

  void note_reads(const Node& node) {
    const void* result = storage_of(node.example_value.get());
    std::size_t position = 0;
    graph::for_each_input(node, [&](const Node* input) {
      const void* storage = storage_of(input->example_value.get());
      const bool target = position++ == 0;
      const auto use = uses_.find(storage);
      if (use == uses_.end() || use->second.first_read != kNever) return;
      const bool overwritten = target && node.overwrites && writes(node, storage);
      const bool is_view = storage == result && node.written.empty();
      if (!overwritten && !is_view) use->second.first_read = node.index;
    });
  }

  const Use* use_of(const Node& input) const {
    const Use* use = nullptr;
    PyObject* const value = input.example_value.get();
    if (value == nullptr || !aten::is_tensor(value)) return use;
    region::each_storage(value, [&](const void* storage) {
      if (const auto found = uses_.find(storage); found != uses_.end()) use = &found->second;
    });
    return use;
  }

  // A write moves the version counter of the input's fake; that of statistics and in inference mode does not.
  bool is_traced(const Node& input) const {
    const auto met = capture_.input_of.find(&input);
    return met != capture_.input_of.end() &&
           aten::version_of(met->second) != aten::version_of(input.example_value.get());
  }

  Keep keep(const Use& use, const Node& input) const {
    if (last_raise_ == kNever) return is_traced(input) ? Keep::Version : Keep::Untraced;
    if (!in_order_ || region::is_wrapper_subclass(input.example_value.get())) return Keep::Contents;
    if (use.first_write > last_raise_) return is_traced(input) ? Keep::Version : Keep::Contents;
    const bool read_before_write = use.first_read != kNever && use.first_read <= use.last_write;
    return read_before_write ? Keep::Contents : Keep::State;
  }

  static bool is_on_cuda(const Node& input) {
    auto answer = py::Owned<>::steal(PyObject_GetAttrString(input.example_value.get(), "is_cuda"));
    if (!answer) PyErr_Clear();
    return answer.get() == Py_True;
  }

  const region::Capture& capture_;
  const bool in_order_;
  int last_raise_ = kNever;
  std::map<const void*, Use> uses_;
};

}  // namespace

UndoPlan undo_plan(const region::Capture& capture, bool in_order) { return Planner(capture, in_order).plan(); }

}  // namespace pellucid::runtime
