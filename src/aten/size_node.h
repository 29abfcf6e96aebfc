// A number of a SizeScope as torch knows it: c10::SymInt, SymBool and SymFloat hold such a node. Only for files of this
// room that include torch's headers.
#pragma once
#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>

#include "aten/size_scope.h"
#include "symbolic/operations.h"

namespace pellucid::aten {

class SizeNode final : public c10::SymNodeImpl {
 public:
  SizeNode(std::shared_ptr<SizeScope> scope, const symbolic::Expr* expr) : scope_(std::move(scope)), expr_(expr) {}

  const std::shared_ptr<SizeScope>& scope() const noexcept { return scope_; }
  const symbolic::Expr* expr() const noexcept { return expr_; }

#include "aten/size_node.def"
  c10::SymNode sym_or(const c10::SymNode& other) override;
  c10::SymNode sym_and(const c10::SymNode& other) override;
  c10::SymNode sym_not() override;
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override;
  c10::SymNode clone() override;
  std::int64_t guard_int(const char* file, std::int64_t line) override;
  double guard_float(const char* file, std::int64_t line) override;
  bool statically_known_true(const char* file, std::int64_t line) override;
  std::int64_t int_() override { return guard_int(__FILE__, __LINE__); }
  bool bool_() override { return is_true(); }
  bool has_hint() override { return true; }
  std::string str() override;
  std::string _graph_repr() override { return str(); }
  std::optional<std::int64_t> constant_int() override;
  std::optional<bool> constant_bool() override;
  std::optional<std::int64_t> maybe_as_int() override { return constant_int(); }
  bool is_constant() override { return expr_->is_constant(); }
  bool is_symbolic() override { return !expr_->is_constant(); }

 private:
  const symbolic::Expr* expr_of(const c10::SymNode& node) const;
  c10::SymNode node(const symbolic::Expr* expr) const;
  c10::SymNode binary(symbolic::Binary operation, const c10::SymNode& other);
  c10::SymNode unary(symbolic::Unary operation);
  void require_not_negative(const c10::SymNode& other);
  c10::SymNode compare(symbolic::Comparison comparison, const c10::SymNode& other);
  bool is_true();
  SizeDecider& decider() const;

  std::shared_ptr<SizeScope> scope_;
  const symbolic::Expr* expr_;
};

// Null: torch's own number, or of somebody else.
SizeNode* size_node(const c10::SymInt& number) noexcept;
// An int where the expression is a constant.
c10::SymInt symint_of(const std::shared_ptr<SizeScope>& scope, const symbolic::Expr* expr);
// The expression of a number of this scope, or of a plain int.
const symbolic::Expr* expr_of(SizeScope& scope, const c10::SymInt& number);

}  // namespace pellucid::aten
