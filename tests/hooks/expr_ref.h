// An expression as tests in Python hold it: pellucid._core._symbolic.Expr.
#pragma once
#include <memory>

#include "symbolic/space.h"

namespace pellucid::hooks {

// With what owns it.
struct ExprRef {
  std::shared_ptr<symbolic::Space> space;
  const symbolic::Expr* expr;
};

}  // namespace pellucid::hooks
