// `match`: the way of success through a pattern is run over slots. What each is compared with, unpacked into, stored in
// or dropped says what the pattern was.
#include <algorithm>
#include <map>

#include "decompile/parse.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

// A pattern while it is read.
struct Pattern {
  enum class Is : std::uint8_t { Anything, Literal, Sequence, Mapping, Class, Values };
  const Node* literal = nullptr;
  Name name = nullptr;
  Pattern* copy = nullptr;  // COPY made it: what this is is what the copy is, and `as` its name
  const Node* type = nullptr;
  Pattern* rest = nullptr;      // `**rest`
  Pattern* owner = nullptr;     // Values: of whom
  std::vector<Pattern*> parts;  // of sequences, mappings, classes
  std::vector<const Node*> keys;
  std::vector<Name> attributes;         // of classes, by name
  std::map<int, Pattern*> front, back;  // parts by their index, where a `*_` saves the unpacking
  Stack snapshot;                       // where alternatives begin
  std::vector<Pattern*> alternatives, peers;
  std::vector<Stack> ends;  // of the alternatives
  int positional = 0;
  int length = -1;  // of a sequence that is not unpacked
  Is is = Is::Anything;
  bool has_parts = false;
  bool star = false;
  bool at_least = false;
  bool has_snapshot = false;
};

Pattern& pattern(const Value& value) { return *static_cast<Pattern*>(value.owner); }

// How high the stack is behind what drops it when an alternative fails, from behind its end to `next`; 0: unknown. The
// heights are those of failing tests, by where they lead.
std::size_t height_after_failure(const std::map<int, std::size_t>& heights, int begin, int next) {
  for (int at = begin; at <= next; ++at) {
    const auto found = heights.find(at);
    const auto dropped = static_cast<std::size_t>(next - at);
    if (found != heights.end() && found->second > dropped) return found->second - dropped;
  }
  return 0;
}

class PatternReader {
 public:
  PatternReader(Parse& p, bool copied) : p_(p), keep_(copied ? 1 : 0) {
    root_ = p.arena.own(Pattern());
    if (copied) stack_.push_back(Value::marker(Tag::Subject));
    stack_.push_back(Value::marker(Tag::Pattern, root_));
  }

  // Reads from `at` on; gives the index where the body or the guard begins, or -1.
  int read(int at) {
    while (!done()) {
      if (at >= p_.size() || !p_.step_allowed()) return p_.fail("a pattern that does not end", at), -1;
      at = instruction(at);
      if (at < 0) return -1;
    }
    return at;
  }
  const std::vector<int>& failures() const { return failures_; }
  const Node* root() { return node_of(*root_, 0); }

