#include <algorithm>

#include "bytecode/instruction.h"
#include "decompile/units.h"

namespace pellucid::decompile {

const Ins Unit::kNothing;

namespace {

constexpr int kLongestCopy = 14;

bool is_silent(Opcode op) { return op == Opcode::NOP || op == Opcode::RESUME; }
bool has_trace(Opcode op) { return op != Opcode::CACHE && op != Opcode::EXTENDED_ARG && op != Opcode::PRECALL; }

// The copies of ends of the function: all but the last of a row of equal ones, as indexes of decoded instructions.
class Copies {
 public:
  Copies(const bytecode::DecodedCode& code, const std::vector<int>& real, PyObject* constants)
      : code_(code), real_(real), constants_(constants), only_returns_from_(real.size() + 2, true) {
    for (int at = static_cast<int>(real_.size()) - 2; at >= 0; --at) {
      only_returns_from_[static_cast<std::size_t>(at)] =
          returns_none(at) && only_returns_from_[static_cast<std::size_t>(at) + 2];
    }
  }

  std::vector<int> find(bool inside) const {
    std::vector<int> found;
    const int size = static_cast<int>(real_.size());
    for (int at = 0; at + 3 < size; ++at) {
      if (returns_none(at) && returns_none(at + 2) && (inside || only_returns_from_[static_cast<std::size_t>(at)])) {
        found.push_back(place(at));
        found.push_back(place(at + 1));
      }
    }
    for (int at = 0; at < size; ++at) {
      if (op(at) == Opcode::POP_EXCEPT) add_copied_unwinding(at, found);
    }
    for (int at = 0; at + 1 < size; ++at) {
      if (op(at) == op(at + 1) && (op(at) == Opcode::RERAISE || op(at) == Opcode::RETURN_VALUE) &&
          ins(at).arg == ins(at + 1).arg) {
        found.push_back(place(at));
      }
    }
    return found;
  }

 private:
  int place(int at) const { return real_[static_cast<std::size_t>(at)]; }
  const bytecode::Instruction& ins(int at) const { return code_[place(at)]; }
  Opcode op(int at) const { return ins(at).op; }
  bool returns_none(int at) const {
    const int arg = ins(at).arg;
    return op(at) == Opcode::LOAD_CONST && arg >= 0 && arg < PyTuple_GET_SIZE(constants_) &&
           PyTuple_GET_ITEM(constants_, arg) == Py_None && op(at + 1) == Opcode::RETURN_VALUE;
  }
  void add_copied_unwinding(int at, std::vector<int>& found) const {
    const int size = static_cast<int>(real_.size());
    for (int length = 2; length < kLongestCopy; ++length) {
      if (at + 2 * length > size || op(at + length - 1) != Opcode::RETURN_VALUE) continue;
      bool equal = true;
      for (int k = 0; k < length && equal; ++k) {
        equal = op(at + k) == op(at + length + k) && ins(at + k).arg == ins(at + length + k).arg;
      }
      if (!equal) continue;
      for (int k = 0; k < length; ++k) found.push_back(place(at + k));
      return;
    }
  }

