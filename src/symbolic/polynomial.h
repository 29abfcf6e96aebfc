// Ints as polynomials: the canonical form in which equal ones are one expression. Every operation gives nothing where a
// coefficient leaves 64 bits.
#pragma once
#include <optional>
#include <vector>

#include "symbolic/nodes.h"

namespace pellucid::symbolic {

struct Term {
  std::int64_t coefficient;  // never 0
  const Expr* monomial;      // a Product, or another Int that is no Sum and no Constant
};

struct Polynomial {
  std::int64_t constant = 0;
  std::vector<Term> terms;  // by the monomial's id

  bool is_constant() const noexcept { return terms.empty(); }
};

Polynomial polynomial_of(const Expr* integer);
const Expr* expression_of(Nodes& nodes, const Polynomial& polynomial);  // null: Nodes::make
std::optional<Polynomial> add(const Polynomial& a, const Polynomial& b, std::int64_t times_b = 1);
std::optional<Polynomial> multiply(Nodes& nodes, const Polynomial& a, const Polynomial& b);

// The factors of a monomial, in order of id.
std::span<const Expr* const> factors_of(const Expr* const& monomial) noexcept;
const Expr* product_of(Nodes& nodes, std::span<const Expr* const> factors);  // in any order; 1 of none

// a == quotient * b + rest, where every term of `rest` is one that b does not divide. Of a `b` with several terms only
// a whole quotient is found.
struct Division {
  Polynomial quotient, rest;
};
std::optional<Division> divide(Nodes& nodes, const Polynomial& a, const Polynomial& b);

}  // namespace pellucid::symbolic