 private:
  bool done() const {
    return stack_.size() == keep_ &&
           std::none_of(stack_.begin(), stack_.end(), [](const Value& value) { return value.is(Tag::Pattern); });
  }
  int wrong(const char* why, int at) { return p_.fail(why, at), -1; }
  Pattern* fresh() { return p_.arena.own(Pattern()); }
  Value test() { return Value::marker(Tag::Test); }
  bool has(std::size_t count) const { return stack_.size() >= count; }
  Value take() {
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  bool top_is(Tag tag) const { return !stack_.empty() && stack_.back().is(tag); }

  int instruction(int at) {
    const Ins& ins = p_[at];
    if (is_condition(ins.op)) return condition(at);
    using enum Opcode;
    switch (ins.op) {
      case JUMP_FORWARD:
        return alternative(at);
      case COPY:
        return copy(at);
      case SWAP:
        if (ins.arg <= 0 || !has(static_cast<std::size_t>(ins.arg))) return wrong("the stack is empty", at);
        std::swap(stack_.back(), stack_[stack_.size() - static_cast<std::size_t>(ins.arg)]);
        return at + 1;
      case POP_TOP:
        if (!has(1)) return wrong("the stack is empty", at);
        stack_.pop_back();
        return at + 1;
      case STORE_FAST:
      case STORE_NAME:
      case STORE_GLOBAL:
      case STORE_DEREF: {
        if (!top_is(Tag::Pattern)) return wrong("a pattern that stores something else", at);
        const Node* name = stored_name(p_, at);
        if (name == nullptr) return -1;
        set_name(pattern(take()), name->name, 0);
        return at + 1;
      }
      case MATCH_SEQUENCE:
      case MATCH_MAPPING:
        if (!top_is(Tag::Pattern)) return wrong("a pattern of nothing", at);
        pattern(stack_.back()).is = ins.op == MATCH_SEQUENCE ? Pattern::Is::Sequence : Pattern::Is::Mapping;
        stack_.push_back(test());
        return at + 1;
      case GET_LEN:
        if (!top_is(Tag::Pattern)) return wrong("the length of nothing", at);
        stack_.push_back(Value::marker(Tag::Length, stack_.back().owner));
        return at + 1;
      case COMPARE_OP:
      case IS_OP:
        return compare(at);
      case UNPACK_SEQUENCE:
      case UNPACK_EX:
        return unpack(at);
      case MATCH_KEYS:
        return match_keys(at);
      case MATCH_CLASS:
        return match_class(at);
      case BUILD_TUPLE: {
        std::vector<const Node*> items;
        if (!pop_many(p_, stack_, ins.arg, items)) return -1;
        stack_.push_back(Value::of(p_.arena.of(Kind::Tuple, p_.arena.list(std::move(items))), at));
        return at + 1;
      }
      case BUILD_MAP:
        return rest_of_mapping(at);
      case BINARY_SUBSCR:
        return item(at);
      case BINARY_OP:
        if (has(2) && stack_[stack_.size() - 2].is(Tag::Length)) return index_from_end(at);
        return step(p_, at, stack_, nullptr);
      case LOAD_CONST:
      case LOAD_FAST:
      case LOAD_GLOBAL:
      case LOAD_DEREF:
      case LOAD_NAME:
      case LOAD_CLASSDEREF:
      case LOAD_ATTR:
      case UNARY_NEGATIVE:
        return step(p_, at, stack_, nullptr);
      default:
        return wrong("a pattern of another form", at);
    }
  }

  void set_name(Pattern& of, Name name, int depth) {
    of.name = name;
    if (depth > 50) return;
    for (Pattern* peer : of.peers) set_name(*peer, name, depth + 1);
  }

  int condition(int at) {
    if (!has(1)) return wrong("the stack is empty", at);
    const Ins& ins = p_[at];
    const Value value = take();
    if (!value.is(Tag::Test)) {
      if (!asks_for_none(ins.op) || !value.is(Tag::Pattern)) return wrong("a pattern that tests something else", at);
      Pattern& tested = pattern(value);
      if (tested.is != Pattern::Is::Values) {
        if (!asks_for_not_none(ins.op)) return wrong("a pattern that tests something else", at);
        tested.is = Pattern::Is::Literal;
        tested.literal = singleton(Py_None);
      }
    }
    if (ins.target > at) {
      failures_.push_back(ins.target);
      heights_[ins.target] = stack_.size();
    }
    return at + 1;
  }

  const Node* singleton(PyObject* object) {
    Node node;
    node.kind = Kind::MatchSingleton;
    node.object = object;
    return p_.arena.make(std::move(node));
  }

  // The end of an alternative: the next one begins with a copy of what this one began with. What an alternative binds
  // stays on the stack and may be such a copy itself (`0 as z`); the height that a failure leaves tells them apart.
  int alternative(int at) {
    const int target = p_[at].target;
    int next = at + 1;
    while (p_.is(next, Opcode::POP_TOP)) ++next;
    const bool more = p_.is(next, Opcode::COPY) && p_[next].arg == 1 && next < target;
    const std::size_t height =
        height_after_failure(heights_, at + 1, more ? next : next - 1);  // the last one drops the copied too
    Pattern *owner = nullptr, *innermost = nullptr;
    for (auto value = stack_.rbegin(); value != stack_.rend(); ++value) {
      if (!value->is(Tag::Pattern)) continue;
      Pattern& candidate = pattern(*value);
      if (candidate.copy == nullptr || !candidate.has_snapshot) continue;
      if (innermost == nullptr) innermost = &candidate;
      if (owner == nullptr && candidate.snapshot.size() == height) owner = &candidate;
    }
    if (owner == nullptr) owner = innermost;
    if (owner == nullptr) return wrong("a pattern of another form", at);
    owner->alternatives.push_back(owner->copy);
    owner->ends.push_back(stack_);
    owner->copy = nullptr;
    if (more) {
      stack_ = owner->snapshot;
      return next;
    }
    for (int k = at + 1; k < target; ++k) {
      if (p_[k].target > target) failures_.push_back(p_[k].target);
    }
    for (std::size_t k = 0; k + 1 < owner->ends.size(); ++k) {
      const Stack& other = owner->ends[k];
      if (other.size() != stack_.size()) return wrong("alternatives that bind different names", at);
      for (std::size_t slot = 0; slot < stack_.size(); ++slot) {
        if (stack_[slot].is(Tag::Pattern) && other[slot].is(Tag::Pattern) && other[slot].owner != stack_[slot].owner) {
          pattern(stack_[slot]).peers.push_back(&pattern(other[slot]));
        }
      }
    }
    return target > at ? target : wrong("a pattern that leads back", at);
  }

  int copy(int at) {
    const int depth = p_[at].arg;
    if (depth <= 0 || !has(static_cast<std::size_t>(depth))) return wrong("the stack is empty", at);
    const Value value = stack_[stack_.size() - static_cast<std::size_t>(depth)];
    if (depth == 1 && value.is(Tag::Pattern) && pattern(value).is != Pattern::Is::Values) {
      Pattern& of = pattern(value);
      if (!of.has_snapshot) {
        of.has_snapshot = true;
        of.snapshot = stack_;
      }
      of.copy = fresh();
      stack_.push_back(Value::marker(Tag::Pattern, of.copy));
      return at + 1;
    }
    stack_.push_back(value);
    return at + 1;
  }

  int compare(int at) {
    if (!has(2)) return wrong("the stack is empty", at);
    const Node* right = pop(p_, stack_);
    if (right == nullptr) return -1;
    const Value value = take();
    if (value.is(Tag::Length)) {
      Pattern& of = pattern(value);
      if (of.is == Pattern::Is::Sequence && !of.has_parts) {
        const bool number = right->kind == Kind::Constant && PyLong_CheckExact(right->object);
        const long length = number ? PyLong_AsLong(right->object) : -1;
        PyErr_Clear();
        if (length < 0 || length > 10000) return wrong("a sequence of another length", at);
        of.length = static_cast<int>(length);
        of.at_least = p_[at].arg == static_cast<int>(Comparison::Ge);
      }
    } else if (value.is(Tag::Pattern)) {
      Pattern& of = pattern(value);
      of.is = Pattern::Is::Literal;
      const bool is = p_.is(at, Opcode::IS_OP);
      if (is && right->kind != Kind::Constant) return wrong("a pattern that compares with something else", at);
      of.literal = is ? singleton(right->object) : p_.arena.of(Kind::MatchValue, {right});
    } else {
      return wrong("a pattern that compares something else", at);
    }
    stack_.push_back(test());
    return at + 1;
  }

  int unpack(int at) {
    if (!top_is(Tag::Pattern)) return wrong("a pattern that unpacks something else", at);
    Pattern& of = pattern(take());
    const bool starred = p_.is(at, Opcode::UNPACK_EX);
    const int arg = p_[at].arg, count = starred ? (arg & 255) + 1 + (arg >> 8) : arg;
    if (count < 0 || count > 10000) return wrong("a pattern of too many parts", at);
    std::vector<Pattern*> parts;
    parts.reserve(static_cast<std::size_t>(count));
    for (int k = 0; k < count; ++k) parts.push_back(fresh());
    if (of.is == Pattern::Is::Values) {
      of.owner->parts = parts;
      of.owner->has_parts = true;
    } else if (of.is == Pattern::Is::Sequence) {
      of.parts = parts;
      of.has_parts = true;
      if (starred) parts[static_cast<std::size_t>(arg & 255)]->star = true;
    } else {
      return wrong("a pattern that unpacks something else", at);
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) stack_.push_back(Value::marker(Tag::Pattern, *part));
    return at + 1;
  }

  // A small number that an instruction loaded; -1: there is none.
  static int number_of(const Value& value) {
    if (!value.is(Tag::Expr) || value.node->kind != Kind::Constant || !PyLong_CheckExact(value.node->object)) return -1;
    const long number = PyLong_AsLong(value.node->object);
    PyErr_Clear();
    return number >= 0 && number <= 10000 ? static_cast<int>(number) : -1;
  }

  // len(subject) - number, the index of an item behind `*_`
  int index_from_end(int at) {
    const int number = number_of(take());
    if (number < 0) return wrong("a pattern of another form", at);
    stack_.back().number = number;
    return at + 1;
  }

  // COPY; index; BINARY_SUBSCR: one item of a sequence
  int item(int at) {
    if (!has(3)) return wrong("the stack is empty", at);
    const Value index = take(), copied = take();
    if (!copied.is(Tag::Pattern) || !top_is(Tag::Pattern)) return wrong("a pattern of another form", at);
    Pattern& of = pattern(stack_.back());
    if (of.is != Pattern::Is::Sequence || of.copy != &pattern(copied)) return wrong("a pattern of another form", at);
    of.copy = nullptr;
    of.has_snapshot = false;
    Pattern* part = fresh();
    if (index.is(Tag::Length)) {
      of.back[index.number] = part;
    } else {
      const int number = number_of(index);
      if (number < 0) return wrong("a pattern of another form", at);
      of.front[number] = part;
    }
    stack_.push_back(Value::marker(Tag::Pattern, part));
    return at + 1;
  }

  // The parts of a sequence with a `*_`, whose items were taken by their index.
  bool starred_parts(const Pattern& of, int depth, std::vector<const Node*>& kids) {
    const int before = of.front.empty() ? 0 : of.front.rbegin()->first + 1;
    const int behind = of.length - before;
    if (behind < 0 || (!of.back.empty() && of.back.rbegin()->first > behind))
      return p_.fail("a sequence of another form");
    const auto part = [&](const std::map<int, Pattern*>& in, int at) {
      const auto found = in.find(at);
      return found != in.end() ? node_of(*found->second, depth + 1) : capture(Kind::MatchAs, nullptr, nullptr);
    };
    for (int at = 0; at < before; ++at) kids.push_back(part(of.front, at));
    kids.push_back(capture(Kind::MatchStar, nullptr, nullptr));
    for (int at = behind; at > 0; --at) kids.push_back(part(of.back, at));
    return true;
  }

  int match_keys(int at) {
    if (!has(2) || !stack_.back().is(Tag::Expr) || stack_.back().node->kind != Kind::Tuple ||
        !stack_[stack_.size() - 2].is(Tag::Pattern)) {
      return wrong("a mapping of another form", at);
    }
    Pattern& of = pattern(stack_[stack_.size() - 2]);
    const List& keys = stack_.back().node->kids;
    of.keys.assign(keys.begin(), keys.end());
    return push_values(of, at);
  }

  int push_values(Pattern& of, int at) {
    Pattern* values = fresh();
    values->is = Pattern::Is::Values;
    values->owner = &of;
    stack_.push_back(Value::marker(Tag::Pattern, values));
    return at + 1;
  }

  int match_class(int at) {
    const Node* names = pop(p_, stack_);
    const Node* type = names != nullptr ? pop(p_, stack_) : nullptr;
    if (type == nullptr || names->kind != Kind::Tuple || !top_is(Tag::Pattern))
      return wrong("a class of another form", at);
    Pattern& of = pattern(take());
    of.is = Pattern::Is::Class;
    of.type = type;
    of.positional = p_[at].arg;
    for (const Node* name : names->kids) {
      const char* text = is_text(name) ? PyUnicode_AsUTF8(name->object) : nullptr;
      if (text == nullptr) return PyErr_Clear(), wrong("a class of another form", at);
      of.attributes.push_back(p_.arena.intern(text));
    }
    return push_values(of, at);
  }

  // **rest: BUILD_MAP 0; SWAP 3; DICT_UPDATE 2; UNPACK_SEQUENCE n; (COPY; SWAP 2; DELETE_SUBSCR) * n
  int rest_of_mapping(int at) {
    using enum Opcode;
    if (p_[at].arg != 0 || !p_.is(at + 1, SWAP) || !p_.is(at + 2, DICT_UPDATE) || !p_.is(at + 3, UNPACK_SEQUENCE) ||
        !has(2)) {
      return wrong("a mapping of another form", at);
    }
    Value first = take(), second = take();
    if (!second.is(Tag::Pattern)) std::swap(first, second);
    if (!second.is(Tag::Pattern)) return wrong("a mapping of another form", at);
    Pattern& of = pattern(second);
    of.rest = fresh();
    stack_.push_back(Value::marker(Tag::Pattern, of.rest));
    const int count = p_[at + 3].arg;
    return count >= 0 && count < p_.size() ? at + 4 + 3 * count : wrong("a mapping of another form", at);
  }

  const Node* capture(Kind kind, const Node* inner, Name name) {
    Node node;
    node.kind = kind;
    node.name = name;
    if (kind == Kind::MatchAs) node.kids = p_.arena.list({inner});
    return p_.arena.make(std::move(node));
  }
  const Node* nodes_of(Kind kind, std::vector<const Node*> kids, int number = 0, Name name = nullptr) {
    if (std::find(kids.begin(), kids.end(), nullptr) != kids.end()) return nullptr;
    Node node;
    node.kind = kind;
    node.number = number;
    node.name = name;
    node.kids = p_.arena.list(std::move(kids));
    return p_.arena.make(std::move(node));
  }

  const Node* node_of(const Pattern& of, int depth) {
    if (depth > 100) return p_.fail("a pattern is nested too deeply"), nullptr;
    const auto inner = [&](const Pattern* part) { return node_of(*part, depth + 1); };
    if (!of.alternatives.empty()) {
      std::vector<const Node*> kids;
      for (const Pattern* one : of.alternatives) kids.push_back(inner(one));
      const Node* made = nodes_of(Kind::MatchOr, std::move(kids));
      return made == nullptr || of.name == nullptr ? made : capture(Kind::MatchAs, made, of.name);
    }
    if (of.copy != nullptr) {
      const Node* made = inner(of.copy);
      return made == nullptr || of.name == nullptr ? made : capture(Kind::MatchAs, made, of.name);
    }
    if (of.star) return capture(Kind::MatchStar, nullptr, of.name);
    std::vector<const Node*> kids;
    switch (of.is) {
      case Pattern::Is::Literal:
        return of.literal;
      case Pattern::Is::Sequence:
        if (of.has_parts) {
          for (const Pattern* part : of.parts) kids.push_back(inner(part));
        } else if (!of.front.empty() || !of.back.empty()) {
          if (!starred_parts(of, depth, kids)) return nullptr;
        } else {
          for (int k = 0; k < of.length; ++k) kids.push_back(capture(Kind::MatchAs, nullptr, nullptr));
          if (of.length < 0 || of.at_least) kids.push_back(capture(Kind::MatchStar, nullptr, nullptr));
        }
        return nodes_of(Kind::MatchSequence, std::move(kids));
      case Pattern::Is::Mapping: {
        kids = of.keys;
        for (std::size_t k = 0; k < of.keys.size(); ++k) {
          kids.push_back(k < of.parts.size() ? inner(of.parts[k]) : capture(Kind::MatchAs, nullptr, nullptr));
        }
        return nodes_of(Kind::MatchMapping, std::move(kids), static_cast<int>(of.keys.size()),
                        of.rest != nullptr ? of.rest->name : nullptr);
      }
      case Pattern::Is::Class: {
        kids.push_back(of.type);
        for (std::size_t k = 0; k < of.parts.size(); ++k) {
          const Node* part = inner(of.parts[k]);
          const std::size_t named = k - static_cast<std::size_t>(of.positional);
          const bool positional = k < static_cast<std::size_t>(of.positional);
          if (!positional && named >= of.attributes.size()) return p_.fail("a class of another form"), nullptr;
          kids.push_back(part == nullptr || positional ? part : p_.arena.keyword(of.attributes[named], part));
        }
        return nodes_of(Kind::MatchClass, std::move(kids));
      }
      default:
        return capture(Kind::MatchAs, nullptr, of.name);
    }
  }

  Parse& p_;
  const std::size_t keep_;
  Pattern* root_ = nullptr;
  Stack stack_;
  std::vector<int> failures_;
  std::map<int, std::size_t> heights_;  // of the stack when a test that failed leads there
};

bool loads_operand(Opcode op) {
  using enum Opcode;
  return op == LOAD_CONST || op == LOAD_FAST || op == LOAD_GLOBAL || op == LOAD_DEREF || op == LOAD_NAME;
}

int behind_operand(const Parse& p, int at) {
  while (loads_operand(p[at].op) || p.is(at, Opcode::LOAD_ATTR) || p.is(at, Opcode::UNARY_NEGATIVE)) ++at;
  return at;
}

bool tests_operand(const Parse& p, int at) {
  const Ins& ins = p[at];
  const bool equal = ins.op == Opcode::COMPARE_OP && ins.arg == static_cast<int>(Comparison::Eq);
  return (equal || ins.op == Opcode::IS_OP) && is_condition(p[at + 1].op);
}

struct Arm {
  const Node *pattern = nullptr, *guard = nullptr;
  int begin = 0, end = 0;
};

class MatchReader {
 public:
  MatchReader(Parse& p, const Region& region, const Stack& stack, bool plain_last)
      : p_(p), region_(region), base_(stack), plain_last_(plain_last) {}

