#include "guards/costs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "guards/traits.h"

namespace pellucid::guards {

// Runs the ops of the hot program one by one. A friend of GuardProgram.
class CostMeter {
 public:
  CostMeter(GuardProgram& program, PyObject* const* locals, PyObject* closure, int repeats)
      : program_(program), frame_{locals, closure}, repeats_(std::max(repeats, 1)) {}

  Costs measure() {
    Costs costs;
    for (int i = 0; i < kWarm && program_.check(frame_.locals, frame_.closure); ++i) continue;
    costs.call = nanoseconds_of([&] { return program_.check(frame_.locals, frame_.closure); });
    empty_ = nanoseconds_of([&] { return program_.run(0, 0, frame_); });
    for (std::uint32_t i = 0; i < program_.ambient_end_; ++i) add_check(i, nanoseconds_of([&] { return ambient(i); }));
    for (std::uint32_t at = 0; at < program_.hot_.size(); ++at) add_op(at);
    add_conditions();
    for (const auto& late : program_.late_) {
      const auto holds_now = [&] {
        return guards::holds(program_.checks_[late.check], program_.nodes_[late.node].value, nullptr);
      };
      add_check(late.check, nanoseconds_of(holds_now));
    }
    program_.gathers_ = false;
    take(costs);
    return costs;
  }

 private:
  static constexpr int kWarm = 64, kRounds = 5;
  using Program = GuardProgram;

  template <class Step>
  double nanoseconds_of(Step&& step) {
    double best = std::numeric_limits<double>::max();
    for (int round = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats_; ++i) {
        const bool held = step();
        program_.temporaries_.values.clear();
        if (!held) return 0;
      }
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / repeats_);
    }
    return best;
  }

  bool ambient(std::uint32_t i) const {
    const Check& check = program_.checks_[i];
    Program::StateReading reading;
    return check.state != nullptr ? check.state->matches(reading) : guards::holds(check, nullptr, nullptr);
  }

  void add_op(std::uint32_t at) {
    const double took = std::max(0.0, nanoseconds_of([&] { return program_.run(at, at + 1, frame_); }) - empty_);
    const std::uint32_t check = check_at(program_.hot_[at]);
    if (check != Program::kNone) return add_check(check, took);
    if (const std::uint32_t read = read_for(program_.hot_[at].node); read != Program::kNone) reads_[read] += took;
  }

  // The check that an op asks; none: it loads a value, or looks at what proves many.
  std::uint32_t check_at(const Hot& op) const {
    const Program::Node& node = program_.nodes_[op.node];
    if (op.op == Op::TypeTag) return node.lookups;
    const auto same = [&](const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer) == op.payload; };
    for (std::uint32_t i = node.checks; i < node.lookups; ++i) {
      const Check& check = program_.checks_[i];
      const HotCheck hot = traits(check.kind).hot;
      const bool is_size = op.op == Op::Size || op.op == Op::DictSize;
      if (op.op == Op::Type && hot == HotCheck::Type && same(check.operand)) return i;
      if (is_size && hot == HotCheck::Size && static_cast<std::uint64_t>(check.number) == op.payload) return i;
      if (op.op == Op::Tensor && hot == HotCheck::Tensor && same(check.tensor)) return i;
      if ((op.op == Op::Check || op.op == Op::Function) && same(&check)) return i;
    }
    return Program::kNone;
  }

  // The first check of the value or of what is reached by it.
  std::uint32_t read_for(std::uint32_t index) const {
    for (std::uint32_t node = index; node < program_.nodes_[index].end; ++node) {
      const Program::Node& below = program_.nodes_[node];
      if (below.checks != below.checks_end) return below.checks;
    }
    return Program::kNone;
  }

  // They are asked together.
  void add_conditions() {
    if (program_.conditionals_.empty()) return;
    const double all = nanoseconds_of([&] { return program_.relations_hold(); });
    for (const auto& conditional : program_.conditionals_)
      add_check(conditional.check, all / static_cast<double>(program_.conditionals_.size()));
  }

  void add_check(std::uint32_t check, double nanoseconds) { checks_[check] += nanoseconds; }

  void take(Costs& costs) const {
    const GuardReport report(program_);
    for (const auto& [check, took] : checks_) costs.parts.push_back({report.of(check), false, took});
    for (const auto& [check, took] : reads_) costs.parts.push_back({report.of(check), true, took});
    std::ranges::stable_sort(costs.parts, std::ranges::greater{}, &Cost::nanoseconds);
  }

  GuardProgram& program_;
  const Program::Frame frame_;
  const int repeats_;
  double empty_ = 0;                                // a step that asks nothing
  std::map<std::uint32_t, double> checks_, reads_;  // by check
};

Costs costs_of(GuardProgram& program, PyObject* const* locals, PyObject* closure, int repeats) {
  return CostMeter(program, locals, closure, repeats).measure();
}

}  // namespace pellucid::guards
