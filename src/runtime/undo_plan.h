// What has to be kept before a graph is called, so that the call can run again by the interpreter when the graph raises
// after it has written into inputs.
#pragma once
#include <vector>

#include "aten/aten.h"
#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::runtime {

struct UndoPlan {
  struct Input {
    std::size_t position;  // among the placeholders
    aten::Keep keep;
  };
  struct Attribute {
    py::Owned<> tensor;
    aten::Keep keep;
  };
  std::vector<Input> inputs;
  std::vector<Attribute> attributes;  // tensors that the graph holds itself
  bool may_raise = false;             // some operator on its values
  bool generators = false;
  bool cuda = false;

  // Something that was there before: views of it may be among the other inputs.
  bool writes() const noexcept { return !inputs.empty() || !attributes.empty(); }
  bool is_empty() const noexcept { return !writes() && !generators; }
};

// `in_order`: the graph runs node by node. A compiled one writes when it likes.
UndoPlan undo_plan(const region::Capture& capture, bool in_order);

}  // namespace pellucid::runtime
