// A code object, decoded: instructions without caches, EXTENDED_ARG and specialised opcodes, with jumps as instruction
// indexes.
//
// `decoded(code)` decodes once and keeps the result on the code object (co_extra), so asking again costs a pointer
// load. What it gives is immutable and lives as long as the code object.
#pragma once
#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bytecode/exception_table.h"
#include "bytecode/opcodes.h"
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
  // The instruction there, which must be one.
  const Instruction& at(int offset) const noexcept { return (*this)[index_at(offset)]; }

  // The handler that takes an exception raised by instruction `index`, or null.
  const ExceptionRange* handler_of(int index) const noexcept;

 private:
  void decode_instructions(std::span<const std::uint8_t> bytes);
  void resolve_jumps();
  void decode_exceptions();

  PyCodeObject* code_;
  std::vector<Instruction> instructions_;
  std::vector<std::int32_t> index_of_unit_;
  std::vector<ExceptionRange> exceptions_;
};

// Throws PythonError (ValueError) when the code object is malformed.
const DecodedCode& decoded(PyCodeObject* code);

}  // namespace pellucid::bytecode
