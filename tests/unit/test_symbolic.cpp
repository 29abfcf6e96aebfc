// The room `symbolic`: canonical forms, proofs, decisions and programs by example. test_symbolic_random.cpp compares
// them with a reference over many values.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "symbolic/conditions.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"
#include "symbolic/program.h"

using namespace pellucid::symbolic;

namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// A space with ints n and m and a float x.
struct Fixture {
  Space space;
  const Expr* n;
  const Expr* m;
  const Expr* x;

  explicit Fixture(std::int64_t n_hint = 7, std::int64_t m_hint = 3, double x_hint = 2.5)
      : n(space.symbol(Value::of(n_hint))), m(space.symbol(Value::of(m_hint))), x(space.symbol(Value::real(x_hint))) {}

  const Expr* number(std::int64_t value) { return space.constant(Value::of(value)); }
  const Expr* real(double value) { return space.constant(Value::real(value)); }
  const Expr* add(const Expr* a, const Expr* b) { return binary(space, Binary::Add, a, b, 0); }
  const Expr* sub(const Expr* a, const Expr* b) { return binary(space, Binary::Sub, a, b, 0); }
  const Expr* mul(const Expr* a, const Expr* b) { return binary(space, Binary::Mul, a, b, 0); }
  const Expr* div(const Expr* a, const Expr* b) { return binary(space, Binary::FloorDiv, a, b, 0); }
  const Expr* mod(const Expr* a, const Expr* b) { return binary(space, Binary::Mod, a, b, 0); }
  const Expr* lt(const Expr* a, const Expr* b) { return compare(space, Comparison::Lt, a, b); }
  const Expr* le(const Expr* a, const Expr* b) { return compare(space, Comparison::Le, a, b); }
  const Expr* eq(const Expr* a, const Expr* b) { return compare(space, Comparison::Eq, a, b); }
  const Expr* ne(const Expr* a, const Expr* b) { return compare(space, Comparison::Ne, a, b); }

  static std::string text(const Expr* expr) {
    return print(expr, [](std::uint32_t symbol) { return std::string(1, "nmxyz"[symbol]); });
  }
  std::string decided() const {
    std::string all;
    for (const Decision& decision : space.decisions()) all += (all.empty() ? "" : "; ") + text(decision.condition);
    return all;
  }
  bool holds(std::int64_t n_value, std::int64_t m_value = 3, double x_value = 2.5) const {
    std::vector<const Expr*> conditions;
    for (const Decision& decision : space.decisions()) conditions.push_back(decision.condition);
    const Value values[] = {Value::of(n_value), Value::of(m_value), Value::real(x_value)};
    return Program(conditions).holds(values);
  }
};

}  // namespace

TEST("symbolic: equal ints are one expression") {
  Fixture f;
  CHECK_EQ(f.add(f.n, f.m), f.add(f.m, f.n));
  CHECK_EQ(f.sub(f.add(f.n, f.m), f.m), f.n);
  CHECK_EQ(f.mul(f.add(f.n, f.number(1)), f.add(f.n, f.number(1))),
           f.add(f.mul(f.n, f.add(f.n, f.number(2))), f.number(1)));
  CHECK(f.sub(f.n, f.n)->is_constant(0));
  CHECK_EQ(binary(f.space, Binary::Pow, f.n, f.number(2), 0), f.mul(f.n, f.n));
  CHECK_EQ(f.div(f.mul(f.mul(f.n, f.m), f.number(64)), f.mul(f.m, f.number(16))), f.mul(f.n, f.number(4)));
  CHECK_EQ(f.div(f.add(f.mul(f.n, f.number(4)), f.number(6)), f.number(8)),
           f.div(f.add(f.mul(f.n, f.number(2)), f.number(3)), f.number(4)));
  CHECK(f.mod(f.add(f.mul(f.n, f.number(8)), f.number(-3)), f.number(8))->is_constant(5));
  CHECK_EQ(f.div(f.div(f.n, f.number(2)), f.number(3)), f.div(f.n, f.number(6)));
  CHECK(f.div(f.add(f.mul(f.n, f.number(2)), f.number(2)), f.add(f.n, f.number(1)))->is_constant(2));
}