  int read(int at, const Node* subject, Body& out) {
    bool more = true;
    while (more) {
      at = arm(at, more);
      if (at < 0) return -1;
    }
    if (open_end_) {  // nothing says where the last arm ends but the others, which leave behind it
      int behind = -1;
      for (const Arm& arm : arms_) {
        for (int k = arm.begin; k < arm.end; ++k) {
          if (p_[k].target > arms_.back().begin && p_[k].target <= region_.end) behind = std::max(behind, p_[k].target);
        }
        if (&arm + 2 == arms_.data() + arms_.size()) break;
      }
      if (behind > 0) at = arms_.back().end = behind;
    }
    // Where the arms meet: some jump out of one of them, behind the last one.
    int meet = at;
    for (const Arm& arm : arms_) {
      for (int k = arm.begin; k < arm.end; ++k) {
        const Ins& ins = p_[k];
        if (ins.target <= at || ins.op == Opcode::SEND) continue;
        if (ins.target <= region_.end) {
          meet = std::max(meet, ins.target);
        } else if (p_.unit.resolve(ins.target) == p_.unit.resolve(region_.follow)) {
          meet = std::max(meet, region_.end);
        }
      }
    }
    const int follow = meet < region_.end ? meet : region_.follow;
    Stmt* made = p_.arena.statement(Stmt::Kind::Match, subject);
    for (const Arm& arm : arms_) {
      if (!add_case(made, arm.pattern, arm.guard, {arm.begin, arm.end, follow})) return -1;
    }
    if (meet > at) {
      Node anything;
      anything.kind = Kind::MatchAs;
      anything.kids = p_.arena.list({nullptr});
      if (!add_case(made, p_.arena.make(std::move(anything)), nullptr, {at, meet, follow})) return -1;
    }
    out.push_back(made);
    return meet;
  }

