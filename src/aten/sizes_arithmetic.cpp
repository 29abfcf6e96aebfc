#include "aten/sizes_arithmetic.h"

#include "symbolic/conditions.h"

namespace pellucid::aten {

using symbolic::Comparison;

SizeDecider& SizeArithmetic::decider() const {
  TORCH_CHECK(scope_->decider != nullptr, "pellucid: a symbolic tensor outlived its region");
  return *scope_->decider;
}

const Expr* SizeArithmetic::binary(symbolic::Binary operation, const Expr* a, const Expr* b) {
  if (const Expr* made = symbolic::binary(space(), operation, a, b, decider().here())) return made;
  const Expr* made = symbolic::binary(space(), operation, constant(plain(a)), constant(plain(b)), decider().here());
  if (made != nullptr) return made;
  fits_ = false;  // the value itself is beyond 64 bits, where the operator has its own way to count or to raise
  return constant(0);
}

const Expr* SizeArithmetic::product(std::span<const Expr* const> factors) {
  const Expr* made = constant(1);
  for (const Expr* factor : factors) made = mul(made, factor);
  return made;
}

const Expr* SizeArithmetic::compare(Comparison comparison, const Expr* a, const Expr* b) {
  return symbolic::comparison(space().nodes(), comparison, a, b);
}

bool SizeArithmetic::decide(const Expr* condition) {
  const auto proof = space().prove(condition);
  if (proof != symbolic::Proof::Unknown) return proof == symbolic::Proof::Yes;
  return decider().decide(condition);
}

void SizeArithmetic::require(const Expr* condition) {
  if (space().prove(condition) == symbolic::Proof::Yes) return;
  if (condition->hint.is_true()) {
    decider().require(condition);
  } else {
    fits_ = false;
  }
}

std::int64_t SizeArithmetic::plain(const Expr* number) {
  return number->is_constant() ? number->constant().i : decider().fix(number, who_.c_str()).i;
}

}  // namespace pellucid::aten
