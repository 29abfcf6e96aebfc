#include "symbolic/operations.h"

#include <array>
#include <cmath>
#include <initializer_list>

#include "symbolic/conditions.h"
#include "symbolic/integers.h"

namespace pellucid::symbolic {
namespace {

// One operation in the making: what it requires is recorded when it has a result.
class Attempt {
 public:
  Attempt(Space& space, Who who) : space_(space), who_(who) {}

  Nodes& nodes() { return space_.nodes(); }

  void require(const Expr* condition) { required_[count_++] = condition; }
  void require_not_zero(const Expr* divisor) {
    const Value zero = divisor->type == Type::Float ? Value::real(0.0) : Value::of(0);
    require(comparison(nodes(), Comparison::Ne, divisor, nodes().constant(zero)));
  }
  // Python cannot make a float of an int beyond 1e308. A polynomial of two factors is never that large.
  const Expr* to_float(const Expr* number) {
    if (number == nullptr || number->type == Type::Float) return number;
    require_moderate(number);
    return nodes().make(Op::ToFloat, number);
  }
  void require_moderate(const Expr* integer) {
    if (!space_.range(integer).is_finite()) require(nodes().make(Op::Fits, integer));
  }
  // Where the result is finite Python neither raises nor gives a complex number.
  const Expr* finite(const Expr* result) {
    if (result == nullptr || !std::isfinite(result->hint.f)) return nullptr;
    require(nodes().make(Op::Finite, result));
    return result;
  }

  const Expr* finish(const Expr* result) {
    if (result == nullptr) return nullptr;
    for (const Expr* condition : std::span(required_).first(count_)) {
      if (!condition->hint.is_true()) return nullptr;
    }
    for (const Expr* condition : std::span(required_).first(count_)) space_.decide(condition, who_);
    return result;
  }

 private:
  Space& space_;
  Who who_;
  std::array<const Expr*, 8> required_{};
  std::size_t count_ = 0;
};

const Expr* of_ints(Attempt& attempt, Binary operation, const Expr* a, const Expr* b) {
  Nodes& nodes = attempt.nodes();
  switch (operation) {
    case Binary::Add:
      return sum_of(nodes, a, b);
    case Binary::Sub:
      return sum_of(nodes, a, b, -1);
    case Binary::Mul:
      return product_of(nodes, a, b);
    case Binary::FloorDiv:
      attempt.require_not_zero(b);
      return floor_division(nodes, a, b);
    case Binary::Mod:
      attempt.require_not_zero(b);
      return remainder(nodes, a, b);
    case Binary::TrueDiv:
      attempt.require_not_zero(b);
      attempt.require_moderate(a), attempt.require_moderate(b);
      return nodes.make(Op::TrueDiv, a, b);
    case Binary::Pow:
      attempt.require(comparison(nodes, Comparison::Ge, b, nodes.integer(0)));
      return power(nodes, a, b);
    case Binary::Min:
      return extremum(nodes, Op::Min, a, b);
    case Binary::Max:
      return extremum(nodes, Op::Max, a, b);
  }
  return nullptr;
}

const Expr* of_floats(Attempt& attempt, Binary operation, const Expr* a, const Expr* b) {
  Nodes& nodes = attempt.nodes();
  switch (operation) {
    case Binary::Add:
      return nodes.make(Op::FAdd, a, b);
    case Binary::Sub:
      return nodes.make(Op::FSub, a, b);
    case Binary::Mul:
      return nodes.make(Op::FMul, a, b);
    case Binary::TrueDiv:
      attempt.require_not_zero(b);
      return nodes.make(Op::FDiv, a, b);
    case Binary::FloorDiv:
      attempt.require_not_zero(b);
      return nodes.make(Op::FFloorDiv, a, b);
    case Binary::Mod:
      attempt.require_not_zero(b);
      return nodes.make(Op::FMod, a, b);
    case Binary::Pow:
      return attempt.finite(nodes.make(Op::FPow, a, b));
    case Binary::Min:
      return nodes.make(Op::FMin, a, b);
    case Binary::Max:
      return nodes.make(Op::FMax, a, b);
  }
  return nullptr;
}

const Expr* of_int(Attempt& attempt, Unary operation, const Expr* a) {
  switch (operation) {
    case Unary::Neg:
      return sum_of(attempt.nodes(), attempt.nodes().integer(0), a, -1);
    case Unary::Abs: {
      const Expr* negative = of_int(attempt, Unary::Neg, a);
      return negative != nullptr ? extremum(attempt.nodes(), Op::Max, a, negative) : nullptr;
    }
    case Unary::ToFloat:
      return attempt.to_float(a);
    default:
      return a;
  }
}

// An int of a float is one when the float is finite.
const Expr* rounded(Attempt& attempt, Op op, const Expr* a) {
  attempt.require(attempt.nodes().make(Op::Finite, a));
  return attempt.nodes().make(op, a);
}

const Expr* of_float(Attempt& attempt, Unary operation, const Expr* a) {
  switch (operation) {
    case Unary::Neg:
      return attempt.nodes().make(Op::FNeg, a);
    case Unary::Abs:
      return attempt.nodes().make(Op::FAbs, a);
    case Unary::ToInt:
      return rounded(attempt, Op::ToInt, a);
    case Unary::Floor:
      return rounded(attempt, Op::Floor, a);
    case Unary::Ceil:
      return rounded(attempt, Op::Ceil, a);
    case Unary::Round:
      return rounded(attempt, Op::Round, a);
    default:
      return a;
  }
}

bool chooses(Binary operation) noexcept { return operation == Binary::Min || operation == Binary::Max; }

}  // namespace

const Expr* binary(Space& space, Binary operation, const Expr* a, const Expr* b, Who who) {
  if (a->type == Type::Bool || b->type == Type::Bool) return nullptr;
  Attempt attempt(space, who);
  if (a->type == Type::Int && b->type == Type::Int) return attempt.finish(of_ints(attempt, operation, a, b));
  // Of an int and a float, min() gives one of them as it is: its type is not known.
  if (a->type != b->type && chooses(operation)) return nullptr;
  const Expr *left = attempt.to_float(a), *right = attempt.to_float(b);
  if (left == nullptr || right == nullptr) return nullptr;
  return attempt.finish(of_floats(attempt, operation, left, right));
}

const Expr* unary(Space& space, Unary operation, const Expr* a, Who who) {
  if (a->type == Type::Bool) return nullptr;
  Attempt attempt(space, who);
  return attempt.finish(a->type == Type::Int ? of_int(attempt, operation, a) : of_float(attempt, operation, a));
}

const Expr* math(Space& space, MathFunction function, const Expr* a, Who who) {
  if (a->type == Type::Bool) return nullptr;
  Attempt attempt(space, who);
  const Expr* number = attempt.to_float(a);
  if (number == nullptr) return nullptr;
  return attempt.finish(attempt.finite(space.nodes().make({.op = Op::Math, .function = function}, {{number}})));
}

const Expr* compare(Space& space, Comparison operation, const Expr* a, const Expr* b) {
  if (a->type == Type::Bool || b->type == Type::Bool) return nullptr;
  return comparison(space.nodes(), operation, a, b);
}

const Expr* truth(Space& space, const Expr* number) {
  if (number->type == Type::Bool) return number;
  const Value zero = number->type == Type::Float ? Value::real(0.0) : Value::of(0);
  return comparison(space.nodes(), Comparison::Ne, number, space.constant(zero));
}

}  // namespace pellucid::symbolic
