// CPython 3.11's opcodes as a table that can be asked (rows in opcodes.def). Specialised (adaptive) opcodes are not in
// it: decode maps them back, so nothing behind it ever sees one.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace pellucid::bytecode {

enum class Opcode : std::uint8_t {
#define OP(number, name, ...) name = number,
#include "bytecode/opcodes.def"
};

enum class Operand : std::uint8_t {
  None,
  Const,       // index into co_consts
  Name,        // index into co_names
  GlobalName,  // index into co_names, shifted by one; bit 0: push NULL first
  Local,       // slot of a local variable
  Deref,       // slot of a cell or free variable, counted in localsplus (locals first, then cells, then free variables)
  Compare,     // Py_LT … Py_GE
  Operator,    // NB_ADD … (Operator below)
  Invert,      // 1: `is not`, `not in`
  Forward,     // distance in code units behind this instruction
  Backward,    // distance in code units before the end of this instruction
  Count,       // number of items
  Depth,       // position in the stack, 1 is the top
  Flags,
};

enum class Flow : std::uint8_t { Next, Jump, Branch, Return, Raise };

// What capture does at an instruction.
enum class Policy : std::uint8_t {
#define POLICY(name, why) name,
#include "bytecode/opcodes.def"
};

enum class Operator : std::uint8_t {
#define BINARY(number, name, ...) name = number,
#include "py/operators.def"
};

struct OpInfo {
  std::string_view name;    // empty: there is no such opcode
  std::uint8_t caches = 0;  // code units of inline cache behind the instruction
  Operand operand = Operand::None;
  Flow flow = Flow::Next;
  Policy policy = Policy::Unreachable;
  std::string_view words;  // what the user wrote for it; empty: nothing that has a name
};

namespace detail {
inline constexpr auto kTable = [] {
  std::array<OpInfo, 256> table{};
#define OP(number, name, caches, pops, pushes, looks, operand, flow, real, policy, words) \
  table[number] = OpInfo{#name, caches, Operand::operand, Flow::flow, Policy::policy, words};
#include "bytecode/opcodes.def"
  return table;
}();
}  // namespace detail

constexpr const OpInfo& info(Opcode op) { return detail::kTable[static_cast<std::uint8_t>(op)]; }
constexpr std::string_view name_of(Opcode op) { return info(op).name; }
constexpr bool has_arg(Opcode op) { return static_cast<std::uint8_t>(op) >= 90; }
constexpr bool is_jump(Opcode op) {
  return info(op).operand == Operand::Forward || info(op).operand == Operand::Backward;
}
constexpr bool falls_through(Opcode op) { return info(op).flow == Flow::Next || info(op).flow == Flow::Branch; }

constexpr int pops(Opcode op, [[maybe_unused]] int arg, [[maybe_unused]] bool jump = false) {
  switch (op) {
#define OP(number, name, caches, pops, pushes, ...) \
  case Opcode::name:                                \
    return pops;
#include "bytecode/opcodes.def"
  }
  return 0;
}

constexpr int pushes(Opcode op, [[maybe_unused]] int arg, [[maybe_unused]] bool jump = false) {
  switch (op) {
#define OP(number, name, caches, pops, pushes, ...) \
  case Opcode::name:                                \
    return pushes;
#include "bytecode/opcodes.def"
  }
  return 0;
}

// How many of the topmost values capture's rule looks at.
constexpr int looks(Opcode op, [[maybe_unused]] int arg) {
  [[maybe_unused]] constexpr bool jump = false;
  switch (op) {
#define OP(number, name, caches, pops, pushes, looks, ...) \
  case Opcode::name:                                       \
    return looks;
#include "bytecode/opcodes.def"
  }
  return 0;
}

// Change of the stack's depth; `jump`: the branch is taken.
constexpr int stack_effect(Opcode op, int arg, bool jump = false) {
  return pushes(op, arg, jump) - pops(op, arg, jump);
}

}  // namespace pellucid::bytecode
