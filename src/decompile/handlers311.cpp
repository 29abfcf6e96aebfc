// Statements with handlers: `try`, `with`.
//
// The exception table tells which handler covers what; the handlers that cover each other, and where each begins to,
// give the tree of statements. `finally` has a copy of its text on every way out: the handler's copy is read, and the
// others are skipped where the body is left.
#include <algorithm>

#include "decompile/parse.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

Stack handling(const Stack& stack) {
  Stack inner(stack);
  inner.push_back(Value::marker(Tag::Previous));
  inner.push_back(Value::marker(Tag::Exception));
  return inner;
}

// One value over the stack, in front of the instruction `op`; gives its index, or -1.
int value_before(Parse& p, int at, Opcode op, Stack& stack) {
  const std::size_t depth = stack.size();
  while (!p.is(at, op) || stack.size() != depth + 1) {
    if (at >= p.size()) return p.fail("a handler without a type", at), -1;
    if (is_condition(p[at].op) || is_chain(p, at)) {
      const auto inner = resolve(p, at, stack, p.size());
      if (!inner || !inner->is_value) return p.fail("a handler of another form", at), -1;
      stack.push_back(Value::of(inner->value, at));
      at = inner->next;
      continue;
    }
    if (ends(p[at].op)) return p.fail("a handler without a type", at), -1;
    at = step(p, at, stack, nullptr);
    if (at < 0) return -1;
  }
  return at;
}

// The type of `except T`, from `at` on; gives the index of the jump behind its check, or -1.
int handler_type(Parse& p, int at, Stack stack, const Node*& type) {
  at = value_before(p, at, Opcode::CHECK_EXC_MATCH, stack);
  if (at < 0) return -1;
  if (!p.is(at + 1, Opcode::POP_JUMP_FORWARD_IF_FALSE)) return p.fail("a handler of another form", at), -1;
  type = expression_of(p, stack.back());
  return type != nullptr ? at + 1 : -1;
}

enum class HandlerKind : std::uint8_t { Except, Group, Finally };

HandlerKind kind_of(Parse& p, int handler, const Stack& stack) {
  if (p.is(handler + 1, Opcode::POP_TOP)) return HandlerKind::Except;
  if (p.is(handler + 1, Opcode::COPY) && p.is(handler + 2, Opcode::BUILD_LIST)) return HandlerKind::Group;
  const Node* type = nullptr;
  return handler_type(p, handler + 1, handling(stack), type) >= 0 ? HandlerKind::Except : HandlerKind::Finally;
}

// `name = None; del name; raise` in front of `at`: the end of `except … as name`.
bool ends_named(Parse& p, int at, Name name) {
  if (!p.is(at - 4, Opcode::LOAD_CONST) || !is_store(p[at - 3].op) || !is_delete(p[at - 2].op) ||
      !p.is(at - 1, Opcode::RERAISE)) {
    return false;
  }
  const Node* stored = stored_name(p, at - 3);
  return stored != nullptr && stored->name == name;
}

// The clauses of `except`, from the handler on.
bool except_clauses(Parse& p, int handler, int cleanup, int follow, const Stack& stack, std::vector<Clause>& clauses) {
  int at = handler + 1;
  while (at != cleanup && !p.is(at, Opcode::RERAISE)) {
    Clause clause;
    int next = cleanup, begin = at + 1;
    if (!p.is(at, Opcode::POP_TOP)) {
      const int jump = handler_type(p, at, handling(stack), clause.test);
      if (jump < 0) return false;
      next = p[jump].target;
      begin = jump + 2;
      if (is_store(p[jump + 1].op)) {
        const Node* stored = stored_name(p, jump + 1);
        if (stored == nullptr) return false;
        clause.name = stored->name;
      } else if (!p.is(jump + 1, Opcode::POP_TOP)) {
        return p.fail("a handler that stores elsewhere", jump);
      }
    }
    if (next < begin || next > cleanup) return p.fail("a handler that ends elsewhere", at);
    const int end = clause.name != nullptr && ends_named(p, next, clause.name) ? next - 4 : next;
    Stack inner(stack);
    inner.push_back(Value::marker(Tag::Previous));
    inner.back().name = clause.name;
    if (!block(p, {begin, end, follow}, std::move(inner), clause.body)) return false;
    clause.body = or_pass(p, std::move(clause.body));
    clauses.push_back(std::move(clause));
    at = next;
  }
  return true;
}

