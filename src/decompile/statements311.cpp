// Statements: a region of instructions, read from its beginning to its end.
#include <algorithm>

#include "decompile/parse.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

constexpr int kLongestEnd = 4;  // instructions of an end that the compiler copies

// Reads one region. What it changes of the parse's state is put back when it is done.
class BlockReader {
 public:
  BlockReader(Parse& p, const Region& region, Stack stack, Body& out)
      : p_(p),
        region_(region),
        stack_(std::move(stack)),
        out_(out),
        height_(stack_.size()),
        base_(p.base),
        active_(p.active) {
    p_.base = height_;
    p_.unwinding = Unwinding::No;
    waiting_.swap(p_.waiting);
  }
  ~BlockReader() {
    p_.base = base_;
    p_.active = active_;
    p_.waiting.swap(waiting_);
    p_.unwinding = Unwinding::No;
  }
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  bool read() {
    at_ = region_.begin;
    begun_.assign(stack_.begin(), stack_.end());
    while (at_ < region_.end || goes_on()) {
      if (!p_.step_allowed() || !statement()) return false;
    }
    p_.end = at_;
    if (falls_ && p_.unwinding == Unwinding::Iterator && at_ >= region_.end) {
      emit(Stmt::Kind::Break);
      falls_ = false;
    }
    if (!p_.waiting.empty()) return p_.fail("stores of one assignment that do not end", at_);
    if (falls_ && stack_.size() > height_) return p_.fail("values are left on the stack", at_);
    p_.falls = falls_;
    return true;
  }

 private:
  bool goes_on() const {  // behind the end of the text, while something waits to be finished
    return at_ < region_.soft_end && (stack_.size() > height_ || p_.unwinding != Unwinding::No);
  }
  void emit(Stmt::Kind kind) { out_.push_back(p_.arena.statement(kind)); }
  // Behind what ends the flow of control.
  void start_anew() {
    stack_ = begun_;
    p_.unwinding = Unwinding::No;
    p_.active = active_;
  }
  // Takes what a template answered; false: it is wrong. `taken`: it was one.
  bool take(int next, bool& taken) {
    if (next == kWrong) return false;
    taken = next >= 0;
    if (taken) at_ = next;
    return true;
  }
  bool go_on_at(int next) {
    at_ = next;
    return next >= 0;
  }

  bool statement() {
    if (stack_.size() == height_ && p_.unwinding == Unwinding::No && p_.waiting.empty()) {
      falls_ = true;
      p_.statement = at_;
      bool taken = false;
      if (!opens(taken)) return false;
      if (taken) return true;
    }
    if (!leave_finally()) return false;
    if (p_.unwinding != Unwinding::No && calls_exit()) return call_exit();
    if (is_copied_end()) return copied_end();
    if (returns_as_what_follows()) {
      at_ += 2;
      start_anew();
      return true;
    }
    const Ins& ins = p_[at_];
    if (is_condition(ins.op) || is_chain(p_, at_)) return condition();
    if (is_plain_jump(ins.op)) return jump();
    using enum Opcode;
    switch (ins.op) {
      case RETURN_VALUE:
        return return_value();
      case RAISE_VARARGS:
        return raise();
      case RERAISE:
        if (ins.arg != 0 || stack_.empty() || !stack_.back().is(Tag::Exception))
          return p_.fail("an exception that goes on", at_);
        return left();
      case FOR_ITER: {
        const Node* iterable = pop(p_, stack_);
        return iterable != nullptr && go_on_at(for_statement(p_, at_, iterable, region_, stack_, out_));
      }
      case GET_ANEXT: {
        if (stack_.empty()) return p_.fail("an async for over nothing", at_);
        const bool marked = stack_.back().is(Tag::AsyncIterator);
        const Node* iterable = marked ? stack_.back().node : expression_of(p_, stack_.back());
        stack_.pop_back();
        return iterable != nullptr && go_on_at(async_for_statement(p_, at_, iterable, region_, stack_, out_));
      }
      case BEFORE_WITH:
      case BEFORE_ASYNC_WITH:
        return go_on_at(with_statement(p_, at_, region_, stack_, out_));
      default:
        break;
    }
    if (stack_.size() == height_ + 1 && stack_.back().is(Tag::Expr) && begins_match(p_, at_)) {
      return go_on_at(match_statement(p_, at_, region_, stack_, out_));
    }
    return go_on_at(step(p_, at_, stack_, &out_));
  }

  bool opens(bool& taken) {
    const bool loop_first = loop_comes_first(p_, at_, region_.end, stack_.size());
    if (loop_first && !take(open_loop(p_, at_, region_, stack_, out_), taken)) return false;
    if (!taken && !take(open_try(p_, at_, region_, stack_, out_), taken)) return false;
    return taken || loop_first || take(open_loop(p_, at_, region_, stack_, out_), taken);
  }