TEST("symbolic: floats keep their order and their zeros") {
  Fixture f;
  CHECK(f.sub(f.add(f.x, f.real(1.0)), f.real(1.0)) != f.x);
  CHECK(f.add(f.x, f.real(0.0)) != f.add(f.x, f.real(-0.0)));
  CHECK(f.add(f.x, f.real(1.0)) != f.add(f.real(1.0), f.x));
  CHECK(f.space.prove(f.eq(f.x, f.x)) == Proof::Unknown);
  CHECK(f.space.prove(f.eq(f.n, f.n)) == Proof::Yes);
  CHECK_EQ(f.text(f.add(f.n, f.x)), "float(n) + x");
  CHECK(same(f.mul(f.real(-0.0), f.real(1.0))->constant(), Value::real(-0.0)));
}

TEST("symbolic: text is Python") {
  Fixture f;
  CHECK_EQ(f.text(f.lt(f.add(f.n, f.number(1)), f.number(50))), "n <= 48");
  CHECK_EQ(f.text(f.lt(f.m, f.n)), "n > m");
  CHECK_EQ(f.text(f.le(f.add(f.m, f.number(2)), f.n)), "n >= m + 2");
  CHECK_EQ(f.text(f.sub(f.mul(f.n, f.mul(f.n, f.number(3))), f.m)), "3*n**2 - m");
  CHECK_EQ(f.text(f.mul(f.number(-1), f.div(f.n, f.m))), "-(n // m)");
  CHECK_EQ(f.text(f.sub(f.x, f.sub(f.x, f.real(1.0)))), "x - (x - 1.0)");
  CHECK_EQ(f.text(unary(f.space, Unary::Abs, f.n, 0)), "max(n, -n)");
  CHECK_EQ(f.text(negation(f.space.nodes(), f.lt(f.x, f.real(1e22)))), "not x < 1e+22");
}

TEST("symbolic: a decision proves what follows") {
  Fixture f;
  CHECK(f.space.decide(f.lt(f.n, f.number(10)), 1));
  CHECK(f.space.prove(f.lt(f.n, f.number(11))) == Proof::Yes);
  CHECK(f.space.prove(f.ne(f.n, f.number(10))) == Proof::Yes);
  CHECK(f.space.prove(f.eq(f.n, f.number(12))) == Proof::No);
  CHECK(f.space.prove(f.lt(f.n, f.number(9))) == Proof::Unknown);
  CHECK(!f.space.decide(f.lt(f.n, f.m), 2));
  CHECK(f.space.prove(f.le(f.m, f.add(f.n, f.number(5)))) == Proof::Yes);
  CHECK(f.space.decide(f.lt(f.n, f.number(20)), 3));
  CHECK_EQ(f.decided(), "n <= 9; n >= m");
  CHECK_EQ(f.space.decisions()[1].who, 2U);
  CHECK(f.holds(9));
  CHECK(!f.holds(10));
  CHECK(!f.holds(2));
}

TEST("symbolic: declared ranges prove, hints do not") {
  Space space;
  const Expr* size = space.symbol(Value::of(8), 2);
  const Expr* other = space.symbol(Value::of(8), 2);
  const auto number = [&](std::int64_t value) { return space.constant(Value::of(value)); };
  CHECK(space.prove(compare(space, Comparison::Ne, size, number(1))) == Proof::Yes);
  CHECK(space.prove(compare(space, Comparison::Eq, size, number(0))) == Proof::No);
  CHECK(space.prove(compare(space, Comparison::Eq, size, other)) == Proof::Unknown);
  const Expr* count = binary(space, Binary::Mul, size, other, 0);
  CHECK(space.prove(compare(space, Comparison::Ge, count, number(4))) == Proof::Yes);
  CHECK(space.prove(compare(space, Comparison::Eq, count, number(0))) == Proof::No);
  // A product of ints may leave 64 bits: that is not the end of Python's ints.
  CHECK(space.prove(compare(space, Comparison::Le, count, number(kMost))) == Proof::Unknown);
  CHECK(space.decisions().empty());
}

