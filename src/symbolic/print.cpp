#include "symbolic/print.h"

#include <charconv>
#include <cmath>
#include <vector>

namespace pellucid::symbolic {
namespace {

// Python's precedence: an operand that binds less than its place asks for stands in parentheses.
enum class Binds : std::uint8_t { Or, And, Not, Comparison, Addition, Product, Sign, Power, Atom };

constexpr Binds tighter(Binds binds) { return static_cast<Binds>(static_cast<int>(binds) + 1); }

struct Text {
  std::string text;
  Binds binds;
};

std::string within(Text text, Binds place) {
  return text.binds < place ? "(" + std::move(text.text) + ")" : std::move(text.text);
}

Text of_value(const Value& value) {
  std::string text = print(value);
  return {text, text.starts_with('-') ? Binds::Sign : Binds::Atom};
}

// One side of a comparison of polynomials: terms with coefficients above 0, and a number.
struct Side {
  std::string text;
  Binds binds = Binds::Product;

  void add(Text term) {
    if (text.empty()) {
      text = std::move(term.text), binds = term.binds;
    } else {
      text += " + " + within(std::move(term), Binds::Product), binds = Binds::Addition;
    }
  }
  void take(Text term) {
    if (text.empty()) {
      text = "-" + within(std::move(term), Binds::Product), binds = Binds::Product;
    } else {
      text += " - " + within(std::move(term), Binds::Product), binds = Binds::Addition;
    }
  }
  Text done() && { return text.empty() ? Text{"0", Binds::Atom} : Text{std::move(text), binds}; }
};

class Printer {
 public:
  explicit Printer(const NameOf& name_of) : name_of_(name_of) {}

  Text print(const Expr* expr) const {
    const auto infix = [&](const char* sign, Binds binds) {
      return Text{at(expr, 0, binds) + sign + at(expr, 1, tighter(binds)), binds};
    };
    const auto compared = [&](const char* sign) {
      return Text{at(expr, 0, Binds::Addition) + sign + at(expr, 1, Binds::Addition), Binds::Comparison};
    };
    switch (expr->op()) {
      case Op::Constant:
        return of_value(expr->constant());
      case Op::Symbol:
        return {name_of_(expr->operation.symbol), Binds::Atom};
      case Op::Sum:
        return sum(expr);
      case Op::Product:
        return product(expr);
      case Op::FloorDiv:
      case Op::FFloorDiv:
        return infix(" // ", Binds::Product);
      case Op::Mod:
      case Op::FMod:
        return infix(" % ", Binds::Product);
      case Op::TrueDiv:
      case Op::FDiv:
        return infix(" / ", Binds::Product);
      case Op::FMul:
        return infix(" * ", Binds::Product);
      case Op::FAdd:
        return infix(" + ", Binds::Addition);
      case Op::FSub:
        return infix(" - ", Binds::Addition);
      case Op::Pow:
      case Op::FPow:
        return {at(expr, 0, Binds::Atom) + " ** " + at(expr, 1, Binds::Sign), Binds::Power};
      case Op::FNeg:
        return {"-" + at(expr, 0, Binds::Sign), Binds::Sign};
      case Op::Min:
      case Op::FMin:
        return call("min", expr);
      case Op::Max:
      case Op::FMax:
        return call("max", expr);
      case Op::ToInt:
        return call("int", expr);
      case Op::ToFloat:
        return call("float", expr);
      case Op::FAbs:
        return call("abs", expr);
      case Op::Floor:
        return call("math.floor", expr);
      case Op::Ceil:
        return call("math.ceil", expr);
      case Op::Round:
        return call("round", expr);
      case Op::Math:
        return call("math." + std::string(name_of(expr->operation.function)), expr);
      case Op::Finite:
        return call("math.isfinite", expr);
      case Op::Eq:
        return canonical(expr) ? relation(expr, " == ") : compared(" == ");
      case Op::Ne:
        return canonical(expr) ? relation(expr, " != ") : compared(" != ");
      case Op::Lt:
        return compared(" < ");
      case Op::Le:
        return canonical(expr) ? order(expr) : compared(" <= ");
      case Op::Fits:
        return {"-2**63 <= " + at(expr, 0, Binds::Addition) + " < 2**63", Binds::Comparison};
      case Op::Same:
        return same(expr);
      case Op::Not:
        return {"not " + at(expr, 0, Binds::Not), Binds::Not};
      case Op::And:
        return {at(expr, 0, Binds::And) + " and " + at(expr, 1, Binds::And), Binds::And};
      case Op::Or:
        return {at(expr, 0, Binds::Or) + " or " + at(expr, 1, Binds::Or), Binds::Or};
    }
    return {"?", Binds::Atom};
  }

 private:
  std::string at(const Expr* expr, std::size_t index, Binds place) const {
    return within(print(expr->args[index]), place);
  }

  Text call(const std::string& function, const Expr* expr) const {
    std::string text = function + "(" + print(expr->args[0]).text;
    for (const Expr* arg : expr->args.subspan(1)) text += ", " + print(arg).text;
    return {text + ")", Binds::Atom};
  }