  // The copies of `finally` on the way out.
  bool leave_finally() {
    while (!p_.active.empty() && !p_.unit.inside(at_, p_.active.back().handler) && stack_.size() <= height_ + 1) {
      const Finally copied = p_.active.back();
      p_.active.pop_back();
      if (!go_on_at(skip_copy(p_, at_, copied))) return false;
      p_.unwinding = Unwinding::Yes;
    }
    return true;
  }

  // A copy of the `return None` that follows anyway.
  bool returns_as_what_follows() const {
    if (!p_.shared.options.merge_exits || stack_.size() > height_ || p_.unwinding != Unwinding::No) return false;
    if (!p_.unit.returns_none(at_) || at_ + 2 > region_.end || !p_.waiting.empty()) return false;
    return region_.follow >= p_.size() || p_.unit.returns_none(p_.unit.resolve(region_.follow));
  }
  bool calls_exit() const {
    for (int k = 0; k < 3; ++k) {
      if (!p_.is(at_ + k, Opcode::LOAD_CONST) || p_.constant_at(p_[at_ + k].arg) != Py_None) return false;
    }
    return p_.is(at_ + 3, Opcode::CALL);
  }
  bool call_exit() {
    for (int k = 0; k < 4; ++k) {
      if (!go_on_at(step(p_, at_, stack_, &out_))) return false;
    }
    return true;
  }
  // Behind an unwinding there is a copy of a short end, not a statement of its own.
  bool is_copied_end() const {
    const Opcode op = p_[at_].op;
    if (p_.unwinding == Unwinding::No || ends(op) || stack_.size() > height_) return false;
    if (op == Opcode::POP_TOP || op == Opcode::POP_EXCEPT || op == Opcode::SWAP || op == Opcode::GET_AWAITABLE)
      return false;
    if (op == Opcode::LOAD_CONST && p_.is(at_ + 1, Opcode::RETURN_VALUE)) return false;
    return true;
  }
  bool same(int at, int begin, int end) const {
    for (int k = begin; k < end; ++k) {
      if (p_[at + k - begin].op != p_[k].op || p_[at + k - begin].arg != p_[k].arg) return false;
    }
    return true;
  }
  bool copied_end() {
    int last = at_;
    while (last < p_.size() && !ends(p_[last].op)) ++last;
    if (last - at_ > kLongestEnd || last >= p_.size()) return p_.fail("a statement behind an unwinding", at_);
    const bool leaves_loop = p_.unwinding == Unwinding::Iterator;
    if (leaves_loop || (!p_.loops.empty() && p_.loops.back().is_while && !same(region_.follow, at_, last + 1))) {
      if (p_.loops.empty()) return p_.fail("a break out of no loop", at_);
      Loop& loop = p_.loops.back();
      int target = loop.exit;
      while (target < p_.size() && !same(target, at_, last + 1)) ++target;
      if (target >= p_.size()) return p_.fail("a break to nowhere", at_);
      if (loop.leave < 0) loop.leave = target;
      emit(Stmt::Kind::Break);
    }
    at_ = last + 1;
    falls_ = false;
    start_anew();
    return true;
  }

  bool condition() {
    const auto found = resolve(p_, at_, stack_, region_.end);
    if (!found) return false;
    if (found->is_value) {
      stack_.push_back(Value::of(found->value, at_));
      at_ = found->next;
      return true;
    }
    if (found->condition.depth != height_) return p_.fail("a condition above the stack of its statement", at_);
    return if_statement(found->condition);
  }

  bool jump() {
    const int target = p_[at_].target;
    if (target == at_ + 1 && target < region_.end) {  // what it led over is dead
      ++at_;
      return true;
    }
    if (!go_to(p_, target, region_, out_, falls_)) return false;
    start_anew();
    ++at_;
    return true;
  }
  bool left() {
    falls_ = false;
    start_anew();
    ++at_;
    return true;
  }

  bool return_value() {
    const Node* value = pop(p_, stack_);
    if (value == nullptr) return false;
    if (stack_.size() > height_) return p_.fail("values are left on the stack", at_);
    out_.push_back(p_.arena.statement(Stmt::Kind::Return, is_none(value) && !p_.is_lambda ? nullptr : value));
    return left();
  }

  bool raise() {
    const int count = p_[at_].arg;
    if (count < 0 || count > 2 || static_cast<std::size_t>(count) > stack_.size())
      return p_.fail("a raise of nothing", at_);
    if (count > 0 && stack_[stack_.size() - static_cast<std::size_t>(count)].is(Tag::AssertionError)) {
      Stmt* made = p_.arena.statement(Stmt::Kind::Assert);
      made->second = stack_[stack_.size() - static_cast<std::size_t>(count)].node;
      out_.push_back(made);
      return left();
    }
    std::vector<const Node*> values;
    if (!pop_many(p_, stack_, count, values)) return false;
    Stmt* made = p_.arena.statement(Stmt::Kind::Raise);
    if (count > 0) made->first = values[0];
    if (count > 1) made->second = values[1];
    out_.push_back(made);
    return left();
  }

