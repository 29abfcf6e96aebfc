#include "region/freed_tensors.h"

#include "aten/aten.h"
#include "aten/gradients.h"

namespace pellucid::region {

graph::Node* FreedTensors::detached(PyObject* fake, graph::Node* node) {
  if (!aten::is_fake(fake)) return nullptr;
  const auto [known, is_new] = known_.try_emplace(fake, nullptr);
  if (!is_new || !aten::is_freed(fake)) return known->second;
  std::vector<graph::Arg> args;
  args.push_back(graph::Arg::of(node));
  known->second = graph_.call(graph::Op::CallMethod, py::interned("detach"), std::move(args), {}, aten::detached(fake));
  known->second->where = node->where;
  return known->second;
}

}  // namespace pellucid::region