  Text product(const Expr* expr) const {
    std::string text;
    std::size_t factors = 0;
    for (std::size_t i = 0, next = 0; i < expr->args.size(); i = next, ++factors) {
      while (next < expr->args.size() && expr->args[next] == expr->args[i]) ++next;
      if (!text.empty()) text += "*";
      const bool power = next - i > 1;
      text += at(expr, i, power ? Binds::Atom : Binds::Sign);
      if (power) text += "**" + std::to_string(next - i);
    }
    return {text, factors == 1 ? Binds::Power : Binds::Product};
  }

  Text term(std::int64_t coefficient, const Expr* monomial) const {
    if (coefficient == 1) return print(monomial);
    return {std::to_string(coefficient) + "*" + factor(monomial), Binds::Product};
  }
  std::string factor(const Expr* monomial) const {
    // A product may follow a number without parentheses, a quotient may not.
    return within(print(monomial), monomial->is(Op::Product) ? Binds::Product : Binds::Sign);
  }
  // With the opposite of a coefficient below 0, which the least int does not have in 64 bits with a sign.
  Text negated_term(std::int64_t coefficient, const Expr* monomial) const {
    if (coefficient == -1) return {factor(monomial), Binds::Product};
    return {std::to_string(0 - static_cast<std::uint64_t>(coefficient)) + "*" + factor(monomial), Binds::Product};
  }

  Text sum(const Expr* expr) const {
    Side side;
    const auto each = [&](bool negative) {
      for (std::size_t i = 0; i < expr->args.size(); ++i) {
        const std::int64_t coefficient = expr->operation.coefficients[i];
        if ((coefficient < 0) != negative) continue;
        if (negative) side.take(negated_term(coefficient, expr->args[i]));
        if (!negative) side.add(term(coefficient, expr->args[i]));
      }
    };
    each(false);
    each(true);
    add_number(side, expr->constant().i);
    return std::move(side).done();
  }

  static void add_number(Side& side, std::int64_t number) {
    const std::uint64_t bits = static_cast<std::uint64_t>(number);
    if (number > 0) side.add({std::to_string(number), Binds::Atom});
    if (number < 0) side.take({std::to_string(0 - bits), Binds::Atom});
  }

  // A polynomial compared with a number, as conditions.h makes them.
  static bool canonical(const Expr* expr) {
    const auto fits = [](const Expr* polynomial, const Expr* number) {
      return polynomial->type == Type::Int && number->type == Type::Int && number->is_constant() &&
             (!polynomial->is(Op::Sum) || polynomial->constant().i == 0);
    };
    return fits(expr->args[0], expr->args[1]) || (expr->is(Op::Le) && fits(expr->args[1], expr->args[0]));
  }

  // n - m == 3 as n == m + 3.
  std::pair<Side, Side> sides(const Expr* polynomial) const {
    Side left, right;
    if (!polynomial->is(Op::Sum)) left.add(print(polynomial));
    for (std::size_t i = 0; i < polynomial->operation.coefficients.size(); ++i) {
      const std::int64_t coefficient = polynomial->operation.coefficients[i];
      if (coefficient > 0) left.add(term(coefficient, polynomial->args[i]));
      if (coefficient < 0) right.add(negated_term(coefficient, polynomial->args[i]));
    }
    return {std::move(left), std::move(right)};
  }
  Text joined(Side left, const char* sign, Side right) const {
    return {within(std::move(left).done(), Binds::Addition) + sign + within(std::move(right).done(), Binds::Addition),
            Binds::Comparison};
  }

  Text relation(const Expr* expr, const char* sign) const {
    auto [left, right] = sides(expr->args[0]);
    add_number(right, expr->args[1]->constant().i);
    return joined(std::move(left), sign, std::move(right));
  }
  // n - m <= -1 as n < m, 3 <= n as n >= 3.
  Text order(const Expr* expr) const {
    const bool upper = expr->args[1]->is_constant();
    auto [left, right] = sides(expr->args[upper ? 0 : 1]);
    const std::int64_t number = expr->args[upper ? 1 : 0]->constant().i;
    const bool strict = !right.text.empty() && number == (upper ? -1 : 1);
    if (!strict) add_number(right, number);
    return joined(std::move(left), upper ? (strict ? " < " : " <= ") : strict ? " > " : " >= ", std::move(right));
  }

  // == does not tell 0.0 from -0.0, nor NaN from anything.
  Text same(const Expr* expr) const {
    const double number = expr->constant().f;
    if (std::isnan(number)) return call("math.isnan", expr);
    const std::string equal = at(expr, 0, Binds::Addition) + " == " + symbolic::print(expr->constant());
    if (number != 0.0) return {equal, Binds::Comparison};
    const char* sign = std::signbit(number) ? " < 0" : " > 0";
    return {equal + " and math.copysign(1, " + print(expr->args[0]).text + ")" + sign, Binds::And};
  }

  const NameOf& name_of_;
};

std::string print_float(double number) {
  if (std::isnan(number)) return "math.nan";
  if (std::isinf(number)) return number < 0 ? "-math.inf" : "math.inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string print(const Value& value) {
  switch (value.type) {
    case Type::Int:
      return std::to_string(value.i);
    case Type::Float:
      return print_float(value.f);
    case Type::Bool:
      return value.is_true() ? "True" : "False";
  }
  return {};
}

std::string print(const Expr* expr, const NameOf& name_of) { return Printer(name_of).print(expr).text; }

}  // namespace pellucid::symbolic
