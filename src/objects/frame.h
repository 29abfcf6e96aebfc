// One open Python frame of the region, on the heap. The executor's loop runs the innermost one; a call pushes a frame
// and says with a Continuation what happens to its result in the caller.
#pragma once
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::objects {

struct TracedGenerator;

// What becomes of a callee's return value in the frame that waits for it.
struct Continuation {
  enum class Kind : std::uint8_t {
    Push,             // push it on the value stack
    Drop,             // forget it
    Replace,          // push `a` instead
    Init,             // __init__: must be None; push `a` (the instance)
    NewThenInit,      // __new__ of type `a` with args `b` (tuple) and kwargs `c` (dict or empty): then call __init__
    Bool,             // convert to bool (truth of an exact builtin); number=1 inverts; push
    Retry,            // push it and run the waiting instruction again (truth of a user object)
    ForIter,          // a generator or __next__: push the value; StopIteration ends the loop (number: jump target)
    Send,             // yield from: push the value; StopIteration pushes its value and jumps (number: jump target)
    GetAttrFallback,  // on AttributeError call __getattr__ of `a` with name `b`; otherwise push
    Reflected,        // NotImplemented -> try the other operand: a, b operands, number = operator, stage
    CallEx,           // the value (a list made by a polyfill) is the *args of the call of `a` with **b
    CallWith,         // the value replaces argument `number` of the call of `a` with args `b` (tuple), kwnames `c`
    Default,     // on the exception type `a` push `b` instead (getattr with default, next with default); otherwise push
    Length,      // __len__: check an int >= 0, push
    IterResult,  // __iter__: result must be an iterator; push
    HasAttr,     // push True; on AttributeError push False
    Str,         // __str__/__repr__/__format__: must be a str; push
    IndexResult,  // __index__
    TupleFrom,    // the value (a list made by a polyfill) becomes a tuple
    Contains,     // like Bool, for the `in` operator
    Raise,        // the value is an exception instance: raise it
    Close,        // close() of a generator: it must not yield, GeneratorExit and StopIteration end it; push None
    Finalize,     // the same for a generator that died: push nothing
    SetItemOn,    // store the value: a[b] = value, push `c` when given (defaultdict.__missing__)
  } kind = Kind::Push;
  std::uint8_t stage = 0;
  std::int64_t number = 0;
  py::Owned<> a, b, c;
  std::unique_ptr<Continuation> next;  // what becomes of the transformed value; none: it is the result

  Continuation() = default;
  explicit Continuation(Kind k) : kind(k) {}
  Continuation(Kind k, PyObject* first, PyObject* second = nullptr, PyObject* third = nullptr)
      : kind(k), a(py::Owned<>::share(first)), b(py::Owned<>::share(second)), c(py::Owned<>::share(third)) {}
  // this first, then `after`
  Continuation before(Continuation after) && {
    Continuation* last = this;
    while (last->next) last = last->next.get();
    if (after.kind != Kind::Push || after.next) last->next = std::make_unique<Continuation>(std::move(after));
    return std::move(*this);
  }
};

// Facts about a code object the loop needs, decoded once.
struct CodeInfo {
  py::Owned<> bytes;  // co_code with specialised instructions mapped back
  const std::uint8_t* units = nullptr;
  int size = 0;                         // in bytes
  std::vector<std::uint32_t> handlers;  // exception table, flattened: start, end, target, depth<<1|lasti
  bool hidden = false;                  // polyfill: does not show in user stacks
};

struct Frame {
  py::Owned<PyFunctionObject> function;  // keeps globals, closure alive
  PyCodeObject* code = nullptr;          // owned through function
  const CodeInfo* info = nullptr;
  PyObject* globals = nullptr;  // borrowed from function
  PyObject* builtins = nullptr;
  std::vector<py::Owned<>> fast;  // co_nlocalsplus
  std::vector<py::Owned<>> stack;
  int next = 0;  // byte offset of the next instruction
  int at = 0;    // byte offset of the instruction that runs (of its first EXTENDED_ARG)
  py::Owned<> kwnames;
  std::unique_ptr<Frame> back;           // the caller; null for the entry frame and suspended generators
  Continuation then;                     // what the caller does with our result
  TracedGenerator* generator = nullptr;  // borrowed: set while this frame is the body of a generator
  py::Owned<> generator_ref;             // keeps the generator alive while it runs
  py::Owned<> handled;                   // exc_info->exc_value; used in the entry frame and in generator frames only
  py::Owned<> module_type;               // when this frame is the call of an nn.Module
  std::string module_path, module_key;   // how the program named it; the same, told from earlier calls
  std::shared_ptr<const graph::CallSite> site;  // cache of the call site at `site_at`
  int site_at = -1;
  int asked_at = -1;           // `and`/`or` at this offset waits for a user's __bool__ …
  std::size_t asked_size = 0;  // … with the value on top of a stack of this size
  int depth = 0;
  PyObject* local(int slot) const { return fast[static_cast<std::size_t>(slot)].get(); }
};

}  // namespace pellucid::objects
