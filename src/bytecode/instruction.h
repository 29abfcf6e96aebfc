// A code object, decoded: instructions without caches, EXTENDED_ARG and specialised opcodes, with jumps as instruction
// indexes.
//
// `decoded(code)` decodes once and keeps the result on the code object (co_extra), so asking again costs a pointer
// load. What it gives is immutable, lives as long as the code object, and borrows constants and names from it.
#pragma once
#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bytecode/exception_table.h"
#include "bytecode/opcodes.h"
#include "bytecode/position.h"
#include "py/ref.h"

namespace pellucid::bytecode {

struct Instruction {
  Opcode op = Opcode::NOP;
  std::uint8_t extended = 0;  // EXTENDED_ARG prefixes in front of it; when assembling: at least that many
  std::int32_t arg = 0;       // complete; of no meaning for jumps when assembling
  std::int32_t offset = 0;    // of the opcode itself, in bytes: what dis and frame.f_lasti show
  std::int32_t target = -1;   // jumps: index of the instruction they go to

  int start() const noexcept { return offset - 2 * extended; }  // where a jump to it lands
  int end() const noexcept { return offset + 2 + 2 * info(op).caches; }
};

// A row of the exception table in instruction indexes.
struct ExceptionRange {
  int begin = 0, end = 0;  // [begin, end)
  int target = 0;
  int depth = 0;
  bool lasti = false;
  bool operator==(const ExceptionRange&) const = default;
  int handler_depth() const noexcept { return depth + (lasti ? 1 : 0) + 1; }
};

class DecodedCode {
 public:
  explicit DecodedCode(PyCodeObject* code);

  const std::vector<Instruction>& instructions() const noexcept { return instructions_; }
  const Instruction& operator[](int index) const noexcept { return instructions_[static_cast<std::size_t>(index)]; }
  int size() const noexcept { return static_cast<int>(instructions_.size()); }
  // Index of the instruction at a byte offset: the offset of the opcode or of its first EXTENDED_ARG; else -1.
  int index_at(int offset) const noexcept {
    const auto unit = static_cast<std::size_t>(offset) / 2;
    return offset >= 0 && unit < index_of_unit_.size() ? index_of_unit_[unit] : -1;
  }

  const std::vector<ExceptionRange>& exceptions() const noexcept { return exceptions_; }
  // The handler that takes an exception raised by instruction `index`, or null.
  const ExceptionRange* handler_of(int index) const noexcept;

  // Positions are decoded when first asked for.
  const std::vector<Position>& positions() const;
  const Position& position(int index) const { return positions()[static_cast<std::size_t>(index)]; }

  PyCodeObject* code() const noexcept { return code_; }  // borrowed
  PyObject* const_at(int i) const noexcept { return PyTuple_GET_ITEM(code_->co_consts, i); }
  PyObject* name_at(int i) const noexcept { return PyTuple_GET_ITEM(code_->co_names, i); }
  // Name of a slot of localsplus: locals, then cells that are no arguments, then free variables.
  PyObject* local_name(int slot) const noexcept { return PyTuple_GET_ITEM(code_->co_localsplusnames, slot); }
  // The name or constant that the instruction's argument stands for (borrowed), or null.
  PyObject* operand_of(const Instruction& instruction) const noexcept;

 private:
  void decode_instructions(std::span<const std::uint8_t> bytes);
  void resolve_jumps();
  void decode_exceptions();

  PyCodeObject* code_;
  std::vector<Instruction> instructions_;
  std::vector<std::int32_t> index_of_unit_;
  std::vector<ExceptionRange> exceptions_;
  mutable std::vector<Position> positions_;
};

// Throws PythonError (ValueError) when the code object is malformed.
const DecodedCode& decoded(PyCodeObject* code);

}  // namespace pellucid::bytecode
