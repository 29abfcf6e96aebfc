// What the emitted function does, as a small typed program. `make_plan` walks the live objects of a Capture and knows
// every object kind; the emitter and the printer know only these few forms, so text and code cannot disagree.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::codegen {

using source::Source;

// How one value gets onto the stack.
struct Expr {
  enum class Kind : std::uint8_t {
    Constant,  // `object` itself
    Source,    // loaded from `source`
    Output,    // result of `node`, an output of the graph
    Fresh,     // Plan::fresh[index]
    Tuple,
    List,
    Set,
    Slice,   // of `items`
    Map,     // items: key, value, key, value, …
    Call,    // object(*items)
    CallKw,  // items[0](*items[1], **items[2]): a Tuple and a Map
  } kind = Kind::Constant;
  py::Owned<> object;
  const Source* source = nullptr;
  graph::Node* node = nullptr;
  int index = -1;
  std::vector<Expr> items;

  Expr copy() const;
  static Expr constant(PyObject* object);
  static Expr of(const Source* source);
  static Expr of(graph::Node* node);
  static Expr fresh(int index);
  static Expr list(Kind kind, std::vector<Expr> items);
  static Expr call(PyObject* callee, std::vector<Expr> arguments);
};

// A list of these, which cannot be copied out of braces.
template <class... E>
std::vector<Expr> exprs(E... each_one) {
  std::vector<Expr> items;
  (items.push_back(std::move(each_one)), ...);
  return items;
}

// One step that gives no value. Operands are evaluated left to right: target, key, value.
struct Stmt {
  enum class Kind : std::uint8_t {
    Evaluate,  // value
    SetAttr,   // target.name = value: only where no user code can run
    DelAttr,
    SetItem,  // target[key] = value
    DelItem,
    Append,  // LIST_APPEND: an exact list or a subclass, never an overridden method
    Add,     // SET_ADD
  } kind;
  Expr target, key, value;
  py::Owned<> name;
};

// An object that the region made: built exactly once per call.
struct Fresh {
  PyObject* original;  // the one made during capture (borrowed: the capture keeps it alive)
  Expr make;           // all of it, or an empty shell that `fill` completes
  std::vector<Stmt> fill;
  int uses = 0;
  bool named = false;  // kept in a local; else built in place at its only use
};

struct Plan {
  std::deque<Fresh> fresh;
  std::vector<int> order;  // named fresh objects in an order in which they can be made
  std::vector<Stmt> effects;
  Expr result;
  std::vector<graph::Node*> outputs;  // distinct, in order of first use
};

// Throws GraphBreak(CannotReconstruct / UnsupportedMutation / UnknownOrigin).
Plan make_plan(const region::Capture& capture);

// Calls visit(expr) for `expr` and everything below it, not entering fresh objects.
template <class F>
void each(const Expr& expr, F&& visit) {
  visit(expr);
  for (const Expr& item : expr.items) each(item, visit);
}
template <class F>
void each(const Stmt& stmt, F&& visit) {
  each(stmt.target, visit);
  each(stmt.key, visit);
  each(stmt.value, visit);
}

}  // namespace pellucid::codegen
