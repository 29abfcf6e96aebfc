#include "symbolic/facts.h"

#include <algorithm>

#include "symbolic/arithmetic.h"
#include "symbolic/conditions.h"
#include "symbolic/polynomial.h"

namespace pellucid::symbolic {
namespace {

Proof proof_of(bool holds) noexcept { return holds ? Proof::Yes : Proof::No; }
Proof opposite(Proof proof) noexcept {
  if (proof == Proof::Unknown) return proof;
  return proof == Proof::Yes ? Proof::No : Proof::Yes;
}

Proof is_less(const Range& a, const Range& b, bool or_equal) noexcept {
  // An endless end is no number: two of them are not equal.
  if (a.most < b.least || (or_equal && a.most == b.least)) return Proof::Yes;
  if (b.most < a.least || (!or_equal && b.most == a.least)) return Proof::No;
  return Proof::Unknown;
}

Proof is_equal(const Range& a, const Range& b) noexcept {
  if (a.most < b.least || b.most < a.least) return Proof::No;
  return a.is_one_number() && a == b ? Proof::Yes : Proof::Unknown;
}

}  // namespace

void Facts::declare(const Expr* symbol, const Range& range) { declared_[symbol] = range, ++epoch_; }

void Facts::forget() {
  known_.clear(), conditions_.clear(), excluded_.clear();
  congruences_.forget(), equalities_.forget();
  forgotten_at_ = ++epoch_;
}

Facts::Memo& Facts::memo(const Expr* expr) {
  if (expr->id >= memos_.size()) memos_.resize(std::max<std::size_t>(nodes_.size(), expr->id + 1));
  return memos_[expr->id];
}

// ---- what is known ----

void Facts::narrow(const Expr* integer, const Range& to) {
  Range& known = known_.try_emplace(integer, kAny).first->second;
  known = both(known, to);
  // An end that is no possible value is none: n >= 0 and n != 0 is n >= 1.
  const auto found = excluded_.find(integer);
  if (found == excluded_.end()) return;
  const auto out = [&](Wide number) {
    return kInt64.contains(number) && found->second.contains(static_cast<std::int64_t>(number));
  };
  while (out(known.least)) ++known.least;
  while (out(known.most)) --known.most;
}

void Facts::exclude(const Expr* integer, std::int64_t number) {
  excluded_[integer].insert(number);
  narrow(integer, range(integer));
}

void Facts::add_order(const Expr* less, const Expr* more, bool equal) {
  const Wide gap = equal ? 0 : 1;
  if (more->is_constant()) narrow(less, {-kEndless, more->constant().i - gap});
  if (less->is_constant()) narrow(more, {less->constant().i + gap, kEndless});
}

void Facts::add_equality(const Expr* integer, std::int64_t number) {
  narrow(integer, Range::of(number));
  if (integer->is(Op::Mod) && integer->args[1]->is_constant()) {
    const std::int64_t divisor = integer->args[1]->constant().i;
    const Int modulus = divisor < 0 ? checked_multiply(divisor, -1) : divisor;
    if (modulus && *modulus != 0) congruences_.add(integer->args[0], {*modulus, *modulo(number, *modulus)});
  }
  equalities_.add(integer, nodes_.integer(number));
}

void Facts::add(const Expr* condition) {
  // n + m == 16 tells more where n is known to be m.
  const Expr* simpler = simplify(condition);
  note(condition);
  if (simpler != condition) note(simpler);
}

void Facts::note(const Expr* condition) {
  if (condition->is_constant()) return;
  conditions_[condition] = true;
  conditions_[negation(nodes_, condition)] = false;
  ++epoch_;
  if (condition->is(Op::Symbol)) return;
  const Expr* a = condition->args[0];
  const Expr* b = condition->args.size() > 1 ? condition->args[1] : nullptr;
  const bool ints = a->type == Type::Int && b != nullptr && b->type == Type::Int;
  switch (condition->op()) {
    case Op::And:
      add(a), add(b);
      break;
    case Op::Not:
      // Neither of two: both are not.
      if (a->is(Op::Or)) add(negation(nodes_, a->args[0])), add(negation(nodes_, a->args[1]));
      break;
    case Op::Fits:
      narrow(a, kInt64);
      break;
    case Op::Same:
      equalities_.add(a, nodes_.constant(condition->constant()));
      break;
    case Op::Lt:
    case Op::Le:
      if (ints) add_order(a, b, condition->is(Op::Le));
      break;
    case Op::Eq:
      if (ints && b->is_constant()) add_equality(a, b->constant().i);
      break;
    case Op::Ne:
      if (ints && b->is_constant()) exclude(a, b->constant().i);
      break;
    default:
      break;
  }
  ++epoch_;
}

// ---- ranges ----

Range Facts::range(const Expr* integer) {
  if (integer->is_constant()) return Range::of(integer->constant().i);
  if (const Memo& found = memo(integer); found.range_at == epoch_) return found.range;
  Range result = computed(integer);
  if (const auto found = known_.find(integer); found != known_.end()) result = both(result, found->second);
  memo(integer).range = result, memo(integer).range_at = epoch_;
  const Expr* simpler = simplify(integer);
  if (simpler == integer) return result;
  result = both(result, range(simpler));
  return memo(integer).range = result;
}

namespace {

// The range of a sum of several terms, all of which have a factor in common: that of the factor times that of the rest.
Range by_common_factor(Facts& facts, Nodes& nodes, const Polynomial& sum) {
  const auto first = factors_of(sum.terms.front().monomial);
  for (const Expr* factor : first) {
    Polynomial rest;
    for (const Term& term : sum.terms) {
      const auto factors = factors_of(term.monomial);
      const auto found = std::ranges::find(factors, factor);
      if (found == factors.end()) break;
      std::vector<const Expr*> others(factors.begin(), found);
      others.insert(others.end(), found + 1, factors.end());
      const Expr* monomial = product_of(nodes, others);
      if (monomial == nullptr) break;
      if (others.empty()) {
        rest.constant = term.coefficient;
      } else {
        rest.terms.push_back({term.coefficient, monomial});
      }
    }
    if (rest.terms.size() + (rest.constant != 0 ? 1 : 0) != sum.terms.size()) continue;
    std::ranges::sort(rest.terms, {}, [](const Term& term) { return term.monomial->id; });
    if (const Expr* made = expression_of(nodes, rest))
      return facts.range(factor) * facts.range(made) + Range::of(sum.constant);
  }
  return kAny;
}

// A quotient of a constant k among the terms: k * (n // k) is n less what 0 to k - 1 is.
Range by_quotient(Facts& facts, Nodes& nodes, const Polynomial& sum) {
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [coefficient, quotient] = sum.terms[i];
    if (!quotient->is(Op::FloorDiv) || !quotient->args[1]->is_constant() || quotient->args[1]->constant().i < 2)
      continue;
    const std::int64_t divisor = quotient->args[1]->constant().i;
    Polynomial others = sum;
    others.terms.erase(others.terms.begin() + static_cast<std::ptrdiff_t>(i));
    const auto scaled = add({}, others, divisor);
    const auto whole = scaled ? add(*scaled, polynomial_of(quotient->args[0]), coefficient) : std::nullopt;
    const Expr* made = whole ? expression_of(nodes, *whole) : nullptr;
    if (made == nullptr) continue;
    const Range scaled_range = facts.range(made) + Range{0, divisor - 1} * Range::of(-Wide{coefficient});
    // Rounded inwards: the sum is an int.
    const Range down = floor_divide(scaled_range, Range::of(divisor));
    const Range up = floor_divide(scaled_range + Range::of(divisor - 1), Range::of(divisor));
    return {up.least, down.most};
  }
  return kAny;
}

Range by_structure(Facts& facts, Nodes& nodes, const Expr* sum) {
  const Polynomial polynomial = polynomial_of(sum);
  if (polynomial.terms.size() < 2) return kAny;
  return both(by_common_factor(facts, nodes, polynomial), by_quotient(facts, nodes, polynomial));
}

}  // namespace