 private:
  bool add_case(Stmt* made, const Node* pattern, const Node* guard, const Region& region) {
    Clause clause;
    clause.test = pattern;
    clause.guard = guard;
    Body body;
    if (!block(p_, region, base_, body)) return false;
    clause.body = or_pass(p_, std::move(body));
    made->clauses.push_back(std::move(clause));
    return true;
  }

  // One pattern; gives where the body or guard begins.
  int pattern(int at, bool copied, const Node*& root, std::vector<int>& failures) {
    PatternReader reader(p_, copied);
    const int begin = reader.read(copied ? at + 1 : at);
    if (begin < 0) return -1;
    failures = reader.failures();
    root = reader.root();
    return root != nullptr ? begin : -1;
  }

  // One case; gives where the next one begins.
  int arm(int at, bool& more) {
    const bool copies = p_.is(at, Opcode::COPY) && p_[at].arg == 1;
    bool copied = copies && !(plain_last_ && !p_.is(at + 1, Opcode::COPY));
    const Node* root = nullptr;
    std::vector<int> failures;
    int begin = copied ? pattern(at, true, root, failures) : -1;
    if (begin < 0) {
      copied = false;
      begin = pattern(at, false, root, failures);
      if (begin < 0) return -1;
    }
    int fail = -1, last_fail = -1;
    const auto find_fail = [&] {
      fail = -1;
      for (const int failure : failures) {
        if (failure > begin && (fail < 0 || failure < fail)) fail = failure;
      }
      last_fail = fail;  // a guard jumps to the last of the blocks that drop what a pattern left
      while (last_fail >= 0 && p_.is(last_fail, Opcode::POP_TOP)) ++last_fail;
    };
    find_fail();
    const Node* guard = nullptr;
    if (last_fail >= 0 || copied) read_guard(copied, begin, fail, last_fail, guard);
    if (copied && !p_.is(begin, Opcode::POP_TOP)) {
      copied = false;
      guard = nullptr;
      begin = pattern(at, false, root, failures);
      if (begin < 0) return -1;
      find_fail();
      if (last_fail >= 0) read_guard(false, begin, fail, last_fail, guard);
    } else if (copied) {
      ++begin;
    }
    open_end_ = fail < 0;
    if (fail < 0 || fail > region_.end) fail = last_fail = region_.end;
    arms_.push_back({root, guard, begin, fail});
    more = copied && last_fail < region_.end;  // the last one takes the subject itself
    return last_fail;
  }

