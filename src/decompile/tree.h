// What decompiled text is made of: expressions as immutable nodes that are equal exactly when they are one object, and
// statements. All belongs to an arena that lives for one decompilation.
//
// Speculation is what expressions are immutable for: an attempt that fails leaves nothing behind that another one sees,
// and the value on a stack can be the key of a memo.
#pragma once
#include <Python.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pellucid::decompile {

using Name = const std::string*;  // interned by the arena: equal names are one object

enum class Kind : std::uint8_t {
  Name,            // name
  Constant,        // object
  Tuple,           // kids
  List,            // kids
  Set,             // kids
  Dict,            // kids: key, value, …; a key that is null stands for `**value`
  Attribute,       // kids: object; name
  Subscript,       // kids: object, index
  Slice,           // kids: lower, upper, step (each may be null)
  BinOp,           // op: the number of BINARY_OP; kids: left, right
  UnaryOp,         // op: a Unary; kids: operand
  BoolOp,          // op: 0 and, 1 or; kids
  Compare,         // ops: a Comparison each; kids: left, comparators
  IfExp,           // kids: test, body, orelse
  Call,            // kids: function, arguments (Starred and Keyword among them)
  Keyword,         // name (null: `**`); kids: value
  Starred,         // kids: value
  Lambda,          // extra: LambdaParts
  Comprehension,   // extra: Comprehension; kids: the first iterable
  JoinedStr,       // kids: constants and FormattedValues
  FormattedValue,  // op: 0, or one of s r a; kids: value, spec (JoinedStr or null)
  NamedExpr,       // kids: target, value
  Yield,           // kids: value
  YieldFrom,       // kids: value
  Await,           // kids: value
  FunctionRef,     // extra: Function, where a class with starred bases puts it among its arguments
  MatchValue,      // kids: value
  MatchSingleton,  // object
  MatchSequence,   // kids
  MatchMapping,    // number: of keys; kids: keys, patterns; name: **rest
  MatchClass,      // kids: class, patterns; those by name are Keywords
  MatchStar,       // name or null
  MatchAs,         // kids: pattern or null; name or null
  MatchOr,         // kids
};

enum class Unary : std::uint8_t { Not, Negative, Positive, Invert };
enum class Comparison : char { Lt, Le, Eq, Ne, Gt, Ge, Is, IsNot, In, NotIn };

struct Node;

// Nodes in a row. Adding one at the end gives a new list, which shares its memory with the old one where that is
// possible: displays are built one element at a time.
class List {
 public:
  List() = default;
  explicit List(std::vector<const Node*>* items) : items_(items), size_(static_cast<std::uint32_t>(items->size())) {}
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const Node* operator[](std::size_t at) const noexcept { return (*items_)[at]; }
  const Node* back() const noexcept { return (*items_)[size_ - 1]; }
  const Node* const* begin() const noexcept { return items_ == nullptr ? nullptr : items_->data(); }
  const Node* const* end() const noexcept { return begin() + size_; }
  bool is_last() const noexcept { return items_ != nullptr && items_->size() == size_; }
  std::vector<const Node*>* items() const noexcept { return items_; }

 private:
  std::vector<const Node*>* items_ = nullptr;
  std::uint32_t size_ = 0;
};

struct Node {
  Kind kind = Kind::Name;
  std::uint8_t op = 0;
  std::uint8_t flags = 0;
  std::int32_t number = 0;
  std::int32_t height = 1;  // of the tree below
  PyObject* object = nullptr;
  Name name = nullptr;
  const void* extra = nullptr;
  std::string ops;
  List kids;
};

// Flags of nodes: what the bytecode said that the text need not say.
inline constexpr std::uint8_t kTurned = 1;   // an `is` or `in` that stands the other way round than in the bytecode
inline constexpr std::uint8_t kFree = 2;     // a comparison with None by a jump, which costs nothing either way round
inline constexpr std::uint8_t kAwaited = 4;  // an asynchronous comprehension, which is awaited without `await`

struct Stmt;
using Body = std::vector<Stmt*>;

struct Argument {
  Name name = nullptr;
  const Node* annotation = nullptr;
  const Node* fallback = nullptr;  // its default value
};