// The clauses of `except*`, from the handler on. Each takes its part of the group and leaves the rest; what a body
// raises goes to a list, which is raised at the end.
bool group_clauses(Parse& p, int handler, int cleanup, const Stack& stack, std::vector<Clause>& clauses) {
  using enum Opcode;
  Stack inner(handling(stack));
  inner.push_back(Value::marker(Tag::Exception));
  inner.push_back(Value::marker(Tag::Exception));
  int at = handler + 4;  // behind PUSH_EXC_INFO; COPY 1; BUILD_LIST 0; SWAP 2
  while (!p.is(at, LIST_APPEND)) {
    Clause clause;
    Stack work(inner);
    const int match = value_before(p, at, CHECK_EG_MATCH, work);
    if (match < 0) return false;
    clause.test = expression_of(p, work.back());
    if (clause.test == nullptr || !p.is(match + 1, COPY) || !p.is(match + 2, POP_JUMP_FORWARD_IF_NONE)) {
      return p.fail("an except* of another form", match);
    }
    const int other = p[match + 2].target, begin = match + 4;
    if (is_store(p[match + 3].op)) {
      const Node* stored = stored_name(p, match + 3);
      if (stored == nullptr) return false;
      clause.name = stored->name;
    } else if (!p.is(match + 3, POP_TOP)) {
      return p.fail("an except* that stores elsewhere", match);
    }
    int raised = other - 1;  // where what the body raises is taken: LIST_APPEND 3; POP_TOP; JUMP
    while (raised > begin && is_plain_jump(p[raised].op)) --raised;
    if (other > cleanup) return p.fail("an except* of another form", other);
    const auto resets_name = [&](int from) {  // name = None; del name
      return clause.name != nullptr && p.is(from, LOAD_CONST) && is_store(p[from + 1].op) && is_delete(p[from + 2].op);
    };
    int end = raised + 1;  // of a body that raises nothing
    if (p.is(raised, POP_TOP) && p.is(raised - 1, LIST_APPEND) && p[raised - 1].arg == 3) {
      end = raised - 1;
      if (resets_name(end - 3)) end -= 3;
      if (is_plain_jump(p[end - 1].op)) --end;
    }
    if (resets_name(end - 3)) end -= 3;
    if (end < begin || !block(p, {begin, end, end}, inner, clause.body)) return false;
    clause.body = or_pass(p, std::move(clause.body));
    clauses.push_back(std::move(clause));
    at = other + 1;
  }
  return true;
}

int last_covered(const Parse& p, int begin, int handler) {
  int last = begin;
  for (int at = begin; at < handler; ++at) {
    if (p.unit.inside(at, handler)) last = at;
  }
  return last;
}

int finally_statement(Parse& p, int at, int handler, int cleanup, int follow, const Stack& stack, Body& out) {
  const bool reraises = p.is(cleanup - 1, Opcode::RERAISE) && p[cleanup - 1].arg == 0;
  const int end = reraises ? cleanup - 1 : cleanup;
  Stmt* made = p.arena.statement(Stmt::Kind::Try);
  Body last;
  if (!block(p, {handler + 1, end, end}, handling(stack), last)) return kWrong;
  made->last = or_pass(p, std::move(last));
  const int covered = last_covered(p, at, handler) + 1;
  Region region{at, covered, covered < handler ? covered : follow};
  region.soft_end = handler;
  p.active.push_back({handler, handler + 1, end});
  Body body;
  const bool read = block(p, region, stack, body);
  p.active.pop_back();
  if (!read) return kWrong;
  if (body.size() == 1 && body[0]->kind == Stmt::Kind::Try && body[0]->last.empty()) {  // try … except … finally
    body[0]->last = std::move(made->last);
    out.push_back(body[0]);
    return cleanup + 3;
  }
  made->body = or_pass(p, std::move(body));
  out.push_back(made);
  return cleanup + 3;
}

