// Loops: `while`, whose test stands at its beginning and again at its end; `for`; `async for`.
#include <algorithm>

#include "decompile/parse.h"

namespace pellucid::decompile {
namespace {

// One more loop around what is read while it lives.
class InLoop {
 public:
  InLoop(Parse& p, Loop loop) : p_(p) { p_.loops.push_back(loop); }
  ~InLoop() { p_.loops.pop_back(); }
  InLoop(const InLoop&) = delete;
  InLoop& operator=(const InLoop&) = delete;
  const Loop& loop() const { return p_.loops.back(); }

 private:
  Parse& p_;
};

// The instructions of a test, and the same once more: jumps may lead elsewhere.
bool same_test(const Parse& p, int first, int second, int count) {
  for (int k = 0; k < count; ++k) {
    const Ins &a = p[first + k], &b = p[second + k];
    if (is_condition(a.op) || is_condition(b.op)) {
      if (!is_condition(a.op) || !is_condition(b.op)) return false;
    } else if (!(is_plain_jump(a.op) && is_plain_jump(b.op)) && (a.op != b.op || a.arg != b.arg)) {
      return false;
    }
  }
  return true;
}

// The `else` of a loop, which stands between its exit and where its `break` leads. Gives the index behind the loop.
int loop_else(Parse& p, Stmt* made, const Loop& loop, const Region& region, const Stack& stack, Body& out) {
  const int exit = loop.exit;
  if (loop.leave >= 0 && loop.leave != exit && p.unit.resolve(loop.leave) != p.unit.resolve(exit)) {
    int behind = loop.leave;
    if (behind > region.end) {
      if (p.unit.resolve(behind) != p.unit.resolve(region.follow))
        return p.fail("a break to somewhere else", exit), kWrong;
      behind = region.end;
    }
    if (behind < exit) return p.fail("a break to before the end of its loop", exit), kWrong;
    if (!block(p, {exit, behind, behind < region.end ? behind : region.follow}, stack, made->orelse)) return kWrong;
    out.push_back(made);
    return behind;
  }
  out.push_back(made);
  return exit;
}

Body with_continue(Parse& p, Body body) {
  using Kind = Stmt::Kind;
  Stmt* last = body.empty() ? nullptr : body.back();
  if (last != nullptr && last->kind == Kind::If && !last->orelse.empty()) {
    Stmt* made = p.arena.statement(Kind::If, last->first);
    made->body = with_continue(p, last->body);
    made->orelse = with_continue(p, last->orelse);
    body.back() = made;
    return body;
  }
  const bool leaves = last != nullptr && (last->kind == Kind::Return || last->kind == Kind::Raise ||
                                          last->kind == Kind::Break || last->kind == Kind::Continue);
  if (!leaves) body.push_back(p.arena.statement(Kind::Continue));
  return body;
}

bool jumps_back_from(const Parse& p, int at, int begin, int end) {
  const auto& sources = p.unit.sources(at);
  return std::any_of(sources.begin(), sources.end(), [&](int source) {
    return begin <= source && source < end && p.is(source, Opcode::JUMP_BACKWARD);
  });
}

// `while test`, whose test is repeated at the end.
int repeated_test(Parse& p, int at, const Region& region, const Stack& stack, Body& out) {
  if (!p.unit.tests_at_end() || p.opened_tests.contains(at) || ends(p[at].op)) return -1;
  const auto test = run_to_condition(p, at, stack, region.end);
  if (!test) return -1;
  std::vector<int> bottoms;
  for (const int source : p.unit.sources(test->next)) {
    if (source >= test->next && source < region.end && is_backward_condition(p[source].op)) bottoms.push_back(source);
  }
  std::sort(bottoms.rbegin(), bottoms.rend());
  for (const int bottom : bottoms) {
    const auto [second, exit] = repetition(p, at, *test, bottom, stack, region.end);
    if (second < 0) continue;
    // A jump back from behind this loop is of a `while True` that begins with it.
    if (!p.opened_loops.contains(at) && jumps_back_from(p, at, bottom + 1, region.end)) return -1;
    p.opened_loops.insert(at);
    p.opened_tests.insert(at);
    Stmt* made = p.arena.statement(Stmt::Kind::While, test->falls_true ? test->test : negate(p, test->test));
    Loop loop{at, exit, true};
    {
      const InLoop inside(p, loop);
      Body body;
      if (!block(p, {test->next, second, second}, stack, body)) return kWrong;
      made->body = or_pass(p, std::move(body));
      loop = inside.loop();
    }
    return loop_else(p, made, loop, region, stack, out);
  }
  return -1;
}

}  // namespace

Repetition repetition(Parse& p, int at, const Condition& test, int bottom, const Stack& stack, int end) {
  const auto exit_of = [&](int begin) {
    const auto again = run_to_condition(p, begin, stack, end);
    return again && again->jump == bottom ? again->next : bottom + 1;
  };
  const int length = test.jump - at, begin = bottom - length;
  if (begin >= test.next && same_test(p, at, begin, length + 1)) return {begin, exit_of(begin)};
  // The parts of a chained comparison stand in another order when it is true at the end.
  for (int other = bottom - 1; other >= test.next; --other) {
    if (p[other].op != p[at].op || p[other].arg != p[at].arg) continue;
    const auto again = run_to_condition(p, other, stack, end);
    if (again && again->jump == bottom && again->test == test.test) return {other, again->next};
  }
  return {};
}

bool is_repeated(Parse& p, int at, const Condition& test, const Stack& stack, int end) {
  for (const int source : p.unit.sources(test.next)) {
    if (source >= test.next && source < end && is_backward_condition(p[source].op) &&
        repetition(p, at, test, source, stack, end).begin >= 0) {
      return true;
    }
  }
  return false;
}

bool loop_comes_first(Parse& p, int at, int end, std::size_t depth) {
  int outermost = -1;
  for (const int handler : p.unit.handlers()) {
    if (p.unit.start_of(handler) == at && !p.opened_handlers.contains(handler) && at < handler && handler < end &&
        p.is(handler, Opcode::PUSH_EXC_INFO) && !p.is(handler + 1, Opcode::WITH_EXCEPT_START) &&
        p.unit.depth_of(handler) == static_cast<int>(depth)) {
      outermost = std::max(outermost, handler);
    }
  }
  if (outermost < 0) return true;
  const auto& sources = p.unit.sources(at);
  return std::any_of(sources.begin(), sources.end(), [&](int source) { return outermost < source && source < end; });
}

int open_loop(Parse& p, int at, const Region& region, Stack& stack, Body& out) {
  if (p.is(at, Opcode::FOR_ITER) || p.is(at, Opcode::GET_ANEXT)) return -1;
  if (const int next = repeated_test(p, at, region, stack, out); next != -1) return next;
  if (p.opened_loops.contains(at)) return -1;
  int last = -1;
  for (const int source : p.unit.sources(at)) {
    if (source >= at && source < region.end && !p.is(source, Opcode::JUMP_BACKWARD_NO_INTERRUPT)) {
      last = std::max(last, source);
    }
  }
  if (last < 0) return -1;
  p.opened_loops.insert(at);
  const bool by_condition = is_condition(p[last].op);
  int exit = last + 1;
  if (!by_condition) {  // the jump back may stand in a statement with handlers that ends behind it
    for (const int handler : p.unit.handlers()) {
      const int cleanup = p.unit.cover(handler), start = p.unit.start_of(handler);
      const bool inside = handler <= last ? start >= at : at < start && start <= last;
      if (inside && p.is(handler, Opcode::PUSH_EXC_INFO) && p.is(cleanup, Opcode::COPY) && cleanup + 3 <= region.end) {
        exit = std::max(exit, cleanup + 3);
      }
    }
  }
  Body body;
  Loop loop{at, exit, true};
  {
    const InLoop inside(p, loop);
    Region inner{at, exit > last + 1 ? exit : last, at};
    inner.closed = inner.end > last;
    if (by_condition) inner = {at, last + 1, last + 1, true};
    if (!block(p, inner, stack, body)) return kWrong;
    if (by_condition && p.falls) body.push_back(p.arena.statement(Stmt::Kind::Break));
  }
  Stmt* made = p.arena.statement(Stmt::Kind::While);  // without a test: True
  const Stmt* only = body.size() == 1 ? body[0] : nullptr;
  if (!p.shared.options.while_true && only != nullptr && only->kind == Stmt::Kind::If && only->orelse.size() == 1 &&
      only->orelse[0]->kind == Stmt::Kind::Break) {
    made->first = only->first;
    body = with_continue(p, only->body);
  }
  made->body = or_pass(p, std::move(body));
  out.push_back(made);
  return exit;
}

bool block_with_target(Parse& p, const Region& region, Stack stack, Sink& sink, Body& out) {
  const std::size_t height = stack.size(), base = p.base;
  Stack work(stack);
  work.push_back(Value::marker(Value::Tag::Slot, &sink));
  work.back().number = -1;
  p.base = height;
  Body stored;
  int at = region.begin;
  while (sink.target == nullptr && at >= 0) {
    if (at >= p.size()) {
      at = -1;
    } else {
      at = step(p, at, work, &stored);
      if (work.size() < height) at = -1;
    }
  }
  p.base = base;
  if (at < 0 || work.size() != height || !stored.empty()) return p.fail("a target of another form", region.begin);
  Region rest = region;
  rest.begin = at;
  return block(p, rest, std::move(stack), out);
}

int for_statement(Parse& p, int at, const Node* iterable, const Region& region, Stack& stack, Body& out) {
  const int exit = p[at].target;
  if (exit <= at) return p.fail("a for that leads back", at), kWrong;
  const bool jumps_back = p.is(exit - 1, Opcode::JUMP_BACKWARD) && p[exit - 1].target == at;
  Stmt* made = p.arena.statement(Stmt::Kind::For, nullptr, iterable);
  Loop loop{at, exit};
  Sink sink;
  {
    const InLoop inside(p, loop);
    Stack inner(stack);
    inner.push_back(Value::marker(Value::Tag::Iterator));
    Body body;
    if (!block_with_target(p, {at + 1, jumps_back ? exit - 1 : exit, at}, std::move(inner), sink, body)) return kWrong;
    made->body = or_pass(p, std::move(body));
    loop = inside.loop();
  }
  made->first = sink.target;
  return loop_else(p, made, loop, region, stack, out);
}

int async_for_statement(Parse& p, int at, const Node* iterable, const Region& region, Stack& stack, Body& out) {
  const int begin = behind_await(p, at + 1), handler = p.unit.cover(at);
  if (begin < 0 || handler < 0 || !p.is(handler, Opcode::END_ASYNC_FOR))
    return p.fail("an async for of another form", at), kWrong;
  const bool jumps_back = p.is(handler - 1, Opcode::JUMP_BACKWARD) && p[handler - 1].target == at;
  Stmt* made = p.arena.statement(Stmt::Kind::For, nullptr, iterable);
  made->is_async = true;
  Loop loop{at, handler + 1};
  p.opened_handlers.insert(handler);
  Sink sink;
  {
    const InLoop inside(p, loop);
    Stack inner(stack);
    inner.push_back(Value::marker(Value::Tag::Iterator));
    Body body;
    if (!block_with_target(p, {begin, jumps_back ? handler - 1 : handler, at}, std::move(inner), sink, body))
      return kWrong;
    made->body = or_pass(p, std::move(body));
    loop = inside.loop();
  }
  made->first = sink.target;
  return loop_else(p, made, loop, region, stack, out);
}

}  // namespace pellucid::decompile
