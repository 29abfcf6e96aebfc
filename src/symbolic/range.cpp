#include "symbolic/range.h"

#include <algorithm>

namespace pellucid::symbolic {
namespace {

// A lower end beyond what is counted is known only to be at least the last number that is, and an upper one likewise:
// infinity is an end from which nothing may be taken away again.
Range counted(Wide least, Wide most) noexcept {
  return {std::clamp(least, -kEndless, kEndless - 1), std::clamp(most, -kEndless + 1, kEndless)};
}

Wide multiply(Wide a, Wide b) noexcept {
  Wide product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kEndless : -kEndless;
  return product;
}

Wide add(Wide a, Wide b) noexcept {
  Wide sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? -kEndless : kEndless;
  return sum;
}

// At an endless end it is the limit: 0 or -1 for an endless divisor.
Wide divide(Wide a, Wide b) noexcept {
  if (a == kEndless || a == -kEndless) return (a < 0) == (b < 0) ? kEndless : -kEndless;
  const Wide quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Of two intervals, where the operation is monotonic in each of its operands.
template <class F>
Range at_corners(F&& operation, const Range& a, const Range& b) noexcept {
  const auto [least, most] = std::minmax(
      {operation(a.least, b.least), operation(a.least, b.most), operation(a.most, b.least), operation(a.most, b.most)});
  return counted(least, most);
}

}  // namespace

Range both(const Range& a, const Range& b) noexcept { return {std::max(a.least, b.least), std::min(a.most, b.most)}; }
Range either(const Range& a, const Range& b) noexcept { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

Range operator+(const Range& a, const Range& b) noexcept {
  const bool endless_below = a.least == -kEndless || b.least == -kEndless;
  const bool endless_above = a.most == kEndless || b.most == kEndless;
  return counted(endless_below ? -kEndless : add(a.least, b.least), endless_above ? kEndless : add(a.most, b.most));
}

Range operator*(const Range& a, const Range& b) noexcept { return at_corners(multiply, a, b); }

Range power(const Range& base, std::size_t exponent) noexcept {
  Range result = Range::of(1);
  for (std::size_t i = 0; i < exponent; ++i) result = result * base;
  return exponent % 2 == 0 ? both(result, {0, kEndless}) : result;
}

Range floor_divide(const Range& a, const Range& b) noexcept {
  const Range above{std::max<Wide>(b.least, 1), b.most}, below{b.least, std::min<Wide>(b.most, -1)};
  if (b.most < 1) return b.least > -1 ? kAny : at_corners(divide, a, below);
  if (b.least > -1) return at_corners(divide, a, above);
  return either(at_corners(divide, a, above), at_corners(divide, a, below));
}

Range modulo(const Range& a, const Range& b) noexcept {
  if (b.least > 0 && a.least >= 0 && a.most < b.least) return a;
  return (Range{std::min<Wide>(b.least, -1), std::max<Wide>(b.most, 1)} + Range{1, -1});
}

}  // namespace pellucid::symbolic
