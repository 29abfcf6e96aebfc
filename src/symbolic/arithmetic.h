// Python's arithmetic on single numbers. Nothing is given where Python raises, where the result is complex, and where
// an int does not fit into 64 bits.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>

#include "symbolic/expr.h"

namespace pellucid::symbolic {

using Int = std::optional<std::int64_t>;
using Float = std::optional<double>;

inline Int checked_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? Int() : Int(sum);
}
inline Int checked_multiply(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? Int() : Int(product);
}
Int floor_divide(std::int64_t a, std::int64_t b) noexcept;
Int modulo(std::int64_t a, std::int64_t b) noexcept;
Int power(std::int64_t base, std::int64_t exponent) noexcept;  // of no negative exponent
Int to_int(double number) noexcept;                            // of a whole number

// a / b of two ints, which Python rounds once: where both are floats exactly.
Float true_divide(std::int64_t a, std::int64_t b) noexcept;
Float float_divide(double a, double b) noexcept;
Float float_floor_divide(double a, double b) noexcept;
Float float_modulo(double a, double b) noexcept;
Float float_power(double base, double exponent) noexcept;
Float call(MathFunction function, double x) noexcept;  // finite results only

// As Python compares an int with a float: exactly, without a conversion that rounds.
std::partial_ordering compare(std::int64_t a, double b) noexcept;

}  // namespace pellucid::symbolic
