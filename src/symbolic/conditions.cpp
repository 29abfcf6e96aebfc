#include "symbolic/conditions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "symbolic/arithmetic.h"
#include "symbolic/polynomial.h"

namespace pellucid::symbolic {
namespace {

using Limits = std::numeric_limits<std::int64_t>;

// `left` compared with `number`: a comparison of Ints with what is constant on the right.
struct Relation {
  Polynomial left;
  Comparison comparison;
  std::int64_t number;
};

Comparison mirrored(Comparison comparison) noexcept {
  switch (comparison) {
    case Comparison::Lt:
      return Comparison::Gt;
    case Comparison::Le:
      return Comparison::Ge;
    case Comparison::Gt:
      return Comparison::Lt;
    case Comparison::Ge:
      return Comparison::Le;
    default:
      return comparison;
  }
}

bool negate(Polynomial& polynomial) {
  const auto negated = add({}, polynomial, -1);
  if (negated) polynomial = *negated;
  return negated.has_value();
}

// a <comparison> b as the relation of a - b without its constant to a number.
std::optional<Relation> relation(Comparison comparison, const Expr* a, const Expr* b) {
  auto left = add(polynomial_of(a), polynomial_of(b), -1);
  if (!left) return std::nullopt;
  if (!left->is_constant() && left->terms[0].coefficient < 0) {
    if (!negate(*left)) return std::nullopt;
    comparison = mirrored(comparison);
  }
  const Int number = checked_multiply(left->constant, -1);
  if (!number) return std::nullopt;
  left->constant = 0;
  return Relation{std::move(*left), comparison, *number};
}

// Lt and Gt as Le and Ge.
bool close(Relation& relation) {
  const bool less = relation.comparison == Comparison::Lt;
  if (!less && relation.comparison != Comparison::Gt) return true;
  const Int number = checked_add(relation.number, less ? -1 : 1);
  if (number) relation.number = *number, relation.comparison = less ? Comparison::Le : Comparison::Ge;
  return number.has_value();
}

// Divides by what the coefficients have in common. False: no int has this value.
bool reduce(Relation& relation) {
  std::uint64_t common = 0;
  for (const Term& term : relation.left.terms) {
    const auto bits = static_cast<std::uint64_t>(term.coefficient);
    common = std::gcd(common, term.coefficient < 0 ? 0 - bits : bits);
  }
  if (common <= 1 || common > static_cast<std::uint64_t>(Limits::max())) return true;
  const auto by = static_cast<std::int64_t>(common);
  const std::int64_t whole = *floor_divide(relation.number, by), rest = *modulo(relation.number, by);
  const bool equality = relation.comparison == Comparison::Eq || relation.comparison == Comparison::Ne;
  if (equality && rest != 0) return false;
  for (Term& term : relation.left.terms) term.coefficient /= by;
  relation.number = relation.comparison == Comparison::Ge && rest != 0 ? whole + 1 : whole;
  return true;
}

// Null where the canonical form leaves 64 bits.
const Expr* canonical(Nodes& nodes, Comparison comparison, const Expr* a, const Expr* b) {
  auto found = relation(comparison, a, b);
  if (!found || !close(*found)) return nullptr;
  if (!reduce(*found)) return nodes.truth(comparison == Comparison::Ne);
  const Expr* left = expression_of(nodes, found->left);
  if (left == nullptr) return nullptr;
  const Expr* number = nodes.integer(found->number);
  switch (found->comparison) {
    case Comparison::Eq:
      return nodes.make(Op::Eq, left, number);
    case Comparison::Ne:
      return nodes.make(Op::Ne, left, number);
    case Comparison::Le:
      return nodes.make(Op::Le, left, number);
    default:
      return nodes.make(Op::Le, number, left);
  }
}

const Expr* plain(Nodes& nodes, Comparison comparison, const Expr* a, const Expr* b) {
  switch (comparison) {
    case Comparison::Lt:
      return nodes.make(Op::Lt, a, b);
    case Comparison::Le:
      return nodes.make(Op::Le, a, b);
    case Comparison::Eq:
      return nodes.make(Op::Eq, a, b);
    case Comparison::Ne:
      return nodes.make(Op::Ne, a, b);
    case Comparison::Gt:
      return nodes.make(Op::Lt, b, a);
    case Comparison::Ge:
      return nodes.make(Op::Le, b, a);
  }
  return nullptr;
}

bool of_ints(const Expr* condition) noexcept {
  return condition->args[0]->type == Type::Int && condition->args[1]->type == Type::Int;
}

const Expr* negated_order(Nodes& nodes, const Expr* condition) {
  if (!of_ints(condition)) return nodes.make(Op::Not, condition);
  return comparison(nodes, condition->is(Op::Lt) ? Comparison::Ge : Comparison::Gt, condition->args[0],
                    condition->args[1]);
}

}  // namespace

const Expr* comparison(Nodes& nodes, Comparison comparison, const Expr* a, const Expr* b) {
  if (a->type == Type::Int && b->type == Type::Int) {
    if (const Expr* found = canonical(nodes, comparison, a, b)) return found;
  }
  return plain(nodes, comparison, a, b);
}

const Expr* negation(Nodes& nodes, const Expr* condition) {
  switch (condition->op()) {
    case Op::Constant:
      return nodes.truth(!condition->constant().is_true());
    case Op::Not:
      return condition->args[0];
    case Op::Eq:
      return nodes.make(Op::Ne, condition->args[0], condition->args[1]);
    case Op::Ne:
      return nodes.make(Op::Eq, condition->args[0], condition->args[1]);
    case Op::Lt:
    case Op::Le:
      return negated_order(nodes, condition);
    default:
      return nodes.make(Op::Not, condition);
  }
}

const Expr* is_its_hint(Nodes& nodes, const Expr* number) {
  if (number->type == Type::Float) return nodes.make({.op = Op::Same, .constant = number->hint}, {{number}});
  return comparison(nodes, Comparison::Eq, number, nodes.constant(number->hint));
}

const Expr* conjunction(Nodes& nodes, const Expr* a, const Expr* b) {
  if (a->is_constant()) return a->constant().is_true() ? b : a;
  if (b->is_constant()) return b->constant().is_true() ? a : b;
  return a == b ? a : nodes.make(Op::And, a, b);
}

const Expr* disjunction(Nodes& nodes, const Expr* a, const Expr* b) {
  if (a->is_constant()) return a->constant().is_true() ? a : b;
  if (b->is_constant()) return b->constant().is_true() ? b : a;
  return a == b ? a : nodes.make(Op::Or, a, b);
}

void collect_symbols(const Expr* expr, std::vector<std::uint32_t>& out) {
  if (expr->is(Op::Symbol) && std::ranges::find(out, expr->operation.symbol) == out.end())
    out.push_back(expr->operation.symbol);
  for (const Expr* arg : expr->args) collect_symbols(arg, out);
}

}  // namespace pellucid::symbolic
