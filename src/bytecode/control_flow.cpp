#include "bytecode/control_flow.h"

#include <algorithm>

namespace pellucid::bytecode {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<bool> leaders_of(const Program& program) {
  std::vector<bool> leads(program.instructions.size() + 1, false);
  leads[0] = true;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.target >= 0) leads[at(instruction.target)] = true;
    if (info(instruction.op).flow != Flow::Next) leads[i + 1] = true;
  }
  for (const ExceptionRange& range : program.exceptions)
    leads[at(range.begin)] = leads[at(range.end)] = leads[at(range.target)] = true;
  return leads;
}

void connect(ControlFlow& flow, const Program& program) {
  for (std::size_t b = 0; b < flow.blocks.size(); ++b) {
    Block& block = flow.blocks[b];
    const Instruction& last = program.instructions[at(block.end) - 1];
    if (falls_through(last.op) && b + 1 < flow.blocks.size()) block.successors.push_back(static_cast<int>(b) + 1);
    if (last.target >= 0) block.successors.push_back(flow.block_of[at(last.target)]);
    for (const ExceptionRange& range : program.exceptions) {
      if (range.begin <= block.begin && block.begin < range.end)
        block.handlers.push_back(flow.block_of[at(range.target)]);
    }
  }
}

bool add_all(Bits& to, const Bits& from) {
  bool grew = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (from[i] && !to[i]) to[i] = grew = true;
  }
  return grew;
}

void step_back(const Instruction& instruction, Bits& live) {
  const Operand operand = info(instruction.op).operand;
  if (operand == Operand::Deref) live[at(instruction.arg)] = true;
  if (operand == Operand::Local)
    live[at(instruction.arg)] = instruction.op != Opcode::STORE_FAST;  // DELETE_FAST checks it
}

}  // namespace

ControlFlow control_flow(const Program& program) {
  ControlFlow flow;
  if (program.instructions.empty()) return flow;
  const auto leads = leaders_of(program);
  flow.block_of.resize(program.instructions.size());
  const auto size = static_cast<int>(program.instructions.size());
  for (int i = 0; i < size; ++i) {
    if (leads[at(i)]) flow.blocks.push_back({i, i, {}, {}});
    flow.blocks.back().end = i + 1;
    flow.block_of[at(i)] = static_cast<int>(flow.blocks.size()) - 1;
  }
  connect(flow, program);
  return flow;
}

std::vector<Bits> live_locals(const Program& program, int slots) {
  const ControlFlow flow = control_flow(program);
  std::vector<Bits> before(program.instructions.size(), Bits(at(slots), false));
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block = flow.blocks.rbegin(); block != flow.blocks.rend(); ++block) {
      Bits in_handlers(at(slots), false);
      for (const int handler : block->handlers) add_all(in_handlers, before[at(flow.blocks[at(handler)].begin)]);
      Bits live = in_handlers;
      for (const int next : block->successors) add_all(live, before[at(flow.blocks[at(next)].begin)]);
      for (int i = block->end - 1; i >= block->begin; --i) {
        step_back(program.instructions[at(i)], live);
        add_all(live, in_handlers);  // any instruction may raise
        changed = add_all(before[at(i)], live) || changed;
      }
    }
  }
  return before;
}

}  // namespace pellucid::bytecode
