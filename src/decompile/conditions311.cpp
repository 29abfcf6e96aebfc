// Conditional jumps as an algebra: two neighbours that share an exit are `and` or `or`, three may be a conditional
// expression, and what remains is the condition of a statement or a value.
#include "decompile/parse.h"

namespace pellucid::decompile {
namespace {

constexpr int kLongestCopiedEnd = 4;  // instructions of an end of the function that is copied behind a value
constexpr int kFarthestCopiedEnd = 120;

// How far the text of a condition is from its bytecode: every `is` and `in` that is turned round, and a little for
// `not`.
// `nodes`: how many more are looked at; what is shared in a value may be there often.
double distance(const Node* test, int& nodes) {
  if (--nodes < 0) return 0;
  double sum = 0;
  switch (test->kind) {
    case Kind::BoolOp:
      for (const Node* kid : test->kids) sum += distance(kid, nodes);
      return sum;
    case Kind::UnaryOp:
      return test->op == static_cast<int>(Unary::Not) ? distance(test->kids[0], nodes) + .01 : 0;
    default:
      return (test->flags & kTurned) != 0 ? 1 : 0;
  }
}
double distance(const Node* test) {
  int nodes = 10000;
  return distance(test, nodes);
}

Comparison opposite(Comparison op) {
  switch (op) {
    case Comparison::Is:
      return Comparison::IsNot;
    case Comparison::IsNot:
      return Comparison::Is;
    case Comparison::In:
      return Comparison::NotIn;
    case Comparison::NotIn:
      return Comparison::In;
    default:
      return op;
  }
}

constexpr int kAnd = 0, kOr = 1;

const Node* join(Parse& p, int op, const Node* left, const Node* right) {
  std::vector<const Node*> kids{left};
  if (right->kind == Kind::BoolOp && right->op == op) {
    kids.insert(kids.end(), right->kids.begin(), right->kids.end());
  } else {
    kids.push_back(right);
  }
  return p.arena.of(Kind::BoolOp, p.arena.list(std::move(kids)), op);
}

Comparison comparison_of(const Ins& ins) {
  if (ins.op == Opcode::IS_OP) return ins.arg != 0 ? Comparison::IsNot : Comparison::Is;
  if (ins.op == Opcode::CONTAINS_OP) return ins.arg != 0 ? Comparison::NotIn : Comparison::In;
  return static_cast<Comparison>(ins.arg >= 0 && ins.arg <= static_cast<int>(Comparison::Ge) ? ins.arg : 0);
}

std::optional<Resolved> nothing(Parse& p, const char* why, int at) {
  p.fail(why, at);
  return std::nullopt;
}

Resolved value_at(const Node* value, int next) {
  Resolved result;
  result.is_value = true;
  result.value = value;
  result.next = next;
  return result;
}

// Behind a jump, or behind the copy of a short end that took its place.
int behind_end(const Parse& p, int at) {
  while (at < p.size() && !ends(p[at].op)) ++at;
  return at + 1;
}

// ---- a < b < c ----
struct ChainReader {
  Parse& p;
  int end;
  std::vector<const Node*> kids;  // left, comparators
  std::string ops;

  // The operand at `at` over `right`, up to the next comparison; gives its index, or -1. `more`: the chain goes on
  // there.
  int operand(int at, Stack& stack, std::size_t depth, bool& more, bool& with_none) {
    while (true) {
      const Opcode op = p[at].op;
      if (is_chain(p, at) && stack.size() == depth + 2) return more = true, at;
      if (compares(op) && stack.size() == depth + 2) return more = false, at;
      if (asks_for_none(op) && stack.size() == depth + 1) return with_none = true, at;
      if (is_condition(op) || is_chain(p, at)) {
        const auto inner = resolve(p, at, stack, end);
        if (!inner || !inner->is_value) return p.fail("a condition within a comparison", at), -1;
        stack.push_back(Value::of(inner->value, at));
        at = inner->next;
        continue;
      }
      if (ends(op)) return p.fail("a comparison that ends early", at), -1;
      at = step(p, at, stack, nullptr);
      if (at < 0) return -1;
    }
  }