// The `else` of `except*` stands behind the handlers, up to where these lead. Gives its end.
int group_else_end(Parse& p, int cleanup, const Region& region) {
  const int begin = cleanup + 3, exit = cleanup - 3;  // …; POP_TOP; POP_EXCEPT; JUMP; SWAP; POP_EXCEPT; RERAISE
  int left = exit;
  while (left > 0 && !p.is(left - 1, Opcode::POP_EXCEPT)) --left;
  if (is_plain_jump(p[left].op)) {
    const int target = p[left].target;
    if (target <= region.end) return std::max(target, begin);
    return p.unit.resolve(target) == p.unit.resolve(region.follow) ? std::max(region.end, begin) : begin;
  }
  for (int at = begin; at <= region.end; ++at) {  // a copy of an end of the function
    bool same = true;
    for (int k = left; k < exit && same; ++k) same = p[at + k - left].op == p[k].op && p[at + k - left].arg == p[k].arg;
    if (same && left < exit) return at;
  }
  return begin;
}

int except_statement(Parse& p, int at, int handler, int cleanup, int follow, const Region& outer, const Stack& stack,
                     bool groups, Body& out) {
  const int covered = last_covered(p, at, handler);
  int end = covered + 1;
  for (int k = at; k <= covered; ++k) {
    const int target = p[k].target;
    if (end < target && target < handler && !p.is(k, Opcode::SEND)) end = target;
  }
  Stmt* made = p.arena.statement(Stmt::Kind::Try);
  Region region{at, end, end < handler ? end : follow};
  region.soft_end = handler;
  Body body;
  if (!block(p, region, stack, body)) return kWrong;
  made->body = or_pass(p, std::move(body));
  const int orelse = p.end;
  int behind = cleanup + 3;
  if (groups) behind = group_else_end(p, cleanup, outer);
  if (orelse < handler && !block(p, {orelse, handler, follow}, stack, made->orelse)) return kWrong;
  made->is_star = groups;
  const bool read = groups ? group_clauses(p, handler, cleanup, stack, made->clauses)
                           : except_clauses(p, handler, cleanup, follow, stack, made->clauses);
  if (!read) return kWrong;
  if (behind > cleanup + 3 && !block(p, {cleanup + 3, behind, follow}, stack, made->orelse)) return kWrong;
  out.push_back(made);
  return behind;
}

}  // namespace

int open_try(Parse& p, int at, const Region& region, Stack& stack, Body& out) {
  int handler = -1;
  for (const int candidate : p.unit.handlers()) {
    if (p.unit.start_of(candidate) == at && !p.opened_handlers.contains(candidate) && at < candidate &&
        candidate < region.end && p.is(candidate, Opcode::PUSH_EXC_INFO) &&
        !p.is(candidate + 1, Opcode::WITH_EXCEPT_START) &&
        p.unit.depth_of(candidate) == static_cast<int>(stack.size())) {
      handler = std::max(handler, candidate);
    }
  }
  if (handler < 0) return -1;
  p.opened_handlers.insert(handler);
  const int cleanup = p.unit.cover(handler);
  if (!p.is(cleanup, Opcode::COPY) || !p.is(cleanup + 1, Opcode::POP_EXCEPT) || !p.is(cleanup + 2, Opcode::RERAISE)) {
    return p.fail("a handler without an end", handler), kWrong;
  }
  const int follow = cleanup + 3 < region.end ? cleanup + 3 : region.follow;
  const HandlerKind kind = kind_of(p, handler, stack);
  if (kind == HandlerKind::Finally) return finally_statement(p, at, handler, cleanup, follow, stack, out);
  return except_statement(p, at, handler, cleanup, follow, region, stack, kind == HandlerKind::Group, out);
}

