// A code object as the decompiler reads it: instructions without those that leave no trace in the text, jumps and the
// handlers of exceptions as indexes of these.
//
// CPython's compiler copies short ends of functions to the jumps that lead there. Copies that stand beside each other
// are one statement of the source, so they are collapsed here: how far is one of the choices of `Options`.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "bytecode/opcodes.h"

namespace pellucid::decompile {

using bytecode::Opcode;

// Different sources of equal meaning. The verification tells which of them was compiled.
struct Options {
  bool collapse = true;          // adjacent copies of an end of the function: those at the end of its text
  bool collapse_inside = false;  // … all of them
  bool keep_return = false;      // write a `return` at the end of the body
  bool while_true = false;       // `while True` with a test inside, never `while test`
  bool merge_exits = false;      // copies of `return None` are one place, wherever they stand
  bool spread = false;           // operands of `and` and `or` on lines of their own: jumps between lines stay
  bool eager_match = false;      // take a copy of a value for the subject of a match
};

struct Ins {
  Opcode op = Opcode::CACHE;  // which stands for "there is none"
  int arg = 0;
  int offset = -1;  // in bytes
  int target = -1;  // jumps: the instruction they go to, which may be the one behind the last
  int line = -1;
};

class Unit {
 public:
  Unit(PyCodeObject* code, const Options& options);  // throws PythonError when the code object is malformed

  PyCodeObject* code() const noexcept { return code_; }
  int size() const noexcept { return static_cast<int>(instructions_.size()); }
  // Any index may be asked: what is not there is CACHE, which no template expects.
  const Ins& operator[](int at) const noexcept {
    return at >= 0 && at < size() ? instructions_[static_cast<std::size_t>(at)] : kNothing;
  }
  bool is(int at, Opcode op) const noexcept { return (*this)[at].op == op; }
  const std::vector<int>& sources(int at) const noexcept;  // jumps that lead there
  int cover(int at) const noexcept { return at >= 0 && at < size() ? cover_[static_cast<std::size_t>(at)] : -1; }
  bool inside(int at, int handler) const noexcept;  // covered by it, or by a handler that it covers
  int start_of(int handler) const noexcept;         // the first instruction that it covers; -1: no handler
  int depth_of(int handler) const noexcept;         // how much of the stack it keeps
  const std::vector<int>& handlers() const noexcept { return handlers_; }
  // Behind jumps that only lead on.
  int resolve(int at) const noexcept;
  // `return None` stands there.
  bool returns_none(int at) const noexcept;
  bool is_class() const noexcept { return (code_->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) == 0; }
  bool tests_at_end() const noexcept { return tests_at_end_; }  // there is a conditional jump backward

 private:
  void read(const Options& options, const std::vector<bool>& dead);
  std::vector<bool> unreachable() const;
  void find_handlers();

  static const Ins kNothing;
  PyCodeObject* code_;
  std::vector<Ins> instructions_;
  std::vector<int> index_;  // decoded instruction -> the first one here that is not before it
  std::vector<std::vector<int>> sources_;
  std::vector<int> cover_, start_, depth_, handlers_;
  bool tests_at_end_ = false;
  bool merge_exits_ = false;
  int first_exit_ = -1;  // the first `return None`
};

constexpr bool is_condition(Opcode op) {
  using enum Opcode;
  return op == POP_JUMP_FORWARD_IF_FALSE || op == POP_JUMP_FORWARD_IF_TRUE || op == POP_JUMP_BACKWARD_IF_FALSE ||
         op == POP_JUMP_BACKWARD_IF_TRUE || op == POP_JUMP_FORWARD_IF_NONE || op == POP_JUMP_BACKWARD_IF_NONE ||
         op == POP_JUMP_FORWARD_IF_NOT_NONE || op == POP_JUMP_BACKWARD_IF_NOT_NONE || op == JUMP_IF_FALSE_OR_POP ||
         op == JUMP_IF_TRUE_OR_POP;
}
constexpr bool is_backward_condition(Opcode op) {
  using enum Opcode;
  return op == POP_JUMP_BACKWARD_IF_FALSE || op == POP_JUMP_BACKWARD_IF_TRUE || op == POP_JUMP_BACKWARD_IF_NONE ||
         op == POP_JUMP_BACKWARD_IF_NOT_NONE;
}
constexpr bool asks_for_none(Opcode op) {
  using enum Opcode;
  return op == POP_JUMP_FORWARD_IF_NONE || op == POP_JUMP_BACKWARD_IF_NONE || op == POP_JUMP_FORWARD_IF_NOT_NONE ||
         op == POP_JUMP_BACKWARD_IF_NOT_NONE;
}
constexpr bool asks_for_not_none(Opcode op) {
  return op == Opcode::POP_JUMP_FORWARD_IF_NOT_NONE || op == Opcode::POP_JUMP_BACKWARD_IF_NOT_NONE;
}
constexpr bool jumps_if_true(Opcode op) {
  using enum Opcode;
  return op == POP_JUMP_FORWARD_IF_TRUE || op == POP_JUMP_BACKWARD_IF_TRUE || op == JUMP_IF_TRUE_OR_POP;
}
constexpr bool keeps_value(Opcode op) {
  return op == Opcode::JUMP_IF_TRUE_OR_POP || op == Opcode::JUMP_IF_FALSE_OR_POP;
}
constexpr bool is_plain_jump(Opcode op) { return op == Opcode::JUMP_FORWARD || op == Opcode::JUMP_BACKWARD; }
constexpr bool leaves(Opcode op) {  // RETURN_VALUE, RAISE_VARARGS, RERAISE
  return op == Opcode::RETURN_VALUE || op == Opcode::RAISE_VARARGS || op == Opcode::RERAISE;
}
constexpr bool ends(Opcode op) {  // control does not go on behind it
  return leaves(op) || is_plain_jump(op) || op == Opcode::JUMP_BACKWARD_NO_INTERRUPT;
}
constexpr bool compares(Opcode op) {
  return op == Opcode::COMPARE_OP || op == Opcode::IS_OP || op == Opcode::CONTAINS_OP;
}
constexpr bool is_store(Opcode op) {
  using enum Opcode;
  return op == STORE_FAST || op == STORE_NAME || op == STORE_GLOBAL || op == STORE_DEREF;
}
constexpr bool is_delete(Opcode op) {
  using enum Opcode;
  return op == DELETE_FAST || op == DELETE_NAME || op == DELETE_GLOBAL || op == DELETE_DEREF;
}

}  // namespace pellucid::decompile
