#include "bytecode/program.h"

#include <algorithm>

#include "bytecode/line_table.h"

namespace pellucid::bytecode {
namespace {

[[noreturn]] void cannot_assemble(const char* why, const Instruction& instruction) {
  PyErr_Format(PyExc_ValueError, "cannot assemble %s: %s", name_of(instruction.op).data(), why);
  py::throw_pending();
}

std::uint8_t prefixes_for(std::int32_t arg) {
  const auto value = static_cast<std::uint32_t>(arg);
  return value > 0xFFFFFF ? 3 : value > 0xFFFF ? 2 : value > 0xFF ? 1 : 0;
}

void place(std::vector<Instruction>& instructions) {
  int at = 0;
  for (Instruction& instruction : instructions) {
    instruction.offset = at + 2 * instruction.extended;
    at = instruction.end();
  }
}

std::int32_t jump_arg(const Instruction& jump, const Instruction& target) {
  const int distance = (target.start() - jump.end()) / 2;
  const std::int32_t arg = info(jump.op).operand == Operand::Forward ? distance : -distance;
  if (arg < 0) cannot_assemble("it cannot jump in that direction", jump);
  return arg;
}

// Widening a jump moves what is behind it, which may widen others: repeat until nothing grows. Nothing ever shrinks, so
// it ends.
bool settle_jumps(std::vector<Instruction>& instructions) {
  place(instructions);
  bool grew = false;
  for (Instruction& instruction : instructions) {
    if (is_jump(instruction.op))
      instruction.arg = jump_arg(instruction, instructions[static_cast<std::size_t>(instruction.target)]);
    const std::uint8_t needed = prefixes_for(instruction.arg);
    if (needed > instruction.extended) {
      instruction.extended = needed;
      grew = true;
    }
  }
  return grew;
}

void check_targets(const Program& program) {
  const auto size = static_cast<int>(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    if (is_jump(instruction.op) && (instruction.target < 0 || instruction.target >= size)) {
      cannot_assemble("its target does not exist", instruction);
    }
  }
}

std::string emit_code(const std::vector<Instruction>& instructions) {
  std::string out;
  const auto unit = [&out](Opcode op, std::uint32_t arg) {
    out.push_back(static_cast<char>(op));
    out.push_back(static_cast<char>(arg & 0xFF));
  };
  for (const Instruction& instruction : instructions) {
    const auto arg = static_cast<std::uint32_t>(instruction.arg);
    for (int prefix = instruction.extended; prefix > 0; --prefix) unit(Opcode::EXTENDED_ARG, arg >> (8 * prefix));
    unit(instruction.op, arg);
    out.append(2 * static_cast<std::size_t>(info(instruction.op).caches), '\0');
  }
  return out;
}

std::string emit_positions(const Program& program, int first_line) {
  std::vector<LineEntry> entries;
  entries.reserve(program.instructions.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    entries.push_back({(instruction.end() - instruction.start()) / 2, program.positions[i]});
  }
  return emit_line_table(entries, first_line);
}

std::string emit_exceptions(const Program& program) {
  const auto& instructions = program.instructions;
  const auto start_of = [&](int index) {
    const auto i = static_cast<std::size_t>(index);
    return i < instructions.size() ? instructions[i].start() : instructions.back().end();
  };
  std::vector<ExceptionEntry> entries;
  for (const ExceptionRange& range : program.exceptions) {
    entries.push_back({start_of(range.begin), start_of(range.end), start_of(range.target), range.depth, range.lasti});
  }
  return emit_exception_table(entries);
}

// The abstract run behind stack_depths: every edge once.
class DepthWalk {
 public:
  explicit DepthWalk(const Program& program)
      : program_(program), depths_(program.instructions.size(), -1), entered_(program.exceptions.size(), false) {}

  std::vector<int> run() {
    if (!depths_.empty()) reach(0, 0);
    while (!pending_.empty()) {
      const int index = pending_.back();
      pending_.pop_back();
      step(index);
    }
    return std::move(depths_);
  }

 private:
  void reach(int index, int depth) {
    if (index >= static_cast<int>(depths_.size())) {
      PyErr_SetString(PyExc_ValueError, "control runs off the end of the code");
      py::throw_pending();
    }
    int& known = depths_[static_cast<std::size_t>(index)];
    if (known == -1) {
      known = depth;
      pending_.push_back(index);
    } else if (known != depth) {
      cannot_assemble("two ways to it disagree about the stack's depth",
                      program_.instructions[static_cast<std::size_t>(index)]);
    }
  }

  void step(int index) {
    const Instruction& at = program_.instructions[static_cast<std::size_t>(index)];
    const int depth = depths_[static_cast<std::size_t>(index)];
    if (depth < pops(at.op, at.arg)) cannot_assemble("the stack is empty", at);
    enter_handlers(index);
    if (falls_through(at.op)) reach(index + 1, depth + stack_effect(at.op, at.arg, false));
    if (at.target >= 0) reach(at.target, depth + stack_effect(at.op, at.arg, true));
  }

  void enter_handlers(int index) {
    auto after = std::upper_bound(program_.exceptions.begin(), program_.exceptions.end(), index,
                                  [](int at, const ExceptionRange& range) { return at < range.begin; });
    if (after == program_.exceptions.begin()) return;
    const auto found = static_cast<std::size_t>(after - program_.exceptions.begin()) - 1;
    const ExceptionRange& range = program_.exceptions[found];
    if (index >= range.end || entered_[found]) return;
    entered_[found] = true;
    reach(range.target, range.handler_depth());
  }

  const Program& program_;
  std::vector<int> depths_;
  std::vector<bool> entered_;
  std::vector<int> pending_;
};

}  // namespace

Encoded encode(Program& program, int first_line) {
  check_targets(program);
  while (settle_jumps(program.instructions)) {
  }
  return {emit_code(program.instructions), emit_positions(program, first_line), emit_exceptions(program)};
}

std::vector<int> stack_depths(const Program& program) { return DepthWalk(program).run(); }

int max_stack_depth(const Program& program, const std::vector<int>& depths) {
  int deepest = 0;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    if (depths[i] < 0) continue;
    const Instruction& at = program.instructions[i];
    deepest = std::max({deepest, depths[i], depths[i] + stack_effect(at.op, at.arg, false),
                        depths[i] + stack_effect(at.op, at.arg, true)});
  }
  return deepest;
}

}  // namespace pellucid::bytecode
