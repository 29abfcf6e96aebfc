// The room `symbolic` against a reference that knows nothing of it: random programs of Python's operations are captured
// at one set of values, and run at all others. Where the decisions hold, every operation must do what was captured;
// where the reference does the same, the decisions must hold.
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"
#include "symbolic/program.h"

using namespace pellucid::symbolic;

namespace {

// ---- the reference: one number by another ----

enum class Outcome { Fine, Raises, TooLarge };

struct Number {
  Outcome outcome = Outcome::Raises;
  bool real = false;
  __int128 i = 0;
  double f = 0;

  // What is small is a float exactly, so no sum or quotient of floats differs by how it was reached.
  static Number of(__int128 value) {
    constexpr __int128 kLimit = __int128{1} << 50;
    return {value > kLimit || value < -kLimit ? Outcome::TooLarge : Outcome::Fine, false, value, 0};
  }
  static Number of_real(double value) { return {Outcome::Fine, true, 0, value}; }
  double as_real() const { return real ? f : static_cast<double>(i); }
};

const Number kRaises{};

// floor(a / b) by counting, so that it is another way than the core's.
__int128 floor_of_quotient(__int128 a, __int128 b) {
  __int128 guess = a / b;
  while (guess * b != a && (b > 0 ? guess * b > a : guess * b < a)) --guess;
  while (b > 0 ? (guess + 1) * b <= a : (guess + 1) * b >= a) ++guess;
  return guess;
}

Number power_of(__int128 base, __int128 exponent) {
  if (exponent < 0) return kRaises;  // a float in Python, which is not captured
  __int128 result = 1;
  if (base >= -1 && base <= 1 && exponent > 2) exponent = 2 + exponent % 2;
  for (__int128 i = 0; i < exponent; ++i) {
    result *= base;
    if (Number::of(result).outcome == Outcome::TooLarge) return Number::of(result);
  }
  return Number::of(result);
}

Number of_ints(Binary operation, __int128 a, __int128 b) {
  switch (operation) {
    case Binary::Add:
      return Number::of(a + b);
    case Binary::Sub:
      return Number::of(a - b);
    case Binary::Mul:
      return Number::of(a * b);
    case Binary::FloorDiv:
      return b == 0 ? kRaises : Number::of(floor_of_quotient(a, b));
    case Binary::Mod:
      return b == 0 ? kRaises : Number::of(a - b * floor_of_quotient(a, b));
    case Binary::TrueDiv:
      return b == 0 ? kRaises : Number::of_real(static_cast<double>(a) / static_cast<double>(b));
    case Binary::Pow:
      return power_of(a, b);
    case Binary::Min:
      return Number::of(b < a ? b : a);
    case Binary::Max:
      return Number::of(b > a ? b : a);
  }
  return kRaises;
}

Number of_floats(Binary operation, double a, double b) {
  switch (operation) {
    case Binary::Add:
      return Number::of_real(a + b);
    case Binary::Sub:
      return Number::of_real(a - b);
    case Binary::Mul:
      return Number::of_real(a * b);
    case Binary::TrueDiv:
      return b == 0 ? kRaises : Number::of_real(a / b);
    case Binary::Min:
      return Number::of_real(b < a ? b : a);
    case Binary::Max:
      return Number::of_real(b > a ? b : a);
    default:
      return kRaises;  // tests/symbolic compares these with Python's own
  }
}

Number reference(Binary operation, const Number& a, const Number& b) {
  if (!a.real && !b.real) return of_ints(operation, a.i, b.i);
  return of_floats(operation, a.as_real(), b.as_real());
}

Number reference(Unary operation, const Number& a) {
  switch (operation) {
    case Unary::Pos:
      return a;
    case Unary::Neg:
      return a.real ? Number::of_real(-a.f) : Number::of(-a.i);
    case Unary::Abs:
      return a.real ? Number::of_real(std::fabs(a.f)) : Number::of(a.i < 0 ? -a.i : a.i);
    case Unary::ToFloat:
      return Number::of_real(a.as_real());
    case Unary::ToInt:
      return a.real ? Number::of(static_cast<__int128>(a.f)) : a;
    case Unary::Floor:
      return a.real ? Number::of(static_cast<__int128>(std::floor(a.f))) : a;
    case Unary::Ceil:
      return a.real ? Number::of(static_cast<__int128>(std::ceil(a.f))) : a;
    case Unary::Round:
      return a.real ? Number::of(static_cast<__int128>(std::nearbyint(a.f))) : a;
  }
  return kRaises;
}

// Small ints are floats exactly, so floats compare them rightly.
bool reference(Comparison comparison, const Number& a, const Number& b) {
  const double left = a.as_real(), right = b.as_real();
  const bool ints = !a.real && !b.real, less = ints ? a.i < b.i : left < right,
             same = ints ? a.i == b.i : left == right;
  switch (comparison) {
    case Comparison::Lt:
      return less;
    case Comparison::Le:
      return less || same;
    case Comparison::Eq:
      return same;
    case Comparison::Ne:
      return !same;
    case Comparison::Gt:
      return !less && !same;
    case Comparison::Ge:
      return !less;
  }
  return false;
}

// ---- a random program, captured ----

constexpr std::int64_t kFirst = -4, kLast = 20;
constexpr double kReals[] = {-2.5, -0.0, 0.0, 0.75, 3.0};

struct Step {
  enum Kind { Symbol, Constant, Unary, Binary } kind;
  int operation = 0, a = 0, b = 0;  // of a Symbol its number
  Number constant;
  const Expr* expr = nullptr;
};

struct Asked {
  Comparison comparison;
  int a, b;
  bool truth;
  const Expr* condition;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }

