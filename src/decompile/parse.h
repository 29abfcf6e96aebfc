// The state of reading one code object, and the parts that read it.
//
// CPython 3.11 keeps code in the order of its source, so a template for each statement, tried at the place where it
// would begin, reads it back: expressions run over a stack of nodes (expressions), conditional jumps are joined by a
// small algebra (conditions), and statements are templates over a range of instructions (statements, loops, handlers,
// patterns).
//
// Everything here answers with false (null, nothing) when the instructions are not what it reads, and says why with
// `fail`. That is an answer and no error: most of it is asked about places that may be something else.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "decompile/tree.h"
#include "decompile/units.h"

namespace pellucid::decompile {

// What the code objects of one function have in common.
struct Shared {
  explicit Shared(const Options& options) : options(options) {}
  Options options;
  Arena arena;
  std::set<Name> imports;  // names that are called as a module's: `name.f()` where the module imports the name
  std::string failure;     // the last one
  long steps = 0;          // instructions that were read, speculation included
  long most_steps = 0;
  int depth = 0;  // of regions within regions, and of code within code
};

// Who stores a value that is not there yet: the target of a loop, of `with`.
struct Sink {
  const Node* target = nullptr;
};
struct Unpacked;
struct Import {
  Name name = nullptr;
  int level = 0;
  const Node* names = nullptr;
  std::vector<Alias> aliases;
};
struct ClassParts {
  Function* function = nullptr;
  Name name = nullptr;
  std::vector<const Node*> arguments;
  std::vector<const Node*> decorators;
};

// A value on the stack: mostly an expression, else what an instruction left there for another one.
struct Value {
  enum class Tag : std::uint8_t {
    Expr,
    Chain,      // node: a value that COPY has doubled; `targets`: what it was stored in
    Dup,        // its copy
    Augmented,  // the result of an in-place operator: node `op=` other
    Null,
    Self,
    Code,  // object
    Cell,
    Closure,
    Iterator,       // of the loop around
    AsyncIterator,  // node
    AsyncWith,      // what is awaited for `async with`: sink
    WithExit,
    WithResult,
    Exception,
    Previous,  // name: `except … as name`
    Nothing,   // the generator itself
    BuildClass,
    AssertionError,  // node: its message
    DroppedModule,
    ModuleAttribute,
    Container,  // of a comprehension
    Function,
    Class,
    Import,
    ImportFrom,
    Slot,  // a value that exists only to be stored
    Pattern,
    Subject,
    Test,
    Length,  // while a pattern is read
  };
  Tag tag = Tag::Expr;
  std::uint8_t op = 0;
  int number = 0;
  int place = -1;  // the instruction that put it there
  const Node *node = nullptr, *other = nullptr;
  List targets;
  Name name = nullptr;
  void* owner = nullptr;  // Function, ClassParts, Import, Unpacked, Sink, Pattern: by the tag
  PyObject* object = nullptr;

  static Value of(const Node* node, int place = -1) {
    Value value;
    value.node = node;
    value.place = place;
    return value;
  }
  static Value marker(Tag tag, void* owner = nullptr) {
    Value value;
    value.tag = tag;
    value.owner = owner;
    return value;
  }
  bool is(Tag other) const noexcept { return tag == other; }
};
using Stack = std::vector<Value>;

struct Unpacked {
  Value value;
  int count = 0, star = -1, filled = 0;
  std::vector<const Node*> targets;
};

// Where a condition leads: a block (behind jumps that only lead on), or the place where its value is used.
struct Exit {
  bool is_value = false;
  int at = -1;
  bool operator==(const Exit&) const = default;
};

struct Condition {
  const Node* test = nullptr;
  Exit if_true, if_false;
  int next = -1;            // behind its last jump
  bool falls_true = false;  // which side goes on at `next`
  int raw = -1;             // where its last jump leads, before other jumps are followed
  int jump = -1;            // its last jump
  std::size_t depth = 0;    // of the stack without it
};

// What a conditional jump turned out to be: a condition, or a value that is used at `next`.
struct Resolved {
  bool is_value = false;
  Condition condition;
  const Node* value = nullptr;
  int next = -1;
};

struct Loop {
  int head = -1, exit = -1;
  bool is_while = false;
  int leave = -1;  // where `break` leads; -1: there was none yet
};

// A handler whose copies are looked for where its body is left.
struct Finally {
  int handler = -1;
  int begin = -1, end = -1;  // of its own copy
};

enum class Unwinding : std::uint8_t { No, Yes, Iterator };

using MemoKey = std::tuple<int, std::size_t, int, int, int, const Node*, const Node*>;

struct Parse {
  Parse(PyCodeObject* code, Shared& shared, std::set<Name> outer);

  Unit unit;
  Shared& shared;
  Arena& arena;
  std::set<Name> outer;  // names of functions around, which a global name would be mistaken for
  bool is_class = false, is_lambda = false;
  std::set<Name> globals, nonlocals;

  // By where they begin. A loop whose test is repeated at its end may begin where a `while True` around it does.
  std::set<int> opened_handlers, opened_loops, opened_tests;
  std::vector<Loop> loops;
  std::vector<Finally> active;
  std::map<MemoKey, std::optional<Resolved>> memo;
  std::map<PyObject*, const void*> children;  // bodies of lambdas and comprehensions, by their code
  std::map<std::tuple<PyCodeObject*, const Node*, const Node*>, const Node*> lambdas;
  int statement = 0;     // where the one that is read begins
  std::size_t base = 0;  // depth of the stack where the region around begins
  Unwinding unwinding = Unwinding::No;
  std::vector<std::pair<const Node*, Value>> waiting;  // a, b = x, y whose stores came in turn
  int end = -1;                                        // where the last region ended
  bool falls = false;                                  // … and whether control goes on there

