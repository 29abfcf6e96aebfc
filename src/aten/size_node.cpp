#include "aten/size_node.h"

#include <c10/util/Exception.h>

#include "symbolic/conditions.h"
#include "symbolic/print.h"

namespace pellucid::aten {

using c10::SymNode;
using symbolic::Expr;
using symbolic::Proof;
using symbolic::Type;
using symbolic::Value;

SizeDecider& SizeNode::decider() const {
  TORCH_CHECK(scope_->decider != nullptr, "pellucid: a symbolic number outlived its region");
  return *scope_->decider;
}

SymNode SizeNode::node(const Expr* expr) const { return c10::make_intrusive<SizeNode>(scope_, expr); }

const Expr* SizeNode::expr_of(const SymNode& other) const {
  if (const auto* own = dynamic_cast<const SizeNode*>(other.get())) {
    TORCH_CHECK(own->scope_ == scope_, "pellucid: symbolic numbers of two captures in one operation");
    return own->expr_;
  }
  if (const auto number = other->maybe_as_int()) return scope_->space.constant(Value::of(*number));
  if (const auto truth = other->constant_bool()) return scope_->space.constant(Value::truth(*truth));
  TORCH_CHECK(false, "pellucid: a symbolic number of another library");
}

// What cannot be said of the expressions is said of their values, which are the only ones then.
SymNode SizeNode::binary(symbolic::Binary operation, const SymNode& other) {
  const Expr* right = expr_of(other);
  auto& space = scope_->space;
  if (const Expr* made = symbolic::binary(space, operation, expr_, right, decider().here())) return node(made);
  const Expr* a = space.constant(decider().fix(expr_, "arithmetic beyond 64 bits"));
  const Expr* b = space.constant(decider().fix(right, "arithmetic beyond 64 bits"));
  const Expr* made = symbolic::binary(space, operation, a, b, decider().here());
  TORCH_CHECK(made != nullptr, "pellucid: an operation of numbers without a result");
  return node(made);
}

SymNode SizeNode::unary(symbolic::Unary operation) {
  auto& space = scope_->space;
  if (const Expr* made = symbolic::unary(space, operation, expr_, decider().here())) return node(made);
  const Expr* value = space.constant(decider().fix(expr_, "arithmetic beyond 64 bits"));
  const Expr* made = symbolic::unary(space, operation, value, decider().here());
  TORCH_CHECK(made != nullptr, "pellucid: an operation of a number without a result");
  return node(made);
}

SymNode SizeNode::compare(symbolic::Comparison comparison, const SymNode& other) {
  const Expr* right = expr_of(other);
  if (const Expr* made = symbolic::compare(scope_->space, comparison, expr_, right)) return node(made);
  const auto truth = [&](const Expr* of) { return decider().decide(of); };  // of Bools
  const bool equal = truth(expr_) == truth(right);
  TORCH_CHECK(comparison == symbolic::Comparison::Eq || comparison == symbolic::Comparison::Ne,
              "pellucid: truth values are not ordered");
  return wrap_bool(equal == (comparison == symbolic::Comparison::Eq));
}

// Python's division rounds down, that of C++ towards zero: they are one where nothing is negative.
void SizeNode::require_not_negative(const SymNode& other) {
  auto& space = scope_->space;
  for (const Expr* operand : {static_cast<const Expr*>(expr_), expr_of(other)}) {
    if (operand->type != Type::Int) continue;
    if (!decider().decide(symbolic::compare(space, symbolic::Comparison::Ge, operand, space.constant(Value::of(0)))))
      decider().fix(operand, "a division of a negative number");
  }
}

SymNode SizeNode::sym_or(const SymNode& other) {
  const Expr* right = expr_of(other);
  if (scope_->space.prove(expr_) == Proof::No) return node(right);
  if (const Expr* made = symbolic::disjunction(scope_->space.nodes(), expr_, right)) return node(made);
  return wrap_bool(decider().decide(expr_) || decider().decide(right));
}
SymNode SizeNode::sym_and(const SymNode& other) {
  const Expr* right = expr_of(other);
  if (scope_->space.prove(expr_) == Proof::Yes) return node(right);  // so that no guard says it again
  if (const Expr* made = symbolic::conjunction(scope_->space.nodes(), expr_, right)) return node(made);
  return wrap_bool(decider().decide(expr_) && decider().decide(right));
}
SymNode SizeNode::sym_not() { return node(symbolic::negation(scope_->space.nodes(), expr_)); }
SymNode SizeNode::sym_ite(const SymNode& then_value, const SymNode& else_value) {
  return decider().decide(expr_) ? then_value : else_value;
}

SymNode SizeNode::clone() { return node(expr_); }

std::int64_t SizeNode::guard_int(const char*, std::int64_t) {
  if (const auto known = constant_int()) return *known;
  return decider().fix(expr_, "code that takes plain ints").i;
}
bool SizeNode::is_true() {
  switch (scope_->space.prove(expr_)) {
    case Proof::Yes:
      return true;
    case Proof::No:
      return false;
    default:
      return decider().decide(expr_);
  }
}
double SizeNode::guard_float(const char*, std::int64_t) {
  return expr_->is_constant() ? expr_->constant().f : decider().fix(expr_, "code that takes plain floats").f;
}
bool SizeNode::statically_known_true(const char*, std::int64_t) { return scope_->space.prove(expr_) == Proof::Yes; }

std::optional<std::int64_t> SizeNode::constant_int() {
  const Expr* now = expr_->type == Type::Int ? scope_->space.simplify(expr_) : expr_;
  return now->is_constant() && now->type == Type::Int ? std::optional(now->constant().i) : std::nullopt;
}
std::optional<bool> SizeNode::constant_bool() {
  return expr_->is_constant() && is_bool() ? std::optional(expr_->constant().is_true()) : std::nullopt;
}

std::string SizeNode::str() {
  return symbolic::print(expr_, [](std::uint32_t symbol) { return "s" + std::to_string(symbol); });
}

SizeNode* size_node(const c10::SymInt& number) noexcept {
  return number.is_heap_allocated() ? dynamic_cast<SizeNode*>(number.toSymNodeImplUnowned()) : nullptr;
}

c10::SymInt symint_of(const std::shared_ptr<SizeScope>& scope, const Expr* expr) {
  if (expr->is_constant()) return expr->constant().i;
  return c10::SymInt(SymNode(c10::make_intrusive<SizeNode>(scope, expr)));
}

const Expr* expr_of(SizeScope& scope, const c10::SymInt& number) {
  if (const SizeNode* node = size_node(number)) return node->expr();
  return scope.space.constant(Value::of(number.guard_int(__FILE__, __LINE__)));
}

}  // namespace pellucid::aten
