// Decoded facts about code objects: bytes with specialised instructions mapped back, and the exception table in flat
// form. One table belongs to one capture, so no code object outlives its user because of us.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "objects/frame.h"

namespace pellucid::trace {

class CodeTable {
 public:
  const objects::CodeInfo* find(PyCodeObject* code);

 private:
  std::unordered_map<PyCodeObject*, std::unique_ptr<objects::CodeInfo>> table_;
  std::vector<py::Owned<PyCodeObject>> held_;
};
void hide_code(PyCodeObject* code);  // polyfills: their frames do not show in user stacks

// Target of the handler that covers `offset` (bytes), with stack depth and whether lasti is pushed; false when none.
struct Handler {
  int target, depth;
  bool lasti;
};
bool find_handler(const objects::CodeInfo& info, int offset, Handler* out);

std::uint8_t cache_units(std::uint8_t opcode) noexcept;  // inline cache entries behind the instruction
inline constexpr std::uint8_t kExtendedArg = 144;

// The instruction that starts at `start`, with its EXTENDED_ARGs.
struct Instruction {
  std::uint8_t opcode;
  int arg, at, next;  // `at`: of the instruction itself, behind EXTENDED_ARG; `next`: behind its inline cache
};
inline Instruction instruction_at(const std::uint8_t* units, int start) noexcept {
  int at = start;
  int arg = units[at + 1];
  while (units[at] == kExtendedArg) {
    at += 2;
    arg = (arg << 8) | units[at + 1];
  }
  return {units[at], arg, at, at + 2 + 2 * cache_units(units[at])};
}

}  // namespace pellucid::trace
