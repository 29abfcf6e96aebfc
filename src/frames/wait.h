// What a waiting frame makes of the result of the call inside it, beside pushing it: the second half of an instruction
// whose first half called Python code. The same table for the executor (trace/unwind.cpp), which follows it, and for
// real frames (settle.cpp), where it happens.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::frames {

enum class WaitKind : std::uint8_t {
  Push,             // push it on the value stack
  Drop,             // forget it
  Replace,          // push `a` instead
  Init,             // __init__: must be None; push `a` (the instance)
  NewThenInit,      // __new__ of type `a` with args `b` (tuple) and kwnames `c` (tuple or empty): then call __init__
  Bool,             // convert to bool; stage 1: __bool__ gave it, 2: __len__ did; number=1 inverts; push
  Retry,            // push it and run the waiting instruction again (truth of a user object)
  ForIter,          // a generator or __next__: push the value; StopIteration ends the loop (number: jump target)
  Send,             // yield from: push the value; StopIteration pushes its value and jumps (number: jump target)
  GetAttrFallback,  // on AttributeError call __getattr__ `c` of `a` with name `b`; otherwise push
  Reflected,        // NotImplemented -> try the other operand: a, b operands, stage = how many were tried,
                    // number = argument of BINARY_OP or py::kCompareBase + Py_LT …
  CallEx,           // the value (a list made by a polyfill) is the *args of the call of `a` with **b
  CallWith,         // the value replaces argument `number` of the call of `a` with args `b` (tuple), kwnames `c`
  Default,          // on the exception type `a` push `b` instead (getattr, next with a default); otherwise push
  Length,           // __len__: check an int >= 0, push
  IterResult,       // __iter__: result must be an iterator; push
  HasAttr,          // push True; on AttributeError push False
  Str,              // __str__, or __repr__ (number=1): must be a str; push
  IndexResult,      // __index__
  TupleFrom,        // the value (a list made by a polyfill) becomes a tuple
  Contains,         // like Bool, for the `in` operator
  Raise,            // the value is an exception instance: raise it
  Close,            // close() of a generator: it must not yield, GeneratorExit and StopIteration end it; push None
  Finalize,         // the same for a generator that died: push nothing
  NamesAttribute,   // on an AttributeError that does not say of what: `b` of `a`; otherwise push
  SetItemOn,        // store the value: a[b] = value, push `c` when given (defaultdict.__missing__)
};

// Stage of a Send or Raise in a generator that was told to throw() or close(): the exception that comes out of what it
// delegates to is thrown into it.
inline constexpr std::uint8_t kThrownIn = 1;

struct Wait {
  WaitKind kind = WaitKind::Push;
  std::uint8_t stage = 0;
  std::int64_t number = 0;
  py::Owned<> a, b, c;
};

// Whether real frames can do it (settle.h).
bool can_settle(WaitKind kind) noexcept;

}  // namespace pellucid::frames
