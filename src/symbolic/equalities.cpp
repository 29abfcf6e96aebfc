#include "symbolic/equalities.h"

#include <algorithm>
#include <vector>

#include "symbolic/conditions.h"
#include "symbolic/integers.h"
#include "symbolic/polynomial.h"

namespace pellucid::symbolic {
namespace {

// Replacements within replacements. A replacement has none of the numbers that are replaced, so more than a few come
// only from what a simplification makes anew.
constexpr int kDeepest = 200;

class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(++depth) {}
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

bool contains(const Expr* expr, const Expr* part) {
  if (expr == part) return true;
  if (expr->id < part->id) return false;  // an argument is older than what it is an argument of
  return std::ranges::any_of(expr->args, [&](const Expr* arg) { return contains(arg, part); });
}

// Can the term be what the other terms say?
bool is_solvable(const Polynomial& polynomial, const Term& term) {
  if (term.coefficient != 1 && term.coefficient != -1) return false;
  if (polynomial.terms.size() == 1) return true;
  if (term.monomial->is(Op::Product)) return false;
  return std::ranges::none_of(polynomial.terms, [&](const Term& other) {
    return other.monomial != term.monomial && contains(other.monomial, term.monomial);
  });
}

}  // namespace

void Equalities::add(const Expr* left, const Expr* right) {
  if (left->type == Type::Int) {
    solve(simplify(left), simplify(right));
  } else if (right->is_constant()) {
    replacement_.emplace(left, right);
  }
  look_again();
}

void Equalities::forget() { replacement_.clear(), look_again(); }

void Equalities::solve(const Expr* left, const Expr* right) {
  const auto difference = symbolic::add(polynomial_of(left), polynomial_of(right), -1);
  if (!difference) return;
  // The newest one goes, so that what is asked later is said in what was there before.
  const auto& terms = difference->terms;
  const auto newest =
      std::find_if(terms.rbegin(), terms.rend(), [&](const Term& term) { return is_solvable(*difference, term); });
  if (newest == terms.rend()) return;
  Polynomial rest = *difference;
  std::erase_if(rest.terms, [&](const Term& term) { return term.monomial == newest->monomial; });
  const auto value = symbolic::add({}, rest, -newest->coefficient);
  const Expr* expr = value ? expression_of(nodes_, *value) : nullptr;
  if (expr != nullptr) replacement_.emplace(newest->monomial, expr);
}

const Expr* Equalities::simplify(const Expr* expr) {
  if (expr->is_constant() || depth_ >= kDeepest) return expr;
  if (const auto found = simplified_.find(expr); found != simplified_.end()) return found->second;
  const Deeper deeper(depth_);
  const auto found = replacement_.find(expr);
  const Expr* simpler = found != replacement_.end() ? found->second : rebuilt(expr);
  // What is made anew may be replaced in its turn.
  const Expr* result = simpler == expr ? expr : simplify(simpler);
  return simplified_[expr] = result;
}

const Expr* Equalities::rebuilt(const Expr* expr) {
  if (expr->args.empty()) return expr;
  std::vector<const Expr*> args;
  for (const Expr* arg : expr->args) args.push_back(simplify(arg));
  if (std::ranges::equal(args, expr->args) && !expr->is(Op::Sum)) return expr;
  const Expr* result = operation(expr, args);
  return result != nullptr ? result : expr;
}

const Expr* Equalities::operation(const Expr* expr, std::span<const Expr* const> args) {
  switch (expr->op()) {
    case Op::Sum:
      return sum(expr, args);
    case Op::Product: {
      const Expr* result = nodes_.integer(1);
      for (std::size_t i = 0; i < args.size() && result != nullptr; ++i) result = product_of(nodes_, result, args[i]);
      return result;
    }
    case Op::FloorDiv:
      return floor_division(nodes_, args[0], args[1]);
    case Op::Mod:
      return remainder(nodes_, args[0], args[1]);
    case Op::Pow:
      return power(nodes_, args[0], args[1]);
    case Op::Min:
    case Op::Max:
      return extremum(nodes_, expr->op(), args[0], args[1]);
    case Op::Eq:
      return comparison(nodes_, Comparison::Eq, args[0], args[1]);
    case Op::Ne:
      return comparison(nodes_, Comparison::Ne, args[0], args[1]);
    case Op::Lt:
      return comparison(nodes_, Comparison::Lt, args[0], args[1]);
    case Op::Le:
      return comparison(nodes_, Comparison::Le, args[0], args[1]);
    case Op::Not:
      return negation(nodes_, args[0]);
    case Op::And:
      return conjunction(nodes_, args[0], args[1]);
    case Op::Or:
      return disjunction(nodes_, args[0], args[1]);
    default:
      return nodes_.make(expr->operation, args);
  }
}

const Expr* Equalities::sum(const Expr* expr, std::span<const Expr* const> args) {
  std::optional<Polynomial> result = Polynomial{.constant = expr->constant().i};
  for (std::size_t i = 0; i < args.size() && result; ++i) {
    std::int64_t coefficient = expr->operation.coefficients[i];
    const Expr* term = args[i];
    if (const Expr* whole = without_quotient(coefficient, term)) term = whole, coefficient = 1;
    result = symbolic::add(*result, polynomial_of(term), coefficient);
  }
  return result ? expression_of(nodes_, *result) : nullptr;
}

// x % d, where it is one number.
const Expr* Equalities::known_remainder(const Expr* dividend, const Expr* divisor) {
  const Expr* rest = remainder(nodes_, dividend, divisor);
  if (rest != nullptr) rest = simplify(rest);
  if (rest == nullptr || rest->is_constant() || !divisor->is_constant()) return rest;
  const auto number = congruences_.of(dividend).modulo(divisor->constant().i);
  return number ? nodes_.integer(*number) : rest;
}

// (x // d) * d * m is (x - r) * m, where it is known that x % d == r. Null where there is none.
const Expr* Equalities::without_quotient(std::int64_t coefficient, const Expr* monomial) {
  const auto factors = factors_of(monomial);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (!factors[i]->is(Op::FloorDiv)) continue;
    const Expr *dividend = factors[i]->args[0], *divisor = factors[i]->args[1];
    std::vector<const Expr*> others(factors.begin(), factors.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Expr* product = symbolic::product_of(nodes_, others);
    const auto scaled = product != nullptr ? symbolic::add({}, polynomial_of(product), coefficient) : std::nullopt;
    const auto division = scaled ? divide(nodes_, *scaled, polynomial_of(divisor)) : std::nullopt;
    if (!division || !division->rest.is_constant() || division->rest.constant != 0) continue;
    const Expr* rest = known_remainder(dividend, divisor);
    if (rest == nullptr || !rest->is_constant()) continue;
    const Expr* divided = sum_of(nodes_, dividend, rest, -1);
    const Expr* quotient = expression_of(nodes_, division->quotient);
    return divided != nullptr && quotient != nullptr ? product_of(nodes_, divided, quotient) : nullptr;
  }
  return nullptr;
}

}  // namespace pellucid::symbolic
