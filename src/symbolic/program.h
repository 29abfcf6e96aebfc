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
  // Where a value is: a result of the code, a symbol's value, or a constant.
  enum Place : std::uint32_t { Result, Symbol, Constant };
  struct Operand {
    Place place = Result;
    std::uint32_t index = 0;
  };
  // Gives the result with its own index in the code.
  struct Instruction {
    Op op;
    MathFunction function;
    bool must_hold;
    std::uint32_t count, operands, coefficients;  // where they begin in operands_ and coefficients_
    Value constant;
  };
  struct TypeOfSymbol {
    std::uint32_t symbol;
    Type type;
  };
  class Compiler;

  bool are_of_type(const Value* symbols) const noexcept;
  bool step(const Instruction& instruction, const Value* const* places, Value& result) const noexcept;

  std::vector<TypeOfSymbol> types_;
  std::vector<Instruction> code_;
  std::vector<Operand> operands_;
  std::vector<std::int64_t> coefficients_;
  std::vector<Value> constants_;
  std::optional<Operand> last_;
};

}  // namespace pellucid::symbolic