 private:
  std::mt19937 engine_;
};

class Captured {
 public:
  Captured(unsigned seed, bool reals) : random_(seed), reals_(reals) {
    for (int i = 0; i < 2; ++i) {
      const std::int64_t hint = kFirst + random_.below(kLast - kFirst + 1);
      hints_[i] = Value::of(hint);
      // Half of them say where they lie, as sizes do.
      const bool ranged = hint >= 2 && random_.below(2) == 0;
      least_[i] = ranged ? 2 : kFirst;
      steps_.push_back({.kind = Step::Symbol, .a = i, .expr = space_.symbol(Value::of(hint), least_[i], kLast)});
    }
    hints_[2] = Value::real(kReals[random_.below(std::size(kReals))]);
    if (reals_) steps_.push_back({.kind = Step::Symbol, .a = 2, .expr = space_.symbol(hints_[2])});
    for (const std::int64_t number : {0, 2, 4}) {
      steps_.push_back(
          {.kind = Step::Constant, .constant = Number::of(number), .expr = space_.constant(Value::of(number))});
    }
    const int length = 2 + random_.below(12);
    for (int i = 0; i < length; ++i) (random_.below(3) == 0 ? ask() : compute());
    for (const Decision& decision : space_.decisions()) conditions_.push_back(decision.condition);
    program_ = Program(conditions_);
    for (const Step& step : steps_) values_.push_back(Program({{step.expr}}));
    for (int i = 0; i < 6; ++i) prove();
  }

  // Everything that must be true at one set of values; says what is not.
  void check(const Value* symbols) {
    std::vector<Number> numbers;
    bool fine = true;
    for (const Step& step : steps_) {
      numbers.push_back(compute(step, numbers, symbols));
      fine = fine && numbers.back().outcome == Outcome::Fine;
    }
    if (program_.holds(symbols)) {
      check_accepted(numbers, symbols);
    } else if (fine) {
      bool differs = false;
      for (const Asked& asked : asked_) differs |= truth(asked, numbers) != asked.truth;
      for (const auto& [step, value] : fixed_) differs |= !is(numbers[step], value);
      if (!differs) complain("is tighter than needed", symbols);
    }
  }

  void check_all() {
    if (!program_.holds(hints_)) complain("does not hold at its hints", hints_);
    for (std::int64_t n = least_[0]; n <= kLast; ++n) {
      for (std::int64_t m = least_[1]; m <= kLast; ++m) {
        for (const double x : kReals) {
          const Value symbols[] = {Value::of(n), Value::of(m), Value::real(x)};
          check(symbols);
          if (!reals_) break;
        }
      }
    }
  }

  int failures() const { return failures_; }
  std::size_t proved() const { return proved_; }
  std::size_t recorded() const { return conditions_.size(); }

 private:
  void compute() {
    static constexpr std::int64_t kConstants[] = {-3, -1, 0, 1, 2, 3, 4, 6, 8};
    Step step{.kind = static_cast<Step::Kind>(1 + random_.below(3))};
    step.a = random_.below(static_cast<int>(steps_.size()));
    step.b = random_.below(static_cast<int>(steps_.size()));
    if (random_.below(3) == 0) step.kind = Step::Binary;
    const Expr *a = steps_[step.a].expr, *b = steps_[step.b].expr;
    if (step.kind == Step::Constant) {
      const std::int64_t number = kConstants[random_.below(std::size(kConstants))];
      step.constant = Number::of(number);
      step.expr = space_.constant(Value::of(number));
    } else if (step.kind == Step::Unary) {
      step.operation = random_.below(7);
      step.expr = unary(space_, static_cast<Unary>(step.operation), a, 0);
    } else {
      step.operation = random_.below(9);
      const auto operation = static_cast<Binary>(step.operation);
      const bool ints = a->type == Type::Int && b->type == Type::Int;
      // What the reference does not say of floats.
      if (!ints && (operation == Binary::FloorDiv || operation == Binary::Mod || operation == Binary::Pow)) return;
      step.expr = binary(space_, operation, a, b, 0);
    }
    if (step.expr != nullptr) steps_.push_back(step);
  }