struct Arguments {
  std::vector<Argument> positional, keyword_only;
  int positional_only = 0;
  Argument rest, keywords;  // *args, **kwargs; name is null when there is none
  const Node* returns = nullptr;
};

// A function as the instruction that makes it finds it on the stack.
struct Function {
  PyCodeObject* code = nullptr;
  const Node *annotations = nullptr, *keyword_defaults = nullptr, *defaults = nullptr;
  std::vector<const Node*> decorators;
};

struct LambdaParts {
  Arguments arguments;
  const Node* body = nullptr;
};

struct Generator {
  const Node *target = nullptr, *iterable = nullptr;
  std::vector<const Node*> conditions;
  bool is_async = false;
};

struct Comprehension {
  char kind = 'l';  // list, set, dict, generator: by their first letter
  std::vector<Generator> generators;
  const Node *key = nullptr, *element = nullptr;
};

struct Alias {
  Name name = nullptr, as = nullptr;
};

// A handler of try, a case of match.
struct Clause {
  const Node* test = nullptr;  // the type, or the pattern
  const Node* guard = nullptr;
  Name name = nullptr;
  Body body;
};

struct Stmt {
  enum class Kind : std::uint8_t {
    Expr,
    Assign,
    AugAssign,
    AnnAssign,
    Return,
    Raise,
    Assert,
    Delete,
    Pass,
    Break,
    Continue,
    Global,
    Nonlocal,
    Import,
    ImportFrom,
    If,
    While,
    For,
    Try,
    With,
    Match,
    FunctionDef,
    ClassDef,
    Append,  // what a comprehension does with its element
  };
  Kind kind = Kind::Pass;
  bool is_async = false;
  bool is_star = false;  // except*
  bool is_documentation = false;
  std::uint8_t op = 0;
  int level = 0;
  const Node *first = nullptr, *second = nullptr;
  std::vector<const Node*> list;  // targets; bases and keywords; decorators are in `function`
  std::vector<Name> names;
  std::vector<Alias> aliases;
  Name name = nullptr;
  Body body, orelse, last;
  std::vector<Clause> clauses;
  Arguments arguments;
  std::vector<const Node*> decorators;
};

class Arena {
 public:
  Name intern(std::string_view text);
  const Node* make(Node node);   // the one node that is equal to this
  const Node* fresh(Node node);  // a node of its own, for lists that grow
  List list(std::initializer_list<const Node*> items);
  List list(std::vector<const Node*> items);
  List append(const List& list, const Node* item);
  Stmt* statement(Stmt::Kind kind);
  Stmt* statement(Stmt::Kind kind, const Node* first, const Node* second = nullptr);
  template <class T>
  T* own(T value) {
    auto held = std::make_shared<T>(std::move(value));
    T* raw = held.get();
    owned_.push_back(std::move(held));
    return raw;
  }

  const Node* name(Name id);
  const Node* constant(PyObject* object);
  const Node* none() { return constant(Py_None); }
  const Node* of(Kind kind, std::initializer_list<const Node*> kids, int op = 0);
  const Node* of(Kind kind, const List& kids, int op = 0);
  const Node* compare(const Node* left, Comparison op, const Node* right, std::uint8_t flags = 0);
  const Node* attribute(const Node* object, Name name);
  const Node* keyword(Name name, const Node* value);

  int highest() const noexcept { return highest_; }  // the height of the highest tree

 private:
  struct Hash {
    std::size_t operator()(const Node* node) const noexcept;
  };
  struct Equal {
    bool operator()(const Node* a, const Node* b) const noexcept;
  };
  void measure(Node& node);

  std::deque<Node> nodes_;
  std::deque<Stmt> statements_;
  std::deque<std::vector<const Node*>> lists_;
  std::unordered_set<const Node*, Hash, Equal> known_;
  std::unordered_set<std::string> names_;
  std::vector<std::shared_ptr<void>> owned_;
  int highest_ = 0;
};

inline bool is_none(const Node* node) {
  return node != nullptr && node->kind == Kind::Constant && node->object == Py_None;
}
inline bool is_text(const Node* node) {
  return node != nullptr && node->kind == Kind::Constant && PyUnicode_Check(node->object);
}

}  // namespace pellucid::decompile
