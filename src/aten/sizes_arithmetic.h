// What a size rule computes with: the expressions of a SizeScope, and decisions about them.
#pragma once
#include <span>
#include <string>

#include "aten/symbolic_fake.h"

namespace pellucid::aten {

class SizeArithmetic {
 public:
  // `who`: the operator, for guards and messages.
  SizeArithmetic(std::shared_ptr<SizeScope> scope, const std::string& who) : scope_(std::move(scope)), who_(who) {}

  // --- expressions; where one cannot be said the operands are fixed, and where it has no value (beyond 64 bits, by
  // zero) the rule covers nothing: none of these is ever null ---
  const std::shared_ptr<SizeScope>& scope() const noexcept { return scope_; }
  symbolic::Space& space() { return scope_->space; }
  const Expr* constant(std::int64_t number) { return space().constant(symbolic::Value::of(number)); }
  const Expr* add(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Add, a, b); }
  const Expr* add(const Expr* a, std::int64_t b) { return add(a, constant(b)); }
  const Expr* sub(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Sub, a, b); }
  const Expr* mul(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Mul, a, b); }
  const Expr* mul(const Expr* a, std::int64_t b) { return mul(a, constant(b)); }
  const Expr* floordiv(const Expr* a, const Expr* b) { return binary(symbolic::Binary::FloorDiv, a, b); }  // Python's
  const Expr* floordiv(const Expr* a, std::int64_t b) { return floordiv(a, constant(b)); }
  const Expr* mod(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Mod, a, b); }
  const Expr* sub(const Expr* a, std::int64_t b) { return add(a, constant(-b)); }
  const Expr* min(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Min, a, b); }
  const Expr* max(const Expr* a, const Expr* b) { return binary(symbolic::Binary::Max, a, b); }
  const Expr* product(std::span<const Expr* const> factors);
  const Expr* compare(symbolic::Comparison comparison, const Expr* a, const Expr* b);

  // --- decisions ---
  bool decide(const Expr* condition);  // its truth at the hints, proved or guarded
  bool is(const Expr* a, std::int64_t number) { return decide(compare(symbolic::Comparison::Eq, a, constant(number))); }
  bool equal(const Expr* a, const Expr* b) { return decide(compare(symbolic::Comparison::Eq, a, b)); }
  bool less(const Expr* a, const Expr* b) { return decide(compare(symbolic::Comparison::Lt, a, b)); }
  bool at_least(const Expr* a, std::int64_t number) {
    return decide(compare(symbolic::Comparison::Ge, a, constant(number)));
  }
  // The operator does the same only where this is true. Where it is not so at the hints, the rule knows another
  // operator than the one that ran: it covers nothing.
  void require(const Expr* condition);
  bool fits() const noexcept { return fits_; }
  void require_equal(const Expr* a, const Expr* b) { require(compare(symbolic::Comparison::Eq, a, b)); }
  void require_at_least(const Expr* a, std::int64_t number) {
    require(compare(symbolic::Comparison::Ge, a, constant(number)));
  }
  std::int64_t plain(const Expr* number);  // its value, a constant from now on

 private:
  const Expr* binary(symbolic::Binary operation, const Expr* a, const Expr* b);
  SizeDecider& decider() const;

  std::shared_ptr<SizeScope> scope_;
  const std::string& who_;
  bool fits_ = true;
};

}  // namespace pellucid::aten
