#include "region/unbacked_hints.h"

#include <limits>

#include "region/region.h"
#include "symbolic/operations.h"
#include "symbolic/program.h"

namespace pellucid::region {

using symbolic::Expr;
using symbolic::Op;

symbolic::Value UnbackedHints::next(symbolic::Value usual, std::int64_t least, std::int64_t most) const {
  if (ahead) return *ahead;
  const std::size_t which = order_.size();
  if (which >= setup.hints.size() || !setup.hints[which] || usual.type != symbolic::Type::Int) return usual;
  return symbolic::Value::of(std::clamp(setup.hints[which]->i, least, most));
}

namespace {

// Where the sides of a comparison meet, as a symbol of them grows; their difference for 0 and 1 of it tells where that
// is. Nothing: it is no such condition.
std::optional<std::int64_t> meeting_point(const Expr* condition, std::uint32_t symbol,
                                          std::vector<symbolic::Value> values) {
  if (condition->is(Op::Not)) return meeting_point(condition->args[0], symbol, std::move(values));
  const bool compares =
      condition->is(Op::Eq) || condition->is(Op::Ne) || condition->is(Op::Lt) || condition->is(Op::Le);
  if (!compares) return std::nullopt;
  const auto difference = [&](std::int64_t at) -> std::optional<std::int64_t> {
    values[symbol] = symbolic::Value::of(at);
    std::int64_t sides[2] = {};
    for (std::size_t i = 0; i < 2; ++i) {
      const Expr* side = condition->args[i];
      if (side->type != symbolic::Type::Int) return std::nullopt;
      const auto value = side->is_constant() ? side->constant() : symbolic::Program({&side, 1}).evaluate(values.data());
      if (!value) return std::nullopt;
      sides[i] = value->i;
    }
    std::int64_t result = 0;
    return __builtin_sub_overflow(sides[0], sides[1], &result) ? std::nullopt : std::optional(result);
  };
  const auto at_zero = difference(0), at_one = difference(1);
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  std::int64_t slope = 0;
  if (!at_zero || !at_one || *at_zero == kLeast || __builtin_sub_overflow(*at_one, *at_zero, &slope) || slope == 0)
    return std::nullopt;
  return -*at_zero / slope;
}

}  // namespace

std::optional<std::int64_t> UnbackedHints::hint_for(const Expr* symbol, const Expr* condition,
                                                    std::span<const Expr* const> needed) {
  constexpr std::int64_t kNear = 4, kMostTried = 130;
  const std::uint32_t index = symbol->operation.symbol;
  std::vector<symbolic::Value> values;
  for (const auto& known : region_.numbers.symbols_) values.push_back(known.expr->hint);
  std::vector<const Expr*> conditions(needed.begin(), needed.end());
  conditions.push_back(condition);
  const symbolic::Program program(conditions);
  const symbolic::Range range = region_.numbers.space().range(symbol);
  const auto fits = [&](std::int64_t hint) {
    values[index] = symbolic::Value::of(hint);
    return hint >= range.least && hint <= range.most && program.holds(values.data());
  };
  const auto meets = meeting_point(condition, index, values);
  for (std::int64_t away = 0; meets && away <= kNear; ++away) {
    for (const std::int64_t hint : {*meets + away, *meets - away}) {
      if (fits(hint)) return hint;
    }
  }
  for (std::int64_t hint = 2; hint <= kMostTried; ++hint) {
    if (fits(hint)) return hint;
  }
  return std::nullopt;
}

bool UnbackedHints::wish_for(const Expr* condition, std::span<const Expr* const> needed) {
  if (!may_wish || wished) return false;
  for (std::size_t which = 0; which < order_.size(); ++which) {
    if (order_[which]->type != symbolic::Type::Int || Ahead::has_all(region_.unbacked, order_[which])) continue;
    const auto hint = hint_for(order_[which], condition, needed);
    if (!hint) continue;
    wished = setup;
    wished->hints.resize(std::max(wished->hints.size(), which + 1));
    wished->hints[which] = symbolic::Value::of(*hint);
    return true;
  }
  return false;
}

bool UnbackedHints::add_inputs(const Expr* expr, std::vector<PathHash>& paths) const {
  if (expr->is(Op::Symbol)) {
    const auto& symbol = region_.numbers.symbols_[expr->operation.symbol];
    if (symbol.is_input()) paths.push_back(symbol.path);
    return !symbol.must_stay_open;
  }
  return std::ranges::all_of(expr->args, [&](const Expr* arg) { return add_inputs(arg, paths); });
}

bool UnbackedHints::wish_closed(const Expr* condition) {
  Setup other = setup;
  if (!may_wish || wished || !add_inputs(condition, other.closed)) return false;
  wished = std::move(other);
  return true;
}

const graph::Node* node_giving(Region& region, const Expr* symbol) {
  // Of a tensor of bools the node gives the truth.
  for (const Expr* given : {symbol, symbolic::truth(region.numbers.space(), symbol)}) {
    PyObject* number = given == nullptr ? nullptr : region.numbers.said.known(given);
    const auto known = number == nullptr ? region.capture->node_of.end() : region.capture->node_of.find(number);
    if (known != region.capture->node_of.end()) return known->second;
  }
  return nullptr;
}

std::size_t place_of(const graph::CallSite& where) {
  return std::hash<const void*>{}(where.code.get()) * 31 + static_cast<std::size_t>(where.offset);
}

bool UnbackedHints::wish_foreseen(std::span<const Expr* const> symbols) {
  if (!may_wish || wished) return false;
  Setup other = setup;
  bool any = false;
  for (const Expr* symbol : symbols) {
    const graph::Node* node = node_giving(region_, symbol);
    if (node == nullptr || node->where == nullptr) return false;
    const std::size_t place = place_of(*node->where);
    if (std::ranges::find(other.foreseen, place) != other.foreseen.end()) continue;
    other.foreseen.push_back(place);
    any = true;
  }
  if (any) wished = std::move(other);
  return any;
}

}  // namespace pellucid::region
