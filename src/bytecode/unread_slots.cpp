#include "bytecode/unread_slots.h"

#include <algorithm>

namespace pellucid::bytecode {
namespace {

template <class Visit>
void each_next(const DecodedCode& code, int index, Visit&& visit) {
  const Instruction& at = code[index];
  if (const ExceptionRange* handler = code.handler_of(index)) visit(handler->target);
  if (falls_through(at.op) && index + 1 < code.size()) visit(index + 1);
  if (at.target >= 0) visit(at.target);
}

// Instructions that can be reached, each once.
class Reached {
 public:
  explicit Reached(const DecodedCode& code) : seen_(static_cast<std::size_t>(code.size())) {}

  void add(int index) {
    if (seen_[static_cast<std::size_t>(index)]) return;
    seen_[static_cast<std::size_t>(index)] = true;
    pending_.push_back(index);
  }
  // -1: there is none left.
  int take() {
    if (pending_.empty()) return -1;
    const int index = pending_.back();
    pending_.pop_back();
    return index;
  }
  bool has(int index) const { return seen_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<bool> seen_;
  std::vector<int> pending_;
};

Reached reached_behind(const DecodedCode& code, int index) {
  Reached reached(code);
  for (int at = index; at >= 0; at = reached.take()) each_next(code, at, [&](int next) { reached.add(next); });
  return reached;
}

}  // namespace

bool is_read_from(const DecodedCode& code, int index, int slot) {
  Reached reached(code);
  reached.add(index);
  for (int at = reached.take(); at >= 0; at = reached.take()) {
    const Instruction& instruction = code[at];
    const Operand operand = info(instruction.op).operand;
    const bool is_its = (operand == Operand::Local || operand == Operand::Deref) && instruction.arg == slot;
    if (is_its && instruction.op != Opcode::STORE_FAST) return true;
    if (!is_its) each_next(code, at, [&](int next) { reached.add(next); });
  }
  return false;
}

std::vector<int> stored_on_the_way_back(const DecodedCode& code, int index) {
  const Reached behind = reached_behind(code, index);
  std::vector<int> slots;
  if (!behind.has(index)) return slots;
  for (int at = 0; at < code.size(); ++at) {
    if (!behind.has(at) || code[at].op != Opcode::STORE_FAST) continue;
    if (std::ranges::find(slots, code[at].arg) == slots.end() && reached_behind(code, at).has(index))
      slots.push_back(code[at].arg);
  }
  return slots;
}

}  // namespace pellucid::bytecode