Range Facts::computed(const Expr* integer) {
  const auto arg = [&](std::size_t i) { return range(integer->args[i]); };
  switch (integer->op()) {
    case Op::Symbol: {
      const auto found = declared_.find(integer);
      return found != declared_.end() ? found->second : kInt64;
    }
    case Op::Sum: {
      Range result = Range::of(integer->constant().i);
      for (std::size_t i = 0; i < integer->args.size(); ++i) {
        result = result + arg(i) * Range::of(integer->operation.coefficients[i]);
      }
      return both(result, by_structure(*this, nodes_, integer));
    }
    case Op::Product: {
      Range result = Range::of(1);
      for (std::size_t i = 0, next = 0; i < integer->args.size(); i = next) {
        while (next < integer->args.size() && integer->args[next] == integer->args[i]) ++next;
        result = result * power(arg(i), next - i);
      }
      return result;
    }
    case Op::FloorDiv:
      return floor_divide(arg(0), arg(1));
    case Op::Mod:
      return remainders(integer);
    case Op::Pow:
      return arg(0).least >= 1 ? Range{1, kEndless} : arg(0).least >= 0 ? Range{0, kEndless} : kAny;
    case Op::Min:
      return {std::min(arg(0).least, arg(1).least), std::min(arg(0).most, arg(1).most)};
    case Op::Max:
      return {std::max(arg(0).least, arg(1).least), std::max(arg(0).most, arg(1).most)};
    default:
      return kAny;
  }
}