  Asked question() {
    const int a = random_.below(static_cast<int>(steps_.size())), b = random_.below(static_cast<int>(steps_.size()));
    const auto comparison = static_cast<Comparison>(random_.below(6));
    return {comparison, a, b, false, compare(space_, comparison, steps_[a].expr, steps_[b].expr)};
  }
  void ask() {
    if (random_.below(8) == 0) {
      const int step = random_.below(static_cast<int>(steps_.size()));
      fixed_.emplace_back(step, space_.fix(steps_[step].expr, 0));
      return;
    }
    Asked asked = question();
    asked.truth = space_.decide(asked.condition, 0);
    asked_.push_back(asked);
  }
  void prove() {
    Asked asked = question();
    const Proof proof = space_.prove(asked.condition);
    if (proof == Proof::Unknown) return;
    asked.truth = proof == Proof::Yes;
    proofs_.push_back(asked);
    ++proved_;
  }

  static Number compute(const Step& step, const std::vector<Number>& numbers, const Value* symbols) {
    if (step.kind == Step::Constant) return step.constant;
    if (step.kind == Step::Symbol) {
      const Value& value = symbols[step.a];
      return value.type == Type::Float ? Number::of_real(value.f) : Number::of(value.i);
    }
    const Number &a = numbers[step.a], &b = numbers[step.b];
    if (a.outcome != Outcome::Fine) return a;
    if (step.kind == Step::Unary) return reference(static_cast<Unary>(step.operation), a);
    if (b.outcome != Outcome::Fine) return b;
    return reference(static_cast<Binary>(step.operation), a, b);
  }
  static bool is(const Number& number, const Value& value) {
    return same(value, number.real ? Value::real(number.f) : Value::of(static_cast<std::int64_t>(number.i)));
  }
  static bool truth(const Asked& asked, const std::vector<Number>& numbers) {
    return reference(asked.comparison, numbers[asked.a], numbers[asked.b]);
  }

  void check_accepted(const std::vector<Number>& numbers, const Value* symbols) {
    const auto fine = [&](int step) { return numbers[step].outcome == Outcome::Fine; };
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (numbers[i].outcome == Outcome::Raises) complain("accepts what raises: " + text(steps_[i].expr), symbols);
      if (!fine(static_cast<int>(i))) continue;
      const auto value = values_[i].evaluate(symbols);
      if (!value || !is(numbers[i], *value)) complain("gives another value: " + text(steps_[i].expr), symbols);
    }
    for (const auto* list : {&asked_, &proofs_}) {
      for (const Asked& asked : *list) {
        if (!fine(asked.a) || !fine(asked.b) || truth(asked, numbers) == asked.truth) continue;
        complain((list == &proofs_ ? "proved wrongly: " : "decided wrongly: ") + text(asked.condition), symbols);
      }
    }
    for (const auto& [step, value] : fixed_) {
      if (fine(step) && !is(numbers[step], value)) complain("fixed wrongly: " + text(steps_[step].expr), symbols);
    }
  }

  static std::string text(const Expr* expr) {
    return print(expr, [](std::uint32_t symbol) { return std::string(1, "nmx"[symbol]); });
  }
  void complain(const std::string& what, const Value* symbols) {
    if (++failures_ > 1) return;
    std::string all = what + " at n=" + print(symbols[0]) + " m=" + print(symbols[1]) + " x=" + print(symbols[2]);
    all += ", hints " + print(hints_[0]) + " " + print(hints_[1]) + " " + print(hints_[2]) + ", decisions:";
    for (const Expr* condition : conditions_) all += "  " + text(condition);
    unit::fail(__FILE__, __LINE__, all);
  }

  Random random_;
  bool reals_;
  Space space_;
  Value hints_[3]{};
  std::int64_t least_[2]{};
  std::vector<Step> steps_;
  std::vector<Asked> asked_, proofs_;
  std::vector<std::pair<int, Value>> fixed_;
  std::vector<const Expr*> conditions_;
  std::vector<Program> values_;
  Program program_;
  int failures_ = 0;
  std::size_t proved_ = 0;
};

void run(unsigned first, unsigned count, bool reals) {
  int failed = 0;
  std::size_t proved = 0, recorded = 0;
  for (unsigned seed = first; seed < first + count && failed < 5; ++seed) {
    Captured captured(seed, reals);
    captured.check_all();
    failed += captured.failures() != 0;
    proved += captured.proved();
    recorded += captured.recorded();
  }
  // A test of proofs and decisions has some.
  CHECK(proved > count / 2);
  CHECK(recorded > count / 2);
}

}  // namespace

TEST("symbolic: random programs of ints do what the reference does") { run(0, 2000, false); }

TEST("symbolic: random programs of ints and floats do what the reference does") { run(100000, 500, true); }