  std::optional<Resolved> read(int at, const Stack& base, const Node* left, const Node* right) {
    kids = {left, right};
    int clean = -1;
    Opcode jump = Opcode::CACHE;
    while (true) {
      ops.push_back(static_cast<char>(comparison_of(p[at + 2])));
      jump = p[at + 3].op;
      clean = p[at + 3].target;
      Stack stack(base);
      stack.push_back(Value::of(kids.back(), at));
      bool more = false, with_none = false;
      at = operand(at + 4, stack, base.size(), more, with_none);
      if (at < 0) return std::nullopt;
      if (with_none) {
        kids.push_back(p.arena.none());
        ops.push_back(static_cast<char>(asks_for_not_none(p[at].op) ? Comparison::Is : Comparison::IsNot));
        break;
      }
      const Node* next = expression_of(p, stack.back());
      if (next == nullptr) return std::nullopt;
      kids.push_back(next);
      if (more) continue;
      ops.push_back(static_cast<char>(comparison_of(p[at])));
      ++at;
      break;
    }
    Node node;
    node.kind = Kind::Compare;
    node.ops = ops;
    node.kids = p.arena.list(std::move(kids));
    const Node* test = p.arena.make(std::move(node));
    if (jump == Opcode::JUMP_IF_FALSE_OR_POP) {
      if (p.is(clean, Opcode::SWAP) && p.is(clean + 1, Opcode::POP_TOP)) return value_at(test, clean + 2);
      return nothing(p, "a comparison of another form", at);
    }
    return as_condition(at, clean, test, base.size());
  }

  std::optional<Resolved> as_condition(int at, int clean, const Node* test, std::size_t depth) {
    const Ins& last = p[at];
    if (!is_condition(last.op) || !p.is(clean, Opcode::POP_TOP)) return nothing(p, "a comparison of another form", at);
    Resolved result;
    Condition& made = result.condition;
    made.test = test;
    made.depth = depth;
    made.raw = last.target;
    made.jump = at;
    made.next = clean + 1;
    if (jumps_if_true(last.op)) {
      made.if_true = {false, p.unit.resolve(last.target)};
      made.if_false = {false, p.unit.resolve(made.next)};
      made.falls_true = false;
      return result;
    }
    if (behind_end(p, at + 1) != clean) return nothing(p, "a comparison of another layout", at);
    if (p.unit.resolve(made.next) != p.unit.resolve(last.target) || is_plain_jump(p[made.next].op)) {
      made.next = behind_end(p, made.next);
    }
    made.if_false = {false, p.unit.resolve(last.target)};
    made.if_true = {false, p.unit.resolve(made.next)};
    made.falls_true = true;
    return result;
  }
};

// The condition of one jump alone.
Condition single(Parse& p, int at, const Node* test, std::size_t depth) {
  const Ins& jump = p[at];
  Condition made;
  made.depth = depth;
  made.raw = jump.target;
  made.jump = at;
  made.next = at + 1;
  bool if_true = jumps_if_true(jump.op);
  if (asks_for_none(jump.op)) {
    const Comparison op = asks_for_not_none(jump.op) ? Comparison::IsNot : Comparison::Is;
    test = p.arena.compare(test, op, p.arena.none(), kFree);
    if_true = true;
  }
  made.test = test;
  const Exit away = keeps_value(jump.op) ? Exit{true, jump.target} : Exit{false, p.unit.resolve(jump.target)};
  const Exit on{false, p.unit.resolve(at + 1)};
  made.if_true = if_true ? away : on;
  made.if_false = if_true ? on : away;
  made.falls_true = !if_true;
  return made;
}

// Both as one condition; `base`: the stack without them.
std::optional<Condition> combine(Parse& p, const Condition& first, const Condition& second, const Stack& base,
                                 int end) {
  const Exit other = first.falls_true ? first.if_false : first.if_true;
  const auto joined = [&](int op, const Node* left) {
    Condition made = second;
    made.test = join(p, op, left, second.test);
    made.depth = first.depth;
    return made;
  };
  if (first.falls_true) {
    if (second.if_false == other) return joined(kAnd, first.test);
    if (second.if_true == other && !other.is_value) return joined(kOr, negate(p, first.test));
  } else {
    if (second.if_true == other) return joined(kOr, first.test);
    if (second.if_false == other && !other.is_value) return joined(kAnd, negate(p, first.test));
  }
  if (other.is_value || second.if_true.is_value || second.if_false.is_value) return std::nullopt;
  // A conditional expression as a condition.
  int third_at = second.next;
  if (is_plain_jump(p[third_at].op)) ++third_at;
  if (first.raw != third_at) return std::nullopt;
  const auto third = run_to_condition(p, third_at, base, end);
  if (!third || third->if_true != second.if_true || third->if_false != second.if_false) return std::nullopt;
  Condition made = *third;
  const Node* test = first.falls_true ? first.test : negate(p, first.test);
  made.test = p.arena.of(Kind::IfExp, {test, second.test, third->test});
  made.depth = first.depth;
  return made;
}

// Whether something outside of [first, behind) jumps to `at`.
bool entered_from_outside(const Parse& p, int at, int first, int behind) {
  for (const int source : p.unit.sources(at)) {
    if (source < first || source >= behind) return true;
  }
  return false;
}

struct ValueReader {
  Parse& p;
  const Condition& condition;
  const Stack& base;
  int end, first;