TEST("symbolic: decisions are taken back") {
  Fixture f;
  f.space.decide(f.lt(f.n, f.number(10)), 1);
  const std::size_t mark = f.space.mark();
  CHECK_EQ(f.space.fix(f.m, 1).i, 3);
  CHECK(f.space.prove(f.eq(f.m, f.number(3))) == Proof::Yes);
  CHECK_EQ(f.decided(), "n <= 9; m == 3");
  f.space.truncate(mark);
  CHECK(f.space.prove(f.eq(f.m, f.number(3))) == Proof::Unknown);
  CHECK(f.space.prove(f.lt(f.n, f.number(10))) == Proof::Yes);
  CHECK_EQ(f.decided(), "n <= 9");
}

TEST("symbolic: an operation records what it needs, and nothing when it fails") {
  Fixture f;
  CHECK(f.div(f.n, f.m) != nullptr);
  CHECK_EQ(f.decided(), "m != 0");
  CHECK(f.mod(f.x, f.sub(f.m, f.number(3))) == nullptr);
  CHECK(binary(f.space, Binary::Pow, f.n, f.sub(f.m, f.number(4)), 0) == nullptr);
  CHECK(math(f.space, MathFunction::log, f.sub(f.m, f.number(3)), 0) == nullptr);
  CHECK_EQ(f.decided(), "m != 0");
  CHECK(math(f.space, MathFunction::exp, f.x, 0) != nullptr);
  CHECK(unary(f.space, Unary::ToInt, f.x, 0) != nullptr);
  CHECK_EQ(f.decided(), "m != 0; math.isfinite(math.exp(x)); math.isfinite(x)");
  CHECK(!f.holds(7, 0));
  CHECK(!f.holds(7, 3, 1000.0));
}

TEST("symbolic: ints at the ends of 64 bits") {
  Fixture f(kMost, kLeast);
  CHECK(f.add(f.n, f.number(1)) == nullptr);
  CHECK(unary(f.space, Unary::Neg, f.m, 0) == nullptr);
  CHECK(f.mul(f.n, f.m) == nullptr);
  CHECK(f.div(f.m, f.number(-1)) == nullptr);
  CHECK(f.mod(f.m, f.number(-1))->is_constant(0));
  CHECK_EQ(f.add(f.n, f.m)->hint.i, -1);
  // n - m leaves 64 bits, so the comparison stays as it is: it holds at the hints, which is what matters.
  CHECK(f.space.decide(f.lt(f.m, f.n), 0));
  CHECK(f.space.decide(f.le(f.n, f.number(kMost)), 0));
  CHECK(!f.space.decide(f.lt(f.n, f.number(kMost)), 0));
  CHECK(f.holds(kMost, kLeast));
  CHECK(!f.holds(0, kLeast));
}

TEST("symbolic: floats are fixed bit for bit") {
  Fixture f(7, 3, -0.0);
  CHECK(std::signbit(f.space.fix(f.x, 0).f));
  CHECK(f.holds(7, 3, -0.0));
  CHECK(!f.holds(7, 3, 0.0));
  CHECK_EQ(f.decided(), "x == -0.0 and math.copysign(1, x) < 0");
}

TEST("symbolic: an int is compared with a float exactly") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  Fixture f(large, 3, 9007199254740992.0);
  CHECK(!f.space.decide(f.eq(f.n, f.x), 0));
  CHECK(f.space.decide(f.lt(f.x, f.n), 0));
  CHECK(f.holds(large, 3, 9007199254740992.0));
  CHECK(!f.holds(large - 1, 3, 9007199254740992.0));
  CHECK(!f.holds(large, 3, std::numeric_limits<double>::quiet_NaN()));
}

TEST("symbolic: a number that grows without end is given up") {
  Fixture f;
  const Expr* grown = f.x;
  int steps = 0;
  while (grown != nullptr && steps < 100000) grown = f.mul(grown, f.real(0.5)), ++steps;
  CHECK(grown == nullptr);
  CHECK(steps < 1000);
  const Expr* doubled = f.x;
  while (doubled != nullptr && steps < 100000) doubled = f.mul(doubled, doubled), ++steps;
  CHECK(doubled == nullptr);
}

TEST("symbolic: a program wants the types it was made for") {
  Fixture f;
  f.space.decide(f.lt(f.n, f.number(10)), 0);
  const Expr* condition = f.space.decisions()[0].condition;
  const Value real[] = {Value::real(2.0)};
  CHECK(!Program({{condition}}).holds(real));
  CHECK(Program().holds(nullptr));
}

