#include "bytecode/instruction.h"

#include <algorithm>
#include <memory>

#include "bytecode/code_units.h"
#include "py/cpython.h"

namespace pellucid::bytecode {
namespace {

[[noreturn]] void malformed(const char* why) {
  PyErr_Format(PyExc_ValueError, "malformed code object: %s", why);
  py::throw_pending();
}

std::string_view view_of(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

int jump_offset(const Instruction& jump) {
  const int distance = 2 * jump.arg;
  return info(jump.op).operand == Operand::Forward ? jump.end() + distance : jump.end() - distance;
}

// co_extra frees with the code object, perhaps while the interpreter shuts down: only plain memory may be released.
void free_decoded(void* decoded) { delete static_cast<DecodedCode*>(decoded); }

Py_ssize_t extra_index() {
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(free_decoded);
  return index;
}

}  // namespace

DecodedCode::DecodedCode(PyCodeObject* code) : code_(code) {
  if (!has_whole_instructions(code)) malformed("ends within an instruction");
  const auto bytes = py::take(PyCode_GetCode(code));  // CPython maps specialised opcodes back and clears the caches
  const std::string_view text = view_of(bytes.get());
  decode_instructions({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  resolve_jumps();
  decode_exceptions();
}

void DecodedCode::decode_instructions(std::span<const std::uint8_t> bytes) {
  index_of_unit_.assign(bytes.size() / 2, -1);
  instructions_.reserve(bytes.size() / 4);
  std::uint32_t extended_arg = 0;
  std::uint8_t extended = 0;
  for (std::size_t at = 0; at + 1 < bytes.size();) {
    const auto op = static_cast<Opcode>(bytes[at]);
    // PyCode_GetCode turns an unknown opcode into CACHE, which never stands alone.
    if (info(op).name.empty() || op == Opcode::CACHE) malformed("unknown opcode");
    const std::uint32_t arg = (extended_arg << 8) | bytes[at + 1];
    if (op == Opcode::EXTENDED_ARG) {
      if (++extended > 3) malformed("too many EXTENDED_ARG");
      extended_arg = arg;
      at += 2;
      continue;
    }
    const auto index = static_cast<std::int32_t>(instructions_.size());
    const Instruction decoded{op, extended, static_cast<std::int32_t>(arg), static_cast<std::int32_t>(at), -1};
    index_of_unit_[static_cast<std::size_t>(decoded.start()) / 2] = index;
    index_of_unit_[at / 2] = index;
    instructions_.push_back(decoded);
    at = static_cast<std::size_t>(decoded.end());
    extended_arg = 0;
    extended = 0;
  }
  if (extended != 0) malformed("ends with EXTENDED_ARG");
}

void DecodedCode::resolve_jumps() {
  for (Instruction& instruction : instructions_) {
    if (!is_jump(instruction.op)) continue;
    instruction.target = index_at(jump_offset(instruction));
    if (instruction.target < 0 ||
        instructions_[static_cast<std::size_t>(instruction.target)].start() != jump_offset(instruction)) {
      malformed("a jump into the middle of an instruction");
    }
  }
}

void DecodedCode::decode_exceptions() {
  const int code_size = instructions_.empty() ? 0 : instructions_.back().end();
  const auto index_of = [&](int offset) {
    const int index = offset == code_size ? size() : index_at(offset);
    if (index < 0) malformed("an exception range that does not start at an instruction");
    return index;
  };
  for (const ExceptionEntry& entry : parse_exception_table(py::exception_table(code_))) {
    exceptions_.push_back(
        {index_of(entry.start), index_of(entry.end), index_of(entry.target), entry.depth, entry.lasti});
    if (exceptions_.back().target == size()) malformed("an exception handler behind the end");
  }
}

const ExceptionRange* DecodedCode::handler_of(int index) const noexcept {
  auto after = std::upper_bound(exceptions_.begin(), exceptions_.end(), index,
                                [](int at, const ExceptionRange& range) { return at < range.begin; });
  if (after == exceptions_.begin()) return nullptr;
  const ExceptionRange& range = *(after - 1);
  return index < range.end ? &range : nullptr;
}

const DecodedCode& decoded(PyCodeObject* code) {
  auto* owner = reinterpret_cast<PyObject*>(code);
  void* known = nullptr;
  py::check(_PyCode_GetExtra(owner, extra_index(), &known));
  if (known != nullptr) return *static_cast<DecodedCode*>(known);
  auto fresh = std::make_unique<DecodedCode>(code);
  py::check(_PyCode_SetExtra(owner, extra_index(), fresh.get()));
  return *fresh.release();
}

}  // namespace pellucid::bytecode
