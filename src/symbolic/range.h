// Intervals of ints, for what is known of an expression without its hint. The ends are wider than the 64 bits of an
// Int, since an expression of Python's ints may leave them; beyond `kEndless` nothing is counted any more.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>

namespace pellucid::symbolic {

using Wide = __int128;
// Stands for infinity, with either sign. A product of two ints of 64 bits, and a little more, is below.
constexpr Wide kEndless = Wide{3} << 125;

struct Range {
  Wide least = -kEndless, most = kEndless;

  static constexpr Range of(Wide number) noexcept { return {number, number}; }
  bool is_finite() const noexcept { return -kEndless < least && most < kEndless; }
  bool is_one_number() const noexcept { return least == most; }
  bool contains(Wide number) const noexcept { return least <= number && number <= most; }
  bool within(const Range& outer) const noexcept { return outer.least <= least && most <= outer.most; }
  friend bool operator==(const Range&, const Range&) = default;
};

constexpr Range kAny{};
constexpr Range kInt64{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};

// Numbers that are in both. They have some: what is known is true at the hints.
Range both(const Range& a, const Range& b) noexcept;
Range either(const Range& a, const Range& b) noexcept;

Range operator+(const Range& a, const Range& b) noexcept;
Range operator*(const Range& a, const Range& b) noexcept;
Range power(const Range& base, std::size_t exponent) noexcept;
Range floor_divide(const Range& a, const Range& b) noexcept;  // where the divisor is not 0
Range modulo(const Range& a, const Range& b) noexcept;        // likewise

}  // namespace pellucid::symbolic