TEST("symbolic: what is equal is one number") {
  Fixture f(8, 8);
  CHECK(f.space.decide(f.eq(f.n, f.m), 0));
  CHECK(f.space.prove(f.eq(f.mul(f.n, f.n), f.mul(f.m, f.n))) == Proof::Yes);
  CHECK(f.space.prove(f.eq(f.div(f.mul(f.n, f.number(3)), f.number(2)), f.div(f.mul(f.m, f.number(3)), f.number(2)))) ==
        Proof::Yes);
  CHECK_EQ(f.space.simplify(f.m), f.n);
  CHECK(f.space.decide(f.eq(f.add(f.n, f.m), f.number(16)), 0));
  CHECK_EQ(f.space.prove(f.eq(f.n, f.number(8))) == Proof::Yes, true);
  CHECK(f.space.simplify(f.add(f.mul(f.m, f.m), f.number(1)))->is_constant(65));
}

TEST("symbolic: divisibility") {
  Fixture f(16, 3);
  const Expr* eight = f.number(8);
  CHECK(f.space.decide(f.eq(f.mod(f.n, eight), f.number(0)), 0));
  CHECK(f.space.prove(f.eq(f.mod(f.n, f.number(4)), f.number(0))) == Proof::Yes);
  CHECK(f.space.prove(f.eq(f.mod(f.add(f.mul(f.n, f.number(3)), f.number(4)), eight), f.number(4))) == Proof::Yes);
  CHECK(f.space.prove(f.eq(f.mod(f.n, f.number(16)), f.number(0))) == Proof::Unknown);
  CHECK(f.space.prove(f.eq(f.n, f.number(12))) == Proof::No);
  CHECK(f.space.prove(f.eq(f.mul(f.div(f.n, eight), eight), f.n)) == Proof::Yes);
  CHECK(f.space.prove(f.eq(f.mul(f.mul(f.div(f.n, f.number(4)), f.m), eight), f.mul(f.mul(f.n, f.m), f.number(2)))) ==
        Proof::Yes);
  // By a symbol too.
  Fixture g(12, 4);
  CHECK(g.space.decide(g.eq(g.mod(g.n, g.m), g.number(0)), 0));
  CHECK(g.space.prove(g.eq(g.mul(g.div(g.n, g.m), g.m), g.n)) == Proof::Yes);
  CHECK(g.space.prove(g.eq(g.mul(g.div(g.n, g.m), g.number(4)), g.n)) == Proof::Unknown);
}

TEST("symbolic: a fixed float folds what is made of it") {
  Fixture f;
  const Expr* scaled = f.mul(f.x, f.real(2.0));
  f.space.fix(f.x, 0);
  CHECK(f.space.prove(f.lt(scaled, f.real(5.5))) == Proof::Yes);
  CHECK(f.space.prove(f.space.nodes().make(Op::Finite, f.x)) == Proof::Yes);
  CHECK(same(f.space.simplify(scaled)->constant(), Value::real(5.0)));
}

TEST("symbolic: an int beyond all floats cannot become one") {
  Fixture f(1, 1);
  CHECK(f.add(f.mul(f.n, f.m), f.x) != nullptr);
  CHECK_EQ(f.decided(), "");
  const Expr* large = binary(f.space, Binary::Pow, f.n, f.number(20), 0);
  CHECK_EQ(f.decided(), "");
  CHECK(f.add(large, f.x) != nullptr);
  CHECK_EQ(f.decided(), "-2**63 <= n ** 20 < 2**63");
  CHECK(f.holds(8));
  CHECK(!f.holds(9));
}

TEST("symbolic: a quotient takes out only what divides") {
  Fixture f(5, 3);
  const Expr* six = f.mul(f.mul(f.n, f.m), f.number(6));
  CHECK_EQ(f.text(f.div(six, f.mul(f.m, f.number(4)))), "6*n*m // (4*m)");
  CHECK_EQ(f.text(f.div(f.add(six, f.n), f.mul(f.m, f.number(2)))), "3*n + n // (2*m)");
  CHECK_EQ(f.text(f.mod(f.add(six, f.n), f.mul(f.m, f.number(2)))), "n % (2*m)");
  CHECK_EQ(f.text(f.div(f.n, f.number(-4))), "-n // 4");
}
