#include "symbolic/congruences.h"

#include <numeric>

#include "symbolic/arithmetic.h"

namespace pellucid::symbolic {
namespace {

// A modulus beyond this is taken for 1: products of two remainders stay in 64 bits.
constexpr std::int64_t kLargestModulus = std::int64_t{1} << 31;

Congruence normal(std::int64_t modulus, std::int64_t remainder) noexcept {
  if (modulus == 0) return {0, remainder};
  if (modulus > kLargestModulus) return {};
  return {modulus, *modulo(remainder, modulus)};
}

// One number is small enough to be computed with, or it is not looked at.
bool is_small(const Congruence& a) noexcept {
  return a.modulus != 0 || (-kLargestModulus <= a.remainder && a.remainder <= kLargestModulus);
}

Congruence operator+(const Congruence& a, const Congruence& b) noexcept {
  if (!is_small(a) || !is_small(b)) return {};
  return normal(std::gcd(a.modulus, b.modulus), a.remainder + b.remainder);
}

// (m*k + r) * (n*l + s): of the four products, what is no r*s has the common divisor of the other three.
Congruence operator*(const Congruence& a, const Congruence& b) noexcept {
  if (!is_small(a) || !is_small(b)) return {};
  const std::int64_t modulus =
      std::gcd(std::gcd(a.modulus * b.modulus, a.modulus * b.remainder), b.modulus * a.remainder);
  return normal(modulus, a.remainder * b.remainder);
}

}  // namespace

bool Congruence::allows(std::int64_t number) const noexcept {
  return modulus == 0 ? number == remainder : *symbolic::modulo(number, modulus) == remainder;
}

std::optional<std::int64_t> Congruence::modulo(std::int64_t divisor) const noexcept {
  const Int rest = symbolic::modulo(modulus, divisor);
  return rest && *rest == 0 ? symbolic::modulo(remainder, divisor) : std::nullopt;
}

void Congruences::add(const Expr* integer, Congruence known) {
  if (known.modulus > kLargestModulus) return;
  Congruence& entry = known_[integer];
  // The finer of two that are both true; what both say together is seldom asked.
  if (known.modulus > entry.modulus) entry = known;
}

Congruence Congruences::of(const Expr* integer) const {
  if (const auto found = known_.find(integer); found != known_.end()) return found->second;
  return computed(integer);
}

Congruence Congruences::computed(const Expr* integer) const {
  switch (integer->op()) {
    case Op::Constant:
      return normal(0, integer->constant().i);
    case Op::Sum: {
      Congruence result = normal(0, integer->constant().i);
      for (std::size_t i = 0; i < integer->args.size(); ++i) {
        result = result + of(integer->args[i]) * normal(0, integer->operation.coefficients[i]);
      }
      return result;
    }
    case Op::Product: {
      Congruence result = normal(0, 1);
      for (const Expr* arg : integer->args) result = result * of(arg);
      return result;
    }
    default:
      return {};
  }
}

}  // namespace pellucid::symbolic
