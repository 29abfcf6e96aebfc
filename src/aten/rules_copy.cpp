// Copies: the result is the destination, once the shapes fit.
#include <ATen/ExpandUtils.h>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

bool copy_(Call& call) {
  const at::Tensor self = call.tensor(0);
  const at::Tensor& source = call.tensor(1);
  const auto shape = at::infer_size(self.sizes(), source.sizes());
  TORCH_CHECK(self.sizes().equals(shape), "output with shape ", self.sizes(), " doesn't match the broadcast shape ", shape);
  call.give(self);
  return true;
}

constexpr RuleRow kRows[] = {{"copy_", copy_}};

}  // namespace

RuleTable copy_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
