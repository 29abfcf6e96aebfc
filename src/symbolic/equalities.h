// What was decided to be equal, as a substitution: of n == m + 1 the newer of both is replaced by what it is.
#pragma once
#include <unordered_map>

#include "symbolic/congruences.h"
#include "symbolic/nodes.h"

namespace pellucid::symbolic {

class Equalities {
 public:
  Equalities(Nodes& nodes, const Congruences& congruences) : nodes_(nodes), congruences_(congruences) {}

  void add(const Expr* left, const Expr* right);  // two ints, or a float and a constant
  void forget();
  // New congruences tell more: (n // 8) * 8 is n.
  void look_again() { simplified_.clear(); }

  // The same number or condition in fewer symbols, as far as is known; itself where nothing is.
  const Expr* simplify(const Expr* expr);

 private:
  void solve(const Expr* left, const Expr* right);
  const Expr* rebuilt(const Expr* expr);
  const Expr* operation(const Expr* expr, std::span<const Expr* const> args);
  const Expr* sum(const Expr* expr, std::span<const Expr* const> args);
  const Expr* without_quotient(std::int64_t coefficient, const Expr* monomial);
  const Expr* known_remainder(const Expr* dividend, const Expr* divisor);

  Nodes& nodes_;
  const Congruences& congruences_;
  std::unordered_map<const Expr*, const Expr*> replacement_, simplified_;
  int depth_ = 0;
};

}  // namespace pellucid::symbolic
