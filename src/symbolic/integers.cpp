#include "symbolic/integers.h"

#include <numeric>

#include "symbolic/arithmetic.h"
#include "symbolic/polynomial.h"

namespace pellucid::symbolic {
namespace {

// A power is written out as a product up to here; beyond, x ** 10 is an atom.
constexpr std::int64_t kLargestProduct = 8;

bool is_zero(const Polynomial& polynomial) noexcept { return polynomial.is_constant() && polynomial.constant == 0; }

const Expr* expression_of(Nodes& nodes, const std::optional<Polynomial>& polynomial) {
  return polynomial ? expression_of(nodes, *polynomial) : nullptr;
}

// With the divisor above 0 if it is constant, and without a factor that the dividend has too:
// (4*n + 6) // 8 is (2*n + 3) // 4.
bool normalise(Polynomial& dividend, std::int64_t& divisor) {
  if (divisor < 0) {
    const Int positive = checked_multiply(divisor, -1);
    auto negated = positive ? add({}, dividend, -1) : std::nullopt;
    if (!negated) return false;
    dividend = std::move(*negated), divisor = *positive;
  }
  std::int64_t common = divisor;
  for (const Term& term : dividend.terms) {
    if (term.coefficient == std::numeric_limits<std::int64_t>::min()) return false;
    common = std::gcd(common, term.coefficient);
  }
  for (Term& term : dividend.terms) term.coefficient /= common;
  dividend.constant = *floor_divide(dividend.constant, common);
  divisor /= common;
  return true;
}

// x // 2 // 3 is x // 6.
const Expr* nested(Nodes& nodes, const Expr* a, std::int64_t by) {
  if (!a->is(Op::FloorDiv) || !a->args[1]->is_constant() || by <= 0) return nullptr;
  const Int both = checked_multiply(a->args[1]->constant().i, by);
  return both && a->args[1]->constant().i > 0 ? floor_division(nodes, a->args[0], nodes.integer(*both)) : nullptr;
}

// The part of a quotient that is left when what divides exactly is taken out.
const Expr* rest_of_quotient(Nodes& nodes, Polynomial rest, const Expr* b) {
  if (!b->is_constant()) {
    const Expr* left = expression_of(nodes, rest);
    return left != nullptr ? nodes.make(Op::FloorDiv, left, b) : nullptr;
  }
  std::int64_t divisor = b->constant().i;
  if (!normalise(rest, divisor)) return nullptr;
  const Expr* left = expression_of(nodes, rest);
  if (left == nullptr || divisor == 1) return left;
  const Expr* shorter = nested(nodes, left, divisor);
  return shorter != nullptr ? shorter : nodes.make(Op::FloorDiv, left, nodes.integer(divisor));
}

const Expr* simplified_quotient(Nodes& nodes, const Expr* a, const Expr* b) {
  const auto division = divide(nodes, polynomial_of(a), polynomial_of(b));
  if (!division) return nullptr;
  if (is_zero(division->rest)) return expression_of(nodes, division->quotient);
  const Expr* rest = rest_of_quotient(nodes, division->rest, b);
  return rest != nullptr ? expression_of(nodes, add(division->quotient, polynomial_of(rest))) : nullptr;
}

const Expr* simplified_remainder(Nodes& nodes, const Expr* a, const Expr* b) {
  const auto division = divide(nodes, polynomial_of(a), polynomial_of(b));
  if (!division) return nullptr;
  if (is_zero(division->rest)) return nodes.integer(0);
  const Expr* rest = expression_of(nodes, division->rest);
  return rest != nullptr ? nodes.make(Op::Mod, rest, b) : nullptr;
}

}  // namespace

const Expr* sum_of(Nodes& nodes, const Expr* a, const Expr* b, std::int64_t times_b) {
  return expression_of(nodes, add(polynomial_of(a), polynomial_of(b), times_b));
}

const Expr* product_of(Nodes& nodes, const Expr* a, const Expr* b) {
  return expression_of(nodes, multiply(nodes, polynomial_of(a), polynomial_of(b)));
}

const Expr* floor_division(Nodes& nodes, const Expr* a, const Expr* b) {
  if (b->hint.i == 0) return nullptr;
  const Expr* simplified = simplified_quotient(nodes, a, b);
  return simplified != nullptr ? simplified : nodes.make(Op::FloorDiv, a, b);
}

const Expr* remainder(Nodes& nodes, const Expr* a, const Expr* b) {
  if (b->hint.i == 0) return nullptr;
  const Expr* simplified = simplified_remainder(nodes, a, b);
  return simplified != nullptr ? simplified : nodes.make(Op::Mod, a, b);
}

const Expr* power(Nodes& nodes, const Expr* base, const Expr* exponent) {
  if (exponent->hint.i < 0) return nullptr;
  if (!exponent->is_constant() || exponent->constant().i > kLargestProduct) return nodes.make(Op::Pow, base, exponent);
  const Expr* result = nodes.integer(1);
  for (std::int64_t i = 0; i < exponent->constant().i && result != nullptr; ++i) {
    result = product_of(nodes, result, base);
  }
  return result;
}

const Expr* extremum(Nodes& nodes, Op min_or_max, const Expr* a, const Expr* b) {
  const auto difference = add(polynomial_of(a), polynomial_of(b), -1);
  if (difference && difference->is_constant()) return (difference->constant < 0) == (min_or_max == Op::Min) ? a : b;
  return a->id < b->id ? nodes.make(min_or_max, a, b) : nodes.make(min_or_max, b, a);
}

}  // namespace pellucid::symbolic
