#include "symbolic/arithmetic.h"

#include <cerrno>
#include <cmath>
#include <limits>

namespace pellucid::symbolic {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr double kTwoTo63 = 9223372036854775808.0;
constexpr std::int64_t kLargestExact = std::int64_t{1} << 53;  // all ints up to here are floats

bool exact(std::int64_t number) noexcept { return -kLargestExact <= number && number <= kLargestExact; }
bool is_odd(double number) noexcept { return std::fmod(std::fabs(number), 2.0) == 1.0; }

// What CPython makes of errno after a function of libm gave `result`: an overflow counts, an underflow does not. What
// libm does not report, its infinite result does.
bool overflowed(double result) noexcept {
  if (errno == 0) return std::isinf(result);
  return errno != ERANGE || result != 0.0;
}

}  // namespace

Int floor_divide(std::int64_t a, std::int64_t b) noexcept {
  if (b == 0 || (a == kLeast && b == -1)) return std::nullopt;
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int modulo(std::int64_t a, std::int64_t b) noexcept {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;  // the processor traps at the least int
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Int power(std::int64_t base, std::int64_t exponent) noexcept {
  if (exponent < 0) return std::nullopt;
  Int result = 1;
  while (true) {
    if ((exponent & 1) != 0) {
      result = checked_multiply(*result, base);
      if (!result) return std::nullopt;
    }
    exponent >>= 1;
    if (exponent == 0) return result;
    const Int square = checked_multiply(base, base);
    if (!square) return std::nullopt;
    base = *square;
  }
}

Int to_int(double number) noexcept {
  if (!(number >= -kTwoTo63 && number < kTwoTo63)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Float true_divide(std::int64_t a, std::int64_t b) noexcept {
  if (b == 0 || !exact(a) || !exact(b)) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

Float float_divide(double a, double b) noexcept {
  if (b == 0.0) return std::nullopt;
  return a / b;
}

// These two are what float_floor_div and float_rem of CPython's floatobject.c give, signs of zeros too.
Float float_floor_divide(double a, double b) noexcept {
  if (b == 0.0) return std::nullopt;
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

Float float_modulo(double a, double b) noexcept {
  if (b == 0.0) return std::nullopt;
  const double rest = std::fmod(a, b);
  if (rest == 0.0) return std::copysign(0.0, b);
  return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}

// The cases of CPython's float_pow, in its order: libraries differ in them.
Float float_power(double base, double exponent) noexcept {
  if (exponent == 0.0) return 1.0;
  if (std::isnan(base)) return base;
  if (std::isnan(exponent)) return base == 1.0 ? 1.0 : exponent;
  if (std::isinf(exponent)) {
    const double size = std::fabs(base);
    if (size == 1.0) return 1.0;
    return (exponent > 0.0) == (size > 1.0) ? std::fabs(exponent) : 0.0;
  }
  const bool odd = is_odd(exponent);
  if (std::isinf(base)) {
    if (exponent > 0.0) return odd ? base : std::fabs(base);
    return odd ? std::copysign(0.0, base) : 0.0;
  }
  if (base == 0.0) {
    if (exponent < 0.0) return std::nullopt;
    return odd ? base : 0.0;
  }
  if (base < 0.0 && exponent != std::floor(exponent)) return std::nullopt;
  const bool negative = base < 0.0 && odd;
  const double size = std::fabs(base);
  if (size == 1.0) return negative ? -1.0 : 1.0;
  errno = 0;
  const double result = std::pow(size, exponent);
  if (overflowed(result)) return std::nullopt;
  return negative ? -result : result;
}

Float call(MathFunction function, double x) noexcept {
  static constexpr double (*kFunctions[])(double) = {
#define MATH(name) [](double number) { return std::name(number); },
#include "symbolic/functions.def"
  };
  errno = 0;
  const double result = kFunctions[static_cast<std::size_t>(function)](x);
  if (!std::isfinite(result)) return std::nullopt;
  // CPython's is_error: what libm says of a small result is an underflow.
  if (errno != 0 && (errno != ERANGE || std::fabs(result) >= 1.5)) return std::nullopt;
  return result;
}

std::partial_ordering compare(std::int64_t a, double b) noexcept {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kTwoTo63) return std::partial_ordering::less;
  if (b < -kTwoTo63) return std::partial_ordering::greater;
  const double whole = std::floor(b);
  const auto below = static_cast<std::int64_t>(whole);
  if (a != below) return a <=> below;
  return whole < b ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

}  // namespace pellucid::symbolic
