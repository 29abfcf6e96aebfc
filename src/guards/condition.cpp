#include "guards/condition.h"

#include <algorithm>
#include <cmath>

#include "symbolic/print.h"

namespace pellucid::guards {

bool is_symbolic_value(PyObject* value, symbolic::Value* out) noexcept {
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) *out = symbolic::Value::of(number);
    return overflow == 0;
  }
  if (!PyFloat_CheckExact(value) || !std::isfinite(PyFloat_AS_DOUBLE(value))) return false;
  *out = symbolic::Value::real(PyFloat_AS_DOUBLE(value));
  return true;
}

namespace {

void collect_symbols(const symbolic::Expr* expr, std::vector<std::uint32_t>& out) {
  if (expr->is(symbolic::Op::Symbol) && std::ranges::find(out, expr->operation.symbol) == out.end())
    out.push_back(expr->operation.symbol);
  for (const symbolic::Expr* arg : expr->args) collect_symbols(arg, out);
}

}  // namespace

Condition Condition::between(std::vector<std::uint32_t> symbols) {
  Condition made;
  made.symbols = std::move(symbols);
  for (const std::uint32_t symbol : made.symbols) made.room.resize(std::max<std::size_t>(made.room.size(), symbol + 1));
  return made;
}

void Condition::complete(std::span<const symbolic::Expr* const> conditions) {
  program = symbolic::Program(conditions);
  const auto name = [&](std::uint32_t symbol) {
    const auto at = std::ranges::find(symbols, symbol) - symbols.begin();
    return "{" + std::to_string(at) + "}";
  };
  for (const symbolic::Expr* condition : conditions) {
    std::string one = symbolic::print(condition, name);
    if (conditions.size() > 1 && condition->is(symbolic::Op::Or)) one = "(" + std::move(one) + ")";
    text += (text.empty() ? "" : " and ") + std::move(one);
  }
}

Condition Condition::of(const symbolic::Expr* condition) {
  std::vector<std::uint32_t> symbols;
  collect_symbols(condition, symbols);
  Condition made = between(std::move(symbols));
  made.complete({&condition, 1});
  return made;
}

std::string Condition::text_of(std::span<const std::string> names) const {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      out += text[at];
      continue;
    }
    const std::size_t end = text.find('}', at);
    out += names[static_cast<std::size_t>(std::stoul(text.substr(at + 1, end - at - 1)))];
    at = end;
  }
  return out;
}

}  // namespace pellucid::guards
