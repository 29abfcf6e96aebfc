// What is known of ints modulo others: n % 8 == 0 also tells n % 4 and (3*n + 4) % 8.
#pragma once
#include <optional>
#include <unordered_map>

#include "symbolic/expr.h"

namespace pellucid::symbolic {

// All numbers `remainder + k * modulus`: modulus 0 is that one number, modulus 1 is any.
struct Congruence {
  std::int64_t modulus = 1, remainder = 0;

  bool allows(std::int64_t number) const noexcept;
  std::optional<std::int64_t> modulo(std::int64_t divisor) const noexcept;  // where all of them give one
};

class Congruences {
 public:
  void add(const Expr* integer, Congruence known);  // the modulus is above 0
  void forget() { known_.clear(); }
  Congruence of(const Expr* integer) const;

 private:
  Congruence computed(const Expr* integer) const;

  std::unordered_map<const Expr*, Congruence> known_;
};

}  // namespace pellucid::symbolic
