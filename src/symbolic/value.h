// A number as the room `symbolic` computes with it: an int of 64 bits, a float, or a truth value.
#pragma once
#include <bit>
#include <cstdint>

namespace pellucid::symbolic {

enum class Type : std::uint8_t { Int, Float, Bool };

struct Value {
  Type type;
  union {
    std::int64_t i;  // of an Int, and 0 or 1 of a Bool
    double f;        // of a Float
  };

  static constexpr Value of(std::int64_t number) noexcept { return {.type = Type::Int, .i = number}; }
  static constexpr Value real(double number) noexcept { return {.type = Type::Float, .f = number}; }
  static constexpr Value truth(bool truth) noexcept { return {.type = Type::Bool, .i = truth ? 1 : 0}; }

  bool is_true() const noexcept { return type == Type::Float ? f != 0.0 : i != 0; }
  std::uint64_t bits() const noexcept {
    return type == Type::Float ? std::bit_cast<std::uint64_t>(f) : static_cast<std::uint64_t>(i);
  }
};

// Bit for bit: 0.0 is not -0.0, and a NaN is itself. Comparisons of the program are another matter (arithmetic.h).
inline bool same(const Value& a, const Value& b) noexcept { return a.type == b.type && a.bits() == b.bits(); }

}  // namespace pellucid::symbolic