  void read_guard(bool copied, int& begin, int& fail, int& last_fail, const Node*& guard) {
    Stack stack(base_);
    if (copied) stack.push_back(Value::of(p_.arena.none()));
    const auto test = run_to_condition(p_, begin, stack, region_.end);
    if (!test || test->depth != stack.size()) return;
    const bool fits = last_fail < 0 || test->raw == fail || test->raw == last_fail ||
                      p_.unit.resolve(test->raw) == p_.unit.resolve(last_fail) ||
                      (fail >= 0 && fail <= test->raw && test->raw <= last_fail);
    if (!fits) return;
    guard = test->falls_true ? test->test : negate(p_, test->test);
    begin = test->next;
    if (last_fail < 0) fail = last_fail = test->raw;
  }

  Parse& p_;
  const Region& region_;
  const Stack& base_;
  const bool plain_last_;
  std::vector<Arm> arms_;
  bool open_end_ = false;
};

}  // namespace

bool begins_match(Parse& p, int at) {
  using enum Opcode;
  const Ins& ins = p[at];
  if (ins.op == MATCH_SEQUENCE || ins.op == MATCH_MAPPING) return true;
  if (ins.op == COPY && ins.arg == 1) {
    const Opcode next = p[at + 1].op;
    if (next == MATCH_SEQUENCE || next == MATCH_MAPPING || (next == COPY && p[at + 1].arg == 1)) return true;
    if (!loads_operand(next)) return p.shared.options.eager_match;
    const int behind = behind_operand(p, at + 1);
    return p.is(behind, MATCH_CLASS) || tests_operand(p, behind);
  }
  if (ins.op != LOAD_GLOBAL && ins.op != LOAD_FAST && ins.op != LOAD_CONST && ins.op != LOAD_DEREF) return false;
  int behind = at;
  while (loads_operand(p[behind].op) || p.is(behind, LOAD_ATTR)) ++behind;
  return p.is(behind, MATCH_CLASS);
}

int match_statement(Parse& p, int at, const Region& region, Stack& stack, Body& out) {
  const Node* subject = expression_of(p, stack.back());
  stack.pop_back();
  if (subject == nullptr) return kWrong;
  const std::size_t before = out.size();
  for (const bool plain_last : {false, true}) {
    const auto handlers = p.opened_handlers;
    const auto loops = p.opened_loops, tests = p.opened_tests;
    const int next = MatchReader(p, region, stack, plain_last).read(at, subject, out);
    if (next >= 0) return next;
    out.resize(before);
    p.opened_handlers = handlers;
    p.opened_loops = loops;
    p.opened_tests = tests;
  }
  return kWrong;
}

}  // namespace pellucid::decompile