int skip_copy(Parse& p, int at, const Finally& copied) {
  const auto unify = [](Opcode op) { return op == Opcode::JUMP_BACKWARD ? Opcode::JUMP_FORWARD : op; };
  const auto unify_conditions = [&](Opcode op) {
    using enum Opcode;
    switch (op) {
      case POP_JUMP_BACKWARD_IF_FALSE:
        return POP_JUMP_FORWARD_IF_FALSE;
      case POP_JUMP_BACKWARD_IF_TRUE:
        return POP_JUMP_FORWARD_IF_TRUE;
      case POP_JUMP_BACKWARD_IF_NONE:
        return POP_JUMP_FORWARD_IF_NONE;
      case POP_JUMP_BACKWARD_IF_NOT_NONE:
        return POP_JUMP_FORWARD_IF_NOT_NONE;
      default:
        return unify(op);
    }
  };
  const int count = copied.end - copied.begin;
  bool equal = true;
  for (int k = 0; k < count && equal; ++k)
    equal = unify_conditions(p[at + k].op) == unify_conditions(p[copied.begin + k].op);
  if (equal) return at + count;
  // The lengths differ where an end of the function was copied in the place of a jump.
  int k = copied.begin;
  while (k < copied.end) {
    if (at >= p.size()) return p.fail("a copy of finally that does not end", at), -1;
    const Opcode have = unify_conditions(p[at].op), want = unify_conditions(p[k].op);
    if (have == want || (want == Opcode::RERAISE && have == Opcode::JUMP_FORWARD)) {
      ++at;
      ++k;
    } else if (want == Opcode::RERAISE) {
      while (at < p.size() && !ends(p[at].op)) ++at;
      ++at;
      ++k;
    } else {
      return p.fail("a copy of finally that differs", at), -1;
    }
  }
  return at;
}

int with_statement(Parse& p, int at, const Region& region, Stack& stack, Body& out) {
  const bool is_async = p.is(at, Opcode::BEFORE_ASYNC_WITH);
  const Node* context = pop(p, stack);
  if (context == nullptr) return kWrong;
  const int begin = is_async ? behind_await(p, at + 2) : at + 1;
  if (begin < 0) return kWrong;
  int handler = -1;
  for (const int candidate : p.unit.handlers()) {
    if (candidate > begin && p.unit.inside(begin, candidate) && !p.opened_handlers.contains(candidate) &&
        p.is(candidate, Opcode::PUSH_EXC_INFO) && p.is(candidate + 1, Opcode::WITH_EXCEPT_START) &&
        p.unit.start_of(candidate) == begin) {
      handler = std::max(handler, candidate);
    }
  }
  if (handler < 0) return p.fail("a with without a handler", at), kWrong;
  p.opened_handlers.insert(handler);
  const int jump = is_async ? behind_await(p, handler + 3) : handler + 2;
  if (!p.is(jump, Opcode::POP_JUMP_FORWARD_IF_TRUE)) return p.fail("a with of another form", handler), kWrong;
  const int behind = p[jump].target + 4;
  const int follow = behind < region.end ? behind : region.follow;
  Stack inner(stack);
  inner.push_back(Value::marker(Tag::WithExit));
  Stmt* made = p.arena.statement(Stmt::Kind::With, context);
  made->is_async = is_async;
  Body body;
  if (p.is(begin, Opcode::POP_TOP)) {
    if (!block(p, {begin + 1, handler, follow}, std::move(inner), body)) return kWrong;
  } else {
    Sink sink;
    if (!block_with_target(p, {begin, handler, follow}, std::move(inner), sink, body)) return kWrong;
    made->second = sink.target;
  }
  made->body = or_pass(p, std::move(body));
  out.push_back(made);
  return behind;
}

}  // namespace pellucid::decompile