  // Both arms, where they meet at `meet`.
  std::optional<Resolved> arms(int body_end, int meet) {
    Stack body(base);
    if (!run_values(p, condition.next, body_end, body) || body.size() != base.size() + 1) return std::nullopt;
    Stack orelse(base);
    if (!run_values(p, condition.raw, meet, orelse) || orelse.size() != base.size() + 1) return std::nullopt;
    const Node* if_true = expression_of(p, body.back());
    const Node* if_false = if_true != nullptr ? expression_of(p, orelse.back()) : nullptr;
    if (if_false == nullptr) return std::nullopt;
    const Node* test = condition.falls_true ? condition.test : negate(p, condition.test);
    return value_at(p.arena.of(Kind::IfExp, {test, if_true, if_false}), meet);
  }

  // `and`, `or`: the value is what was tested, or what follows.
  std::optional<Resolved> or_pop(int meet) {
    if (p.unit.resolve(meet) == p.unit.resolve(end) && meet > end) meet = end;
    Stack stack(base);
    if (!run_values(p, condition.next, meet, stack)) return std::nullopt;
    if (stack.size() != base.size() + 1) return nothing(p, "a value of another depth", first);
    const Node* right = expression_of(p, stack.back());
    if (right == nullptr) return std::nullopt;
    return value_at(join(p, condition.if_true.is_value ? kOr : kAnd, condition.test, right), meet);
  }

  // Both arms end with copies of one end of the function: they meet where these begin.
  std::optional<Resolved> before_copied_end() {
    const int orelse = condition.raw;
    for (int length = kLongestCopiedEnd; length > 0; --length) {
      const int tail = orelse - length;
      if (tail <= condition.next) continue;
      const auto same = [&](int at) {
        for (int k = 0; k < length; ++k) {
          if (p[tail + k].op != p[at + k].op || p[tail + k].arg != p[at + k].arg) return false;
        }
        return true;
      };
      const int last = std::min(p.size() - length + 1, orelse + kFarthestCopiedEnd);
      for (int meet = orelse + 1; meet < last; ++meet) {
        if (!same(meet)) continue;
        if (auto found = arms(tail, meet)) return found;
      }
    }
    return std::nullopt;
  }

