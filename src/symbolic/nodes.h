// Owns expressions, and makes equal ones once.
#pragma once
#include <memory_resource>
#include <unordered_set>

#include "symbolic/expr.h"

namespace pellucid::symbolic {

class Nodes {
 public:
  Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  const Expr* constant(Value value);
  const Expr* integer(std::int64_t number) { return constant(Value::of(number)); }
  const Expr* truth(bool truth) { return constant(Value::truth(truth)); }
  const Expr* symbol(Value hint);  // a new one

  // This operation of these arguments, exactly as it is said: nothing is simplified but an operation of constants.
  // Null where the hints have no result, and where the expression would be too large. A condition is neither.
  const Expr* make(const Operation& operation, std::span<const Expr* const> args);
  const Expr* make(Op op, const Expr* a) { return make(Operation{op}, {{a}}); }
  const Expr* make(Op op, const Expr* a, const Expr* b) { return make(Operation{op}, {{a, b}}); }

  std::size_t size() const noexcept { return interned_.size() + symbols_; }

 private:
  struct Hash {
    std::size_t operator()(const Expr* expr) const noexcept;
  };
  struct Equal {
    bool operator()(const Expr* a, const Expr* b) const noexcept;
  };

  const Expr* intern(const Expr& wanted);
  const Expr* keep(const Expr& wanted);

  std::pmr::monotonic_buffer_resource arena_;  // nothing in it needs a destructor
  std::pmr::unordered_set<const Expr*, Hash, Equal> interned_{&arena_};
  std::uint32_t symbols_ = 0;
};

}  // namespace pellucid::symbolic