  const Ins& operator[](int at) const { return unit[at]; }
  bool is(int at, Opcode op) const { return unit.is(at, op); }
  int size() const { return unit.size(); }
  bool fail(const char* why, int at = -1);   // always false
  bool step_allowed();                       // counts; false when the function is too complex
  Name name_at(PyObject* names, int index);  // null when there is none, or it is no identifier
  Name local(int slot);                      // of localsplus
  PyObject* constant_at(int index);          // borrowed; null when there is none
};

// Deepens the count of regions within regions while it lives.
class Deeper {
 public:
  explicit Deeper(Shared& shared) : shared_(shared) { ++shared_.depth; }
  ~Deeper() { --shared_.depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  bool allowed() const { return shared_.depth <= kDeepest; }

 private:
  static constexpr int kDeepest = 400;
  Shared& shared_;
};

// expressions
const Node* expression_of(Parse& p, const Value& value);
const Node* pop(Parse& p, Stack& stack);
bool pop_many(Parse& p, Stack& stack, int count, std::vector<const Node*>& out);
// Runs the instruction at `at`; gives the index behind it, or -1. Without `out` nothing but a value may come of it.
int step(Parse& p, int at, Stack& stack, Body* out);
int step_call(Parse& p, int at, Stack& stack, Body* out);
int step_call_ex(Parse& p, int at, Stack& stack);
bool step_make_function(Parse& p, int at, Stack& stack);
bool step_build(Parse& p, int at, Stack& stack);
bool step_grow(Parse& p, int at, Stack& stack, Body* out);  // LIST_APPEND, DICT_UPDATE, …
int behind_await(Parse& p, int at);  // behind LOAD_CONST None; SEND; YIELD_VALUE; JUMP_BACKWARD_NO_INTERRUPT
const Node* literal(Parse& p, PyObject* value);

// stores
bool store(Parse& p, Stack& stack, const Node* target, const Value& value, Body* out);
bool pop_and_store(Parse& p, Stack& stack, const Node* target, Body* out);
const Node* stored_name(Parse& p, int at);

// functions
bool arguments_of(Parse& p, PyCodeObject* code, const Function* function, Arguments& out);
bool function_body(Parse& p, Body& out);
bool class_body(Parse& p, Body& out);
bool module_body(Parse& p, Body& out);
const Node* lambda_body(Parse& p);
Comprehension* comprehension_body(Parse& p);
Stmt* function_statement(Parse& p, const Function& function);
Stmt* class_statement(Parse& p, const ClassParts& parts);
const Node* lambda_of(Parse& p, const Function& function);
const Node* comprehension_of(Parse& p, const Function& function, const Node* iterable);
bool is_comprehension(PyCodeObject* code);
bool has_name(PyCodeObject* code, const char* name);

// conditions
const Node* negate(Parse& p, const Node* test);
bool is_chain(const Parse& p, int at);  // the middle of `a < b < c`
std::optional<Resolved> resolve(Parse& p, int at, Stack& stack, int end);
bool run_values(Parse& p, int at, int end, Stack& stack);  // instructions that are one value or more
// Where the test at `at` is repeated so that its last jump is a jump back behind it.
struct Repetition {
  int begin = -1, exit = -1;  // begin is -1: nowhere
};
Repetition repetition(Parse& p, int at, const Condition& test, int bottom, const Stack& stack, int end);
bool is_repeated(Parse& p, int at, const Condition& test, const Stack& stack, int end);
std::optional<Condition> run_to_condition(Parse& p, int at, const Stack& stack, int end);

// statements
struct Region {
  int begin = 0, end = 0;
  int follow = 0;       // where control goes behind it
  bool breaks = false;  // a `break` stands for going on there
  int soft_end = -1;    // it may go on until here while something is left on the stack
  bool closed = false;  // nothing goes on at its end: a jump there leaves the loop that it is the body of
};
bool block(Parse& p, const Region& region, Stack stack, Body& out);
bool go_to(Parse& p, int target, const Region& region, Body& out, bool& falls);
bool behind_region(Parse& p, int begin, int end, int limit, int follow, int& farthest);
// Each gives the index behind the statement, -1 when there is none of the kind, kWrong when it is one that is not
// understood.
inline constexpr int kWrong = -2;
int open_loop(Parse& p, int at, const Region& region, Stack& stack, Body& out);
int open_try(Parse& p, int at, const Region& region, Stack& stack, Body& out);
bool loop_comes_first(Parse& p, int at, int end, std::size_t depth);
int for_statement(Parse& p, int at, const Node* iterable, const Region& region, Stack& stack, Body& out);
int async_for_statement(Parse& p, int at, const Node* iterable, const Region& region, Stack& stack, Body& out);
int with_statement(Parse& p, int at, const Region& region, Stack& stack, Body& out);
int match_statement(Parse& p, int at, const Region& region, Stack& stack, Body& out);
bool begins_match(Parse& p, int at);
bool block_with_target(Parse& p, const Region& region, Stack stack, Sink& sink, Body& out);
int skip_copy(Parse& p, int at, const Finally& copied);
Body or_pass(Parse& p, Body body);

}  // namespace pellucid::decompile