  const bytecode::DecodedCode& code_;
  const std::vector<int>& real_;
  PyObject* constants_;
  std::vector<bool> only_returns_from_;  // to the end of the text there is nothing but `return None`
};

}  // namespace

Unit::Unit(PyCodeObject* code, const Options& options) : code_(code) {
  const auto& decoded = bytecode::decoded(code);
  read(options, std::vector<bool>(static_cast<std::size_t>(decoded.size()), false));
  const std::vector<bool> dead = unreachable();
  if (std::find(dead.begin(), dead.end(), true) != dead.end()) read(options, dead);
  find_handlers();
  if (!options.merge_exits) return;
  merge_exits_ = true;
  while (first_exit_ < size() && !returns_none(first_exit_)) ++first_exit_;
}

void Unit::read(const Options& options, const std::vector<bool>& dead) {
  const auto& decoded = bytecode::decoded(code_);
  const auto count = static_cast<std::size_t>(decoded.size());
  std::vector<bool> silent(count), traced(count);
  std::vector<int> real;
  for (std::size_t k = 0; k < count; ++k) {
    const Opcode op = decoded[static_cast<int>(k)].op;
    traced[k] = has_trace(op);
    silent[k] = is_silent(op) || dead[k];
    if (traced[k] && !silent[k]) real.push_back(static_cast<int>(k));
  }
  if (options.collapse) {
    const Copies copies(decoded, real, code_->co_consts);
    for (const int k : copies.find(options.collapse_inside)) silent[static_cast<std::size_t>(k)] = true;
  }
  // A handler that covers nothing but silent instructions needs one to stand for what it covers.
  std::vector<bool> covers(count + 1, false), kept(count, false);
  std::vector<int> stand_in(count + 1, -1);
  for (const auto& range : decoded.exceptions()) {
    const auto target = static_cast<std::size_t>(range.target);
    for (int k = range.begin; k < range.end; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (!traced[at]) continue;
      if (!silent[at]) covers[target] = true;
      if (silent[at] && !dead[at] && (stand_in[target] < 0 || k < stand_in[target])) stand_in[target] = k;
    }
  }
  for (std::size_t target = 0; target <= count; ++target) {
    if (!covers[target] && stand_in[target] >= 0) kept[static_cast<std::size_t>(stand_in[target])] = true;
  }
  instructions_.clear();
  index_.assign(count + 1, 0);
  for (std::size_t k = 0; k < count; ++k) {
    index_[k] = size();
    if (!traced[k] || (silent[k] && !kept[k])) continue;
    const auto& from = decoded[static_cast<int>(k)];
    instructions_.push_back({silent[k] ? Opcode::NOP : from.op, from.arg, from.offset, -1, -1});
    if (!silent[k] && bytecode::is_jump(from.op)) instructions_.back().target = from.target;
  }
  index_[count] = size();
  sources_.assign(instructions_.size() + 1, {});
  tests_at_end_ = false;
  for (int k = 0; k < size(); ++k) {
    Ins& ins = instructions_[static_cast<std::size_t>(k)];
    if (ins.target >= 0) {
      ins.target = index_[static_cast<std::size_t>(ins.target)];
      sources_[static_cast<std::size_t>(ins.target)].push_back(k);
    }
    tests_at_end_ = tests_at_end_ || is_backward_condition(ins.op);
  }
  cover_.assign(instructions_.size() + 1, -1);
  depth_.assign(instructions_.size() + 1, -1);
  for (const auto& range : decoded.exceptions()) {
    const int target = index_[static_cast<std::size_t>(range.target)];
    for (int k = index_[static_cast<std::size_t>(range.begin)]; k < index_[static_cast<std::size_t>(range.end)]; ++k) {
      cover_[static_cast<std::size_t>(k)] = target;
    }
    depth_[static_cast<std::size_t>(target)] = range.depth;
  }
}

std::vector<bool> Unit::unreachable() const {
  std::vector<bool> seen(instructions_.size(), false);
  std::vector<int> open{0};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at >= size() || seen[static_cast<std::size_t>(at)]) continue;
    seen[static_cast<std::size_t>(at)] = true;
    const Ins& ins = instructions_[static_cast<std::size_t>(at)];
    if (ins.target >= 0) open.push_back(ins.target);
    if (!ends(ins.op)) open.push_back(at + 1);
    if (cover(at) >= 0) open.push_back(cover(at));
  }
  const auto& decoded = bytecode::decoded(code_);
  std::vector<bool> dead(static_cast<std::size_t>(decoded.size()), false);
  for (int at = 0; at < size(); ++at) {
    if (seen[static_cast<std::size_t>(at)]) continue;
    const int k = decoded.index_at(instructions_[static_cast<std::size_t>(at)].offset);
    if (k >= 0) dead[static_cast<std::size_t>(k)] = true;
  }
  return dead;
}

void Unit::find_handlers() {
  start_.assign(instructions_.size() + 1, -1);
  handlers_.clear();
  for (int at = 0; at < size(); ++at) {
    const int target = cover(at);
    if (target >= 0) handlers_.push_back(target);
    int steps = 0;
    for (int t = target; t >= 0 && steps <= size(); t = cover(t), ++steps) {
      int& start = start_[static_cast<std::size_t>(t)];
      if (at < t && (start < 0 || at < start)) start = at;
    }
  }
  std::sort(handlers_.begin(), handlers_.end());
  handlers_.erase(std::unique(handlers_.begin(), handlers_.end()), handlers_.end());
}

const std::vector<int>& Unit::sources(int at) const noexcept {
  static const std::vector<int> none;
  return at >= 0 && at <= size() ? sources_[static_cast<std::size_t>(at)] : none;
}

bool Unit::inside(int at, int handler) const noexcept {
  int steps = 0;
  for (int t = cover(at); t >= 0 && steps <= size(); t = cover(t), ++steps) {
    if (t == handler) return true;
  }
  return false;
}

int Unit::start_of(int handler) const noexcept {
  return handler >= 0 && handler <= size() ? start_[static_cast<std::size_t>(handler)] : -1;
}

int Unit::depth_of(int handler) const noexcept {
  return handler >= 0 && handler <= size() ? depth_[static_cast<std::size_t>(handler)] : -1;
}

int Unit::resolve(int at) const noexcept {
  for (int steps = 0; steps <= size() && is_plain_jump((*this)[at].op); ++steps) at = (*this)[at].target;
  return merge_exits_ && returns_none(at) ? first_exit_ : at;
}

bool Unit::returns_none(int at) const noexcept {
  const Ins& ins = (*this)[at];
  if (ins.op != Opcode::LOAD_CONST || (*this)[at + 1].op != Opcode::RETURN_VALUE) return false;
  return ins.arg >= 0 && ins.arg < PyTuple_GET_SIZE(code_->co_consts) &&
         PyTuple_GET_ITEM(code_->co_consts, ins.arg) == Py_None;
}

}  // namespace pellucid::decompile
