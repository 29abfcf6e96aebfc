// The symbols and expressions of one capture, and what was decided about them. A decision is a condition that is true
// at the hints and that the capture went by: whoever uses the capture at other values checks them all (program.h).
//
// A function that gives an expression gives null where it cannot be said here. The caller then goes on with plain
// values: it fixes the operands.
#pragma once
#include <limits>
#include <span>
#include <vector>

#include "symbolic/facts.h"
#include "symbolic/nodes.h"

namespace pellucid::symbolic {

// Who asked for a decision, in the caller's own numbers.
using Who = std::uint32_t;

struct Decision {
  const Expr* condition;
  Who who;
};

class Space {
 public:
  Space() : facts_(nodes_) {}

  // A new symbol, numbered 0, 1, …; of an Int the caller answers for the range.
  const Expr* symbol(Value hint, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                     std::int64_t most = std::numeric_limits<std::int64_t>::max());
  std::size_t symbols() const noexcept { return symbols_; }
  const Expr* constant(Value value) { return nodes_.constant(value); }

  Proof prove(const Expr* condition) { return facts_.prove(condition); }  // never from the hint
  Range range(const Expr* integer) { return facts_.range(integer); }
  // The same value in fewer symbols, as far as the decisions say: a constant where they leave one.
  const Expr* simplify(const Expr* expr) { return facts_.simplify(expr); }

  // The truth of a condition: what is proved, else its hint, recorded.
  bool decide(const Expr* condition, Who who);
  // The hint, which is recorded to be the value: of a Float bit for bit.
  Value fix(const Expr* expr, Who who);

  std::span<const Decision> decisions() const noexcept { return decisions_; }
  std::size_t mark() const noexcept { return decisions_.size(); }
  void truncate(std::size_t mark);  // takes back what was decided since

  Nodes& nodes() noexcept { return nodes_; }

 private:
  Nodes nodes_;
  Facts facts_;
  std::vector<Decision> decisions_;
  std::size_t symbols_ = 0;
};

}  // namespace pellucid::symbolic