  bool if_statement(const Condition& condition) {
    const int orelse = condition.raw, body = condition.next, end = region_.end;
    const Node* test = condition.falls_true ? condition.test : negate(p_, condition.test);
    Body if_true, if_false;
    if (body == orelse) {  // if test: pass
      make_if(test, {}, {});
      at_ = body;
      falls_ = true;
      return true;
    }
    if (body < orelse && (orelse < end || (orelse == end && !region_.closed))) {
      // There is an else part when the body jumps over it, to somewhere in this region or to what follows.
      int meet = orelse;
      if (ends(p_[orelse - 1].op) && orelse < end) {
        int farthest = -1;
        if (behind_region(p_, body, orelse, end, region_.follow, farthest)) meet = farthest;
      }
      const int follow = meet < end ? meet : region_.follow;
      if (!block(p_, {body, orelse, follow}, stack_, if_true)) return false;
      if (meet > orelse && !block(p_, {orelse, meet, follow}, stack_, if_false)) return false;
      make_if(test, std::move(if_true), std::move(if_false));
      at_ = meet;
      falls_ = true;
      return true;
    }
    const bool to_head =
        std::any_of(p_.loops.begin(), p_.loops.end(), [&](const Loop& loop) { return loop.head == orelse; });
    if (body >= orelse && !to_head && p_.unit.resolve(orelse) != p_.unit.resolve(region_.follow)) {
      return p_.fail("a condition that leads back", at_);
    }
    // It leads out of the region: the body is the rest of it.
    Region rest{body, end, region_.follow};
    rest.closed = region_.closed;
    if (!block(p_, rest, stack_, if_true)) return false;
    const bool body_falls = p_.falls;
    bool falls = false;
    if (!go_to(p_, orelse, region_, if_false, falls)) return false;
    if (region_.breaks) {
      if (body_falls) if_true.push_back(p_.arena.statement(Stmt::Kind::Break));
      if (if_false.empty() && orelse == region_.follow) if_false.push_back(p_.arena.statement(Stmt::Kind::Break));
    }
    make_if(test, std::move(if_true), std::move(if_false));
    at_ = end;
    falls_ = false;
    return true;
  }

  void make_if(const Node* test, Body if_true, Body if_false) {
    Stmt* only = if_true.size() == 1 ? if_true[0] : nullptr;
    if (only != nullptr && only->kind == Stmt::Kind::Assert && only->first == nullptr && if_false.empty()) {
      only->first = negate(p_, test);
      out_.push_back(only);
      return;
    }
    Stmt* made = p_.arena.statement(Stmt::Kind::If, test);
    made->body = or_pass(p_, std::move(if_true));
    made->orelse = std::move(if_false);
    out_.push_back(made);
  }

  Parse& p_;
  const Region region_;
  Stack stack_, begun_;
  Body& out_;
  const std::size_t height_, base_;
  const std::vector<Finally> active_;
  std::vector<std::pair<const Node*, Value>> waiting_;
  int at_ = 0;
  bool falls_ = true;
};

}  // namespace

bool block(Parse& p, const Region& region, Stack stack, Body& out) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) return p.fail("statements are nested too deeply", region.begin);
  return BlockReader(p, region, std::move(stack), out).read();
}

Body or_pass(Parse& p, Body body) {
  if (body.empty()) body.push_back(p.arena.statement(Stmt::Kind::Pass));
  return body;
}

bool behind_region(Parse& p, int begin, int end, int limit, int follow, int& farthest) {
  bool found = false;
  for (int at = begin; at < end; ++at) {
    const Ins& ins = p[at];
    if (ins.target <= end || ins.op == Opcode::SEND) continue;
    if (ins.target > limit && p.unit.resolve(ins.target) != p.unit.resolve(follow)) continue;
    const int meet = std::min(ins.target, limit);
    farthest = found ? std::max(farthest, meet) : meet;
    found = true;
  }
  return found;
}

bool go_to(Parse& p, int target, const Region& region, Body& out, bool& falls) {
  falls = false;
  const int follow = region.follow, resolved = p.unit.resolve(target);
  if (target == follow) return true;
  const int head = p.loops.empty() ? -1 : p.loops.back().head;
  const bool to_head = !p.loops.empty() && target == head && follow != head;
  if (resolved == p.unit.resolve(follow) && !to_head) return true;
  if (!p.loops.empty()) {
    Loop& loop = p.loops.back();
    if (target == loop.head || resolved == loop.head) {
      out.push_back(p.arena.statement(Stmt::Kind::Continue));
      return true;
    }
    if (loop.leave < 0) loop.leave = target;
    if (p.unit.resolve(loop.leave) == resolved) {
      out.push_back(p.arena.statement(Stmt::Kind::Break));
      return true;
    }
  }
  return p.fail("a jump to somewhere else", target);
}

}  // namespace pellucid::decompile
