// Conditions as one flat program over the values of the symbols. It owns what it needs: the expressions may be gone.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "symbolic/expr.h"

namespace pellucid::symbolic {

class Program {
 public:
  Program() = default;
  // In this order: a condition may rest on those before it (that a divisor is not 0).
  explicit Program(std::span<const Expr* const> conditions);

  // Do all conditions hold where symbol i has the value symbols[i]? What cannot be computed (an int that leaves 64
  // bits, a value of another type) does not hold: that means another capture, never a wrong one.
  bool holds(const Value* symbols) const noexcept;
  // The value of the last expression, which need not be a condition.
  std::optional<Value> evaluate(const Value* symbols) const;

  std::size_t size() const noexcept { return code_.size(); }

 private:
  // Gives register number "its index in the code".
  struct Instruction {
    Op op;
    MathFunction function;
    Type type;
    bool must_hold;
    std::uint32_t symbol;
    std::uint32_t count, operands, coefficients;  // where they begin in operands_ and coefficients_
    Value constant;
  };
  class Compiler;

  bool step(const Instruction& instruction, const Value* symbols, const Value* registers, Value& result) const noexcept;

  std::vector<Instruction> code_;
  std::vector<std::uint32_t> operands_;
  std::vector<std::int64_t> coefficients_;
  std::uint32_t last_ = 0;
};

}  // namespace pellucid::symbolic