  // The value that the condition chooses; nothing: it is that of a statement. `wrong`: it is none at all.
  std::optional<Resolved> read(bool& wrong) {
    if (entered_from_outside(p, condition.next, first, condition.next)) return std::nullopt;
    if (condition.if_true.is_value || condition.if_false.is_value) {
      auto found = or_pop(condition.if_true.is_value ? condition.if_true.at : condition.if_false.at);
      wrong = !found;
      return found;
    }
    const int orelse = condition.raw, body = condition.next;
    if (orelse <= body || orelse > p.size() || entered_from_outside(p, orelse, first, body)) return std::nullopt;
    const Ins& last = p[orelse - 1];
    if (base.size() <= p.base && leaves(last.op)) return std::nullopt;
    if (last.op == Opcode::JUMP_FORWARD) {
      const int meet = last.target;
      auto found = meet > orelse ? arms(orelse - 1, meet) : std::nullopt;
      if (!found && end < meet && p.unit.resolve(meet) == p.unit.resolve(end) && end > orelse) {
        found = arms(orelse - 1, end);
      }
      return found;
    }
    return leaves(last.op) ? before_copied_end() : std::nullopt;
  }
};

// The condition with all that it can be joined with, or the value that these choose.
std::optional<Resolved> grown(Parse& p, int at, Condition condition, const Stack& base, int end) {
  while (condition.next < p.size() && p.unit.cover(condition.next) == p.unit.cover(at)) {
    const auto second = run_to_condition(p, condition.next, base, end);
    if (!second || entered_from_outside(p, condition.next, at, condition.next)) break;
    const auto both = combine(p, condition, *second, base, end);
    if (!both) break;
    // `if a: while b` is no `while a and b`, whose whole test would be repeated.
    if (p.unit.tests_at_end() && is_repeated(p, condition.next, *second, base, end) &&
        !is_repeated(p, p.statement, *both, base, end)) {
      break;
    }
    condition = *both;
  }
  bool wrong = false;
  auto value = ValueReader{p, condition, base, end, at}.read(wrong);
  if (value || wrong) return value;
  Resolved result;
  result.condition = condition;
  return result;
}

}  // namespace

const Node* negate(Parse& p, const Node* test) {
  if (test->kind == Kind::Compare && test->ops.size() == 1) {
    const auto op = static_cast<Comparison>(test->ops[0]);
    if (opposite(op) != op) {
      std::uint8_t flags = test->flags & kFree;
      if (flags == 0 && (test->flags & kTurned) == 0) flags = kTurned;
      return p.arena.compare(test->kids[0], opposite(op), test->kids[1], flags);
    }
  }
  if (test->kind == Kind::UnaryOp && test->op == static_cast<int>(Unary::Not)) return test->kids[0];
  const Node* whole = p.arena.of(Kind::UnaryOp, {test}, static_cast<int>(Unary::Not));
  if (test->kind != Kind::BoolOp || !p.step_allowed()) return whole;
  std::vector<const Node*> kids;
  for (const Node* kid : test->kids) kids.push_back(negate(p, kid));
  const Node* parts = p.arena.of(Kind::BoolOp, p.arena.list(std::move(kids)), test->op == kOr ? kAnd : kOr);
  return distance(whole) < distance(parts) ? whole : parts;
}

bool is_chain(const Parse& p, int at) {
  return p.is(at, Opcode::SWAP) && p[at].arg == 2 && p.is(at + 1, Opcode::COPY) && p[at + 1].arg == 2 &&
         compares(p[at + 2].op) && is_condition(p[at + 3].op);
}

std::optional<Resolved> resolve(Parse& p, int at, Stack& stack, int end) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed() || !p.step_allowed()) return nothing(p, "conditions are nested too deeply", at);
  const std::size_t depth = stack.size();
  const Node* top = pop(p, stack);
  if (top == nullptr) return std::nullopt;
  const bool chain = p.is(at, Opcode::SWAP);
  const Node* left = chain ? pop(p, stack) : nullptr;
  if (chain && left == nullptr) return std::nullopt;
  const int statement = p.unit.tests_at_end() ? p.statement : 0;  // see grown
  const MemoKey key{at, depth, end, static_cast<int>(p.base), statement, top, left};
  if (const auto known = p.memo.find(key); known != p.memo.end()) return known->second;
  std::optional<Resolved> found;
  if (chain) {
    found = ChainReader{p, end, {}, {}}.read(at, stack, left, top);
    if (found && !found->is_value) found = grown(p, at, Condition(found->condition), stack, end);
  } else {
    found = grown(p, at, single(p, at, top, stack.size()), stack, end);
  }
  p.memo.emplace(key, found);
  return found;
}

bool run_values(Parse& p, int at, int end, Stack& stack) {
  while (at < end) {
    const Opcode op = p[at].op;
    if (is_condition(op) || is_chain(p, at)) {
      const auto inner = resolve(p, at, stack, end);
      if (!inner || !inner->is_value) return p.fail("a condition instead of a value", at);
      stack.push_back(Value::of(inner->value, at));
      at = inner->next;
      continue;
    }
    if (ends(op) || op == Opcode::FOR_ITER) return p.fail("a statement instead of a value", at);
    at = step(p, at, stack, nullptr);
    if (at < 0) return false;
  }
  return at == end || p.fail("a value that ends elsewhere", at);
}

std::optional<Condition> run_to_condition(Parse& p, int at, const Stack& stack, int end) {
  const std::size_t depth = stack.size();
  Stack work(stack);
  while (at < p.size()) {
    const Opcode op = p[at].op;
    if (is_condition(op) || is_chain(p, at)) {
      const auto inner = resolve(p, at, work, end);
      if (!inner) return std::nullopt;
      if (!inner->is_value) {
        if (inner->condition.depth == depth) return inner->condition;
        p.fail("a condition at another depth", at);
        return std::nullopt;
      }
      work.push_back(Value::of(inner->value, at));
      at = inner->next;
      continue;
    }
    if (ends(op) || op == Opcode::FOR_ITER) break;
    at = step(p, at, work, nullptr);
    if (at < 0) return std::nullopt;
    if (work.size() < depth) break;
  }
  p.fail("no condition", at);
  return std::nullopt;
}

}  // namespace pellucid::decompile
