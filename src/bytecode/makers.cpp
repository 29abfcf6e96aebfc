#include "bytecode/makers.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace pellucid::bytecode {
namespace {

using Makers = std::vector<int>;

// Runs the code with makers in the place of values. What two ways disagree on has many makers, so it ends.
class MakersWalk {
 public:
  explicit MakersWalk(const DecodedCode& code) : code_(code), before_(static_cast<std::size_t>(code.size())) {}

  Makers run(int wanted) {
    reach(0, {});
    while (!pending_.empty()) {
      const int index = pending_.back();
      pending_.pop_back();
      step(index);
    }
    return before_[static_cast<std::size_t>(wanted)].value_or(Makers{});
  }

 private:
  void reach(int index, const Makers& stack) {
    if (index >= code_.size()) return;
    std::optional<Makers>& known = before_[static_cast<std::size_t>(index)];
    bool is_news = !known;
    if (!known) known = stack;
    for (std::size_t i = 0; i < std::min(known->size(), stack.size()); ++i) {
      if ((*known)[i] == stack[i] || (*known)[i] == kManyMakers) continue;
      (*known)[i] = kManyMakers;
      is_news = true;
    }
    if (is_news) pending_.push_back(index);
  }

  void step(int index) {
    const Instruction& at = code_[index];
    const Makers before = *before_[static_cast<std::size_t>(index)];
    if (const ExceptionRange* handler = code_.handler_of(index)) {
      Makers caught = before;
      caught.resize(std::min(caught.size(), static_cast<std::size_t>(handler->depth)));
      caught.resize(static_cast<std::size_t>(handler->handler_depth()), kManyMakers);
      reach(handler->target, caught);
    }
    if (falls_through(at.op)) reach(index + 1, behind(before, index, false));
    if (at.target >= 0) reach(at.target, behind(before, index, true));
  }

  Makers behind(Makers stack, int index, bool jump) const {
    const Instruction& at = code_[index];
    const auto from_top = static_cast<std::size_t>(std::max(at.arg, 1));
    const bool is_deep_enough = from_top <= stack.size();
    if (at.op == Opcode::SWAP && is_deep_enough) {
      std::swap(stack.back(), stack[stack.size() - from_top]);
      return stack;
    }
    if (at.op == Opcode::COPY && is_deep_enough) {
      stack.push_back(stack[stack.size() - from_top]);
      return stack;
    }
    const auto popped = static_cast<std::size_t>(pops(at.op, at.arg, jump));
    stack.resize(stack.size() - std::min(popped, stack.size()));
    stack.resize(stack.size() + static_cast<std::size_t>(pushes(at.op, at.arg, jump)), index);
    return stack;
  }

  const DecodedCode& code_;
  std::vector<std::optional<Makers>> before_;
  std::vector<int> pending_;
};

}  // namespace

std::vector<int> stack_makers(const DecodedCode& code, int index) { return MakersWalk(code).run(index); }

}  // namespace pellucid::bytecode
