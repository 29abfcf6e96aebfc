// An expression over symbols: numbers that may be others at the next call. Expressions are immutable and belong to the
// `Nodes` that made them, where equal ones are one object: they are compared by address.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "symbolic/value.h"

namespace pellucid::symbolic {

enum class Op : std::uint8_t {
#define OP(name, type) name,
#include "symbolic/ops.def"
};

enum class MathFunction : std::uint8_t {
#define MATH(name) name,
#include "symbolic/functions.def"
};

// Python's, with the numbers of Py_LT … Py_GE.
enum class Comparison : std::uint8_t { Lt, Le, Eq, Ne, Gt, Ge };

// What an expression does with the values of its arguments: the part of it that a Program keeps.
struct Operation {
  Op op;
  MathFunction function{};                       // of Math
  Value constant{};                              // the value of a Constant, what a Sum adds, what a Same compares with
  std::span<const std::int64_t> coefficients{};  // of a Sum, one for each argument
  std::uint32_t symbol = 0;                      // the number of a Symbol
};

struct Expr {
  Operation operation;
  Type type;
  std::uint32_t id;      // in the order in which they were made: an argument's is smaller
  std::uint32_t weight;  // how many nodes it has when it is written out as a tree
  Value hint;            // its value at this capture
  std::span<const Expr* const> args;

  Op op() const noexcept { return operation.op; }
  const Value& constant() const noexcept { return operation.constant; }
  bool is(Op wanted) const noexcept { return operation.op == wanted; }
  bool is_constant() const noexcept { return is(Op::Constant); }
  bool is_constant(std::int64_t number) const noexcept {
    return is_constant() && type == Type::Int && constant().i == number;
  }
};

Type type_of(Op op) noexcept;                              // not of Constant and Symbol
std::string_view name_of(MathFunction function) noexcept;  // "sqrt"

}  // namespace pellucid::symbolic
