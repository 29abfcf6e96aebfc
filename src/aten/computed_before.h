// Of this room only: what stands behind a fake whose real tensor was computed before the region.
#pragma once
#include <torch/csrc/autograd/function.h>

#include "aten/internal.h"

namespace pellucid::aten {

struct ComputedBefore final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, kNeedsData, " (backward through a fake tensor)");
  }
  std::string name() const override { return "ComputedBefore"; }
};

}  // namespace pellucid::aten