Range Facts::remainders(const Expr* mod) {
  if (mod->args[1]->is_constant()) {
    const auto one = congruences_.of(mod->args[0]).modulo(mod->args[1]->constant().i);
    if (one) return Range::of(*one);
  }
  return modulo(range(mod->args[0]), range(mod->args[1]));
}

// ---- proofs ----

Proof Facts::prove(const Expr* condition) {
  if (condition->is_constant()) return proof_of(condition->constant().is_true());
  const Memo& found = memo(condition);
  const bool final = found.proof != Proof::Unknown && found.proved_at > forgotten_at_;
  if (final || found.proved_at == epoch_) return found.proof;
  const auto note = [&](Proof proof) {
    memo(condition).proof = proof, memo(condition).proved_at = epoch_;
    return proof;
  };
  Proof proof = look_up(condition);
  if (proof == Proof::Unknown && !condition->is(Op::Symbol)) proof = work_out(condition);
  if (note(proof) != Proof::Unknown) return proof;
  const Expr* simpler = simplify(condition);
  return simpler == condition ? proof : note(prove(simpler));
}

Proof Facts::look_up(const Expr* condition) {
  const auto found = conditions_.find(condition);
  return found != conditions_.end() ? proof_of(found->second) : Proof::Unknown;
}

Proof Facts::work_out(const Expr* condition) {
  const Expr* a = condition->args[0];
  switch (condition->op()) {
    case Op::Not:
      return opposite(prove(a));
    case Op::Fits:
      return range(a).within(kInt64) ? Proof::Yes : Proof::Unknown;
    case Op::And:
    case Op::Or: {
      const Proof decisive = condition->is(Op::And) ? Proof::No : Proof::Yes;
      const Proof left = prove(a), right = prove(condition->args[1]);
      return left == decisive || right == decisive ? decisive : left == right ? left : Proof::Unknown;
    }
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
      break;
    default:
      return work_out_floats(condition);
  }
  const Expr* b = condition->args[1];
  if (a->type != Type::Int || b->type != Type::Int) return work_out_floats(condition);
  switch (condition->op()) {
    case Op::Eq:
      return work_out_equality(a, b);
    case Op::Ne:
      return opposite(work_out_equality(a, b));
    default:
      return is_less(range(a), range(b), condition->is(Op::Le));
  }
}

Proof Facts::work_out_equality(const Expr* a, const Expr* b) {
  if (b->is_constant() && !congruences_.of(a).allows(b->constant().i)) return Proof::No;
  return is_equal(range(a), range(b));
}

// Of floats little is proved: what was decided, and what follows from it for any two numbers, NaN among them.
Proof Facts::work_out_floats(const Expr* condition) {
  if (condition->is(Op::Finite)) {
    const bool from_int = condition->args[0]->is(Op::ToFloat) && range(condition->args[0]->args[0]).is_finite();
    return from_int ? Proof::Yes : Proof::Unknown;
  }
  if (condition->args.size() < 2) return Proof::Unknown;
  const Expr *a = condition->args[0], *b = condition->args[1];
  const auto holds = [&](Op op, const Expr* left, const Expr* right) {
    return look_up(nodes_.make(op, left, right)) == Proof::Yes;
  };
  const bool less = holds(Op::Lt, a, b), more = holds(Op::Lt, b, a), equal = holds(Op::Eq, a, b) || holds(Op::Eq, b, a);
  switch (condition->op()) {
    case Op::Lt:
      return more || equal || holds(Op::Le, b, a) ? Proof::No : Proof::Unknown;
    case Op::Le:
      return less || equal ? Proof::Yes : more ? Proof::No : Proof::Unknown;
    case Op::Eq:
      return equal ? Proof::Yes : less || more ? Proof::No : Proof::Unknown;
    case Op::Ne:
      return equal ? Proof::No : less || more ? Proof::Yes : Proof::Unknown;
    default:
      return Proof::Unknown;
  }
}

}  // namespace pellucid::symbolic
