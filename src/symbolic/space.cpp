#include "symbolic/space.h"

#include "symbolic/conditions.h"

namespace pellucid::symbolic {

const Expr* Space::symbol(Value hint, std::int64_t least, std::int64_t most) {
  const Expr* made = nodes_.symbol(hint);
  if (hint.type == Type::Int) facts_.declare(made, {least, most});
  ++symbols_;
  return made;
}

bool Space::decide(const Expr* condition, Who who) {
  const Proof proof = prove(condition);
  if (proof != Proof::Unknown) return proof == Proof::Yes;
  const bool holds = condition->hint.is_true();
  const Expr* decided = holds ? condition : negation(nodes_, condition);
  decisions_.push_back({decided, who});
  facts_.add(decided);
  return holds;
}

Value Space::fix(const Expr* expr, Who who) {
  if (expr->type == Type::Bool) return Value::truth(decide(expr, who));
  if (expr->is_constant()) return expr->constant();
  decide(is_its_hint(nodes_, expr), who);
  return expr->hint;
}

void Space::truncate(std::size_t mark) {
  if (mark >= decisions_.size()) return;
  decisions_.resize(mark);
  facts_.forget();
  for (const Decision& decision : decisions_) facts_.add(decision.condition);
}

}  // namespace pellucid::symbolic
