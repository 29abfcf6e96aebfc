#include "symbolic/polynomial.h"

#include <algorithm>

#include "symbolic/arithmetic.h"

namespace pellucid::symbolic {
namespace {

constexpr std::size_t kMostTerms = 200;  // of a product: what has more is no number that a guard should compute

bool before(const Term& a, const Term& b) noexcept { return a.monomial->id < b.monomial->id; }

// Sorts the terms and adds those of one monomial.
bool collect(std::vector<Term>& terms) {
  std::sort(terms.begin(), terms.end(), before);
  std::vector<Term> sums;
  for (const Term& term : terms) {
    if (sums.empty() || sums.back().monomial != term.monomial) {
      sums.push_back(term);
      continue;
    }
    const Int sum = checked_add(sums.back().coefficient, term.coefficient);
    if (!sum) return false;
    sums.back().coefficient = *sum;
    if (*sum == 0) sums.pop_back();
  }
  terms = std::move(sums);
  return true;
}

// The factors of `a` without those of `b`, or null where `b` does not divide it.
const Expr* exact_quotient(Nodes& nodes, const Expr* a, const Expr* b) {
  const auto all = factors_of(a), without = factors_of(b);
  const auto by_id = [](const Expr* x, const Expr* y) { return x->id < y->id; };
  if (!std::includes(all.begin(), all.end(), without.begin(), without.end(), by_id)) return nullptr;
  std::vector<const Expr*> left;
  std::set_difference(all.begin(), all.end(), without.begin(), without.end(), std::back_inserter(left), by_id);
  return product_of(nodes, left);
}

// Adds coefficient * monomial, where the monomial may be the constant 1.
bool put(Polynomial& to, std::int64_t coefficient, const Expr* monomial) {
  if (!monomial->is_constant()) return to.terms.push_back({coefficient, monomial}), true;
  const auto product = checked_multiply(coefficient, monomial->constant().i);
  const Int sum = product ? checked_add(to.constant, *product) : std::nullopt;
  if (sum) to.constant = *sum;
  return sum.has_value();
}

std::optional<Division> divide_by_constant(const Polynomial& a, std::int64_t by) {
  Division result;
  const auto split = [&](std::int64_t number) { return std::pair(floor_divide(number, by), modulo(number, by)); };
  const auto [whole, left] = split(a.constant);
  if (!whole) return std::nullopt;
  result.quotient.constant = *whole, result.rest.constant = *left;
  for (const Term& term : a.terms) {
    const auto [quotient, rest] = split(term.coefficient);
    if (!quotient) return std::nullopt;
    if (*rest == 0) {
      result.quotient.terms.push_back({*quotient, term.monomial});
    } else {
      result.rest.terms.push_back(term);
    }
  }
  return result;
}

std::optional<Division> divide_by_term(Nodes& nodes, const Polynomial& a, const Term& by) {
  Division result;
  result.rest.constant = a.constant;
  for (const Term& term : a.terms) {
    const Int quotient = floor_divide(term.coefficient, by.coefficient);
    if (!quotient) return std::nullopt;
    const bool divisible = term.coefficient % by.coefficient == 0;
    const Expr* monomial = divisible ? exact_quotient(nodes, term.monomial, by.monomial) : nullptr;
    if (monomial == nullptr) {
      result.rest.terms.push_back(term);
    } else if (!put(result.quotient, *quotient, monomial)) {
      return std::nullopt;
    }
  }
  return collect(result.quotient.terms) ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace

std::span<const Expr* const> factors_of(const Expr* const& monomial) noexcept {
  return monomial->is(Op::Product) ? monomial->args : std::span(&monomial, 1);
}

const Expr* product_of(Nodes& nodes, std::span<const Expr* const> factors) {
  if (factors.empty()) return nodes.integer(1);
  if (factors.size() == 1) return factors[0];
  std::vector<const Expr*> sorted(factors.begin(), factors.end());
  std::sort(sorted.begin(), sorted.end(), [](const Expr* a, const Expr* b) { return a->id < b->id; });
  return nodes.make(Operation{Op::Product}, sorted);
}

Polynomial polynomial_of(const Expr* integer) {
  if (integer->is_constant()) return {.constant = integer->constant().i};
  if (!integer->is(Op::Sum)) return {.terms = {{1, integer}}};
  Polynomial result{.constant = integer->constant().i};
  for (std::size_t i = 0; i < integer->args.size(); ++i) {
    result.terms.push_back({integer->operation.coefficients[i], integer->args[i]});
  }
  return result;
}

const Expr* expression_of(Nodes& nodes, const Polynomial& polynomial) {
  const auto& terms = polynomial.terms;
  if (terms.empty()) return nodes.integer(polynomial.constant);
  if (terms.size() == 1 && terms[0].coefficient == 1 && polynomial.constant == 0) return terms[0].monomial;
  std::vector<const Expr*> monomials;
  std::vector<std::int64_t> coefficients;
  for (const Term& term : terms) {
    monomials.push_back(term.monomial);
    coefficients.push_back(term.coefficient);
  }
  return nodes.make({.op = Op::Sum, .constant = Value::of(polynomial.constant), .coefficients = coefficients},
                    monomials);
}

std::optional<Polynomial> add(const Polynomial& a, const Polynomial& b, std::int64_t times_b) {
  const auto scaled = checked_multiply(b.constant, times_b);
  const Int constant = scaled ? checked_add(a.constant, *scaled) : std::nullopt;
  if (!constant) return std::nullopt;
  Polynomial result{.constant = *constant, .terms = a.terms};
  for (const Term& term : b.terms) {
    const Int coefficient = checked_multiply(term.coefficient, times_b);
    if (!coefficient) return std::nullopt;
    if (*coefficient != 0) result.terms.push_back({*coefficient, term.monomial});
  }
  return collect(result.terms) ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<Polynomial> multiply(Nodes& nodes, const Polynomial& a, const Polynomial& b) {
  if (b.is_constant()) return add({}, a, b.constant);
  if (a.is_constant()) return add({}, b, a.constant);
  if (a.terms.size() * b.terms.size() > kMostTerms) return std::nullopt;
  auto result = add({}, a, b.constant);
  const auto more = result ? add({}, {.terms = b.terms}, a.constant) : std::nullopt;
  result = more ? add(*result, *more) : std::nullopt;
  if (!result) return std::nullopt;
  for (const Term& x : a.terms) {
    for (const Term& y : b.terms) {
      const Int coefficient = checked_multiply(x.coefficient, y.coefficient);
      std::vector<const Expr*> factors(factors_of(x.monomial).begin(), factors_of(x.monomial).end());
      factors.insert(factors.end(), factors_of(y.monomial).begin(), factors_of(y.monomial).end());
      const Expr* monomial = coefficient ? product_of(nodes, factors) : nullptr;
      if (monomial == nullptr) return std::nullopt;
      result->terms.push_back({*coefficient, monomial});
    }
  }
  return collect(result->terms) ? result : std::nullopt;
}

std::optional<Division> divide(Nodes& nodes, const Polynomial& a, const Polynomial& b) {
  if (b.is_constant()) return divide_by_constant(a, b.constant);
  if (b.terms.size() == 1 && b.constant == 0) return divide_by_term(nodes, a, b.terms[0]);
  Division nothing{.rest = a};
  if (a.terms.empty() || a.terms[0].monomial != b.terms[0].monomial) return nothing;
  const Int times = floor_divide(a.terms[0].coefficient, b.terms[0].coefficient);
  const auto negated = times ? checked_multiply(*times, -1) : std::nullopt;
  const auto rest = negated ? add(a, b, *negated) : std::nullopt;
  if (!rest || !rest->is_constant() || rest->constant != 0) return nothing;
  return Division{.quotient = {.constant = *times}};
}

}  // namespace pellucid::symbolic
