#include "symbolic/nodes.h"

#include <algorithm>
#include <type_traits>

#include "symbolic/evaluate.h"

namespace pellucid::symbolic {
namespace {

// A number that has more nodes when it is written out is not made: a float that grows in a long loop would become one
// that no guard should compute. It also bounds every recursion over expressions. A condition of numbers can always be
// said.
constexpr std::uint32_t kMostNodes = 1000;

bool too_large(Op op, std::uint32_t weight) noexcept {
  if (op == Op::And || op == Op::Or) return weight > 10 * kMostNodes;
  return type_of(op) != Type::Bool && weight > kMostNodes;
}

std::size_t mix(std::size_t hash, std::uint64_t part) noexcept { return (hash ^ part) * 0x9E3779B97F4A7C15U >> 1; }

template <class T>
std::span<const T> copy_of(std::span<const T> from, std::pmr::memory_resource& arena) {
  if (from.empty()) return {};
  T* copy = static_cast<T*>(arena.allocate(from.size_bytes(), alignof(T)));
  std::copy(from.begin(), from.end(), copy);
  return {copy, from.size()};
}

}  // namespace

static_assert(std::is_trivially_destructible_v<Expr>);

Nodes::Nodes() : arena_(4096) {}

std::size_t Nodes::Hash::operator()(const Expr* expr) const noexcept {
  const Operation& operation = expr->operation;
  std::size_t hash = mix(static_cast<std::size_t>(operation.op), static_cast<std::uint64_t>(operation.function));
  hash = mix(mix(hash, operation.constant.bits()), static_cast<std::uint64_t>(operation.constant.type));
  for (const std::int64_t coefficient : operation.coefficients)
    hash = mix(hash, static_cast<std::uint64_t>(coefficient));
  for (const Expr* arg : expr->args) hash = mix(hash, arg->id);
  return hash;
}

bool Nodes::Equal::operator()(const Expr* a, const Expr* b) const noexcept {
  const Operation &left = a->operation, &right = b->operation;
  return left.op == right.op && left.function == right.function && same(left.constant, right.constant) &&
         std::ranges::equal(left.coefficients, right.coefficients) && std::ranges::equal(a->args, b->args);
}

const Expr* Nodes::keep(const Expr& wanted) {
  Expr copy = wanted;
  copy.id = static_cast<std::uint32_t>(size());
  copy.args = copy_of(wanted.args, arena_);
  copy.operation.coefficients = copy_of(wanted.operation.coefficients, arena_);
  return new (arena_.allocate(sizeof(Expr), alignof(Expr))) Expr(copy);
}

const Expr* Nodes::intern(const Expr& wanted) {
  if (const auto found = interned_.find(&wanted); found != interned_.end()) return *found;
  const Expr* kept = keep(wanted);
  interned_.insert(kept);
  return kept;
}

const Expr* Nodes::constant(Value value) {
  return intern({.operation = {.op = Op::Constant, .constant = value}, .type = value.type, .weight = 1, .hint = value});
}

const Expr* Nodes::symbol(Value hint) {
  const Expr* made =
      keep({.operation = {.op = Op::Symbol, .symbol = symbols_}, .type = hint.type, .weight = 1, .hint = hint});
  ++symbols_;
  return made;
}

const Expr* Nodes::make(const Operation& operation, std::span<const Expr* const> args) {
  const auto hint = evaluate(operation, args.size(), [&](std::size_t i) -> const Value& { return args[i]->hint; });
  if (!hint) return nullptr;
  if (std::ranges::all_of(args, [](const Expr* arg) { return arg->is_constant(); })) return constant(*hint);
  std::uint32_t weight = 1;
  for (const Expr* arg : args) weight += arg->weight;
  if (too_large(operation.op, weight)) return nullptr;
  return intern({.operation = operation, .type = type_of(operation.op), .weight = weight, .hint = *hint, .args = args});
}

}  // namespace pellucid::symbolic
