// What one operation gives for values of its arguments. Hints and Programs compute with this one function, so a Program
// holds for the values at which it was made. Only for the sources of this room.
#pragma once
#include <algorithm>
#include <cmath>

#include "symbolic/arithmetic.h"

namespace pellucid::symbolic {

inline std::optional<Value> as_value(Int number) noexcept {
  return number ? std::optional(Value::of(*number)) : std::nullopt;
}
inline std::optional<Value> as_value(Float number) noexcept {
  return number ? std::optional(Value::real(*number)) : std::nullopt;
}

inline std::partial_ordering compare(const Value& a, const Value& b) noexcept {
  if (a.type != Type::Float) return b.type != Type::Float ? std::partial_ordering(a.i <=> b.i) : compare(a.i, b.f);
  if (b.type == Type::Float) return a.f <=> b.f;
  const std::partial_ordering reversed = compare(b.i, a.f);
  return 0 <=> reversed;
}

// What one of the four comparisons says of two numbers in this order.
template <class Ordering>
bool is_so(Op comparison, Ordering order) noexcept {
  switch (comparison) {
    case Op::Eq:
      return order == 0;
    case Op::Ne:
      return order != 0;
    case Op::Lt:
      return order < 0;
    default:
      return order <= 0;
  }
}

// Parts of a sum may leave 64 bits as long as the sum does not: n - m + m is n, however large n - m is.
template <class Operand>
Int evaluate_sum(const Operation& sum, Operand&& operand) noexcept {
  __int128 total = sum.constant.i;
  for (std::size_t i = 0; i < sum.coefficients.size(); ++i) {
    const __int128 term = static_cast<__int128>(sum.coefficients[i]) * operand(i).i;
    if (__builtin_add_overflow(total, term, &total)) return std::nullopt;
  }
  const auto narrow = static_cast<std::int64_t>(total);
  return narrow == total ? Int(narrow) : std::nullopt;
}

template <class Operand>
Int evaluate_product(std::size_t count, Operand&& operand) noexcept {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(product, operand(i).i, &product)) return std::nullopt;
  }
  return product;
}

// `operand(i)` is the value of argument i of `count`. A Symbol's value is its caller's to know.
template <class Operand>
std::optional<Value> evaluate(const Operation& operation, std::size_t count, Operand&& operand) noexcept {
  const auto a = [&]() -> const Value& { return operand(0); };
  const auto b = [&]() -> const Value& { return operand(1); };
  switch (operation.op) {
    case Op::Constant:
      return operation.constant;
    case Op::Symbol:
      return std::nullopt;
    case Op::Sum:
      return as_value(evaluate_sum(operation, operand));
    case Op::Product:
      return as_value(evaluate_product(count, operand));
    case Op::FloorDiv:
      return as_value(floor_divide(a().i, b().i));
    case Op::Mod:
      return as_value(modulo(a().i, b().i));
    case Op::Pow:
      return as_value(power(a().i, b().i));
    case Op::Min:
      return Value::of(std::min(a().i, b().i));
    case Op::Max:
      return Value::of(std::max(a().i, b().i));
    case Op::ToInt:
      return as_value(to_int(std::trunc(a().f)));
    case Op::Floor:
      return as_value(to_int(std::floor(a().f)));
    case Op::Ceil:
      return as_value(to_int(std::ceil(a().f)));
    case Op::Round:
      return as_value(to_int(std::nearbyint(a().f)));
    case Op::ToFloat:
      return Value::real(static_cast<double>(a().i));
    case Op::TrueDiv:
      return as_value(true_divide(a().i, b().i));
    case Op::FAdd:
      return Value::real(a().f + b().f);
    case Op::FSub:
      return Value::real(a().f - b().f);
    case Op::FMul:
      return Value::real(a().f * b().f);
    case Op::FDiv:
      return as_value(float_divide(a().f, b().f));
    case Op::FFloorDiv:
      return as_value(float_floor_divide(a().f, b().f));
    case Op::FMod:
      return as_value(float_modulo(a().f, b().f));
    case Op::FPow:
      return as_value(float_power(a().f, b().f));
    case Op::FMin:
      return Value::real(b().f < a().f ? b().f : a().f);
    case Op::FMax:
      return Value::real(b().f > a().f ? b().f : a().f);
    case Op::FNeg:
      return Value::real(-a().f);
    case Op::FAbs:
      return Value::real(std::fabs(a().f));
    case Op::Math:
      return as_value(call(operation.function, a().f));
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
      return Value::truth(is_so(operation.op, compare(a(), b())));
    case Op::Fits:
      return Value::truth(true);
    case Op::Finite:
      return Value::truth(std::isfinite(a().f));
    case Op::Same:
      return Value::truth(same(a(), operation.constant));
    case Op::Not:
      return Value::truth(!a().is_true());
    case Op::And:
      return Value::truth(a().is_true() && b().is_true());
    case Op::Or:
      return Value::truth(a().is_true() || b().is_true());
  }
  return std::nullopt;
}

}  // namespace pellucid::symbolic
