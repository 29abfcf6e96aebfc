#include "guards/condition.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "symbolic/conditions.h"
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

Condition Condition::between(std::vector<std::uint32_t> symbols) {
  Condition made;
  made.symbols = std::move(symbols);
  for (const std::uint32_t symbol : made.symbols) made.room.resize(std::max<std::size_t>(made.room.size(), symbol + 1));
  return made;
}

void Condition::complete(std::span<const symbolic::Expr* const> conditions) {
  program = symbolic::Program(conditions);
  const auto index = [&](std::uint32_t symbol) {
    const auto found = std::ranges::find(symbols, symbol);
    if (found == symbols.end())
      throw std::logic_error("pellucid: a condition on a number that its guard does not read");
    return static_cast<std::size_t>(found - symbols.begin());
  };
  const auto name = [&](std::uint32_t symbol) { return "{" + std::to_string(index(symbol)) + "}"; };
  for (const symbolic::Expr* condition : conditions) {
    std::string one = symbolic::print(condition, name);
    if (conditions.size() > 1) {
      std::vector<std::uint32_t> read;
      symbolic::collect_symbols(condition, read);
      Part& part = parts.emplace_back(Part{symbolic::Program({&condition, 1}), one, {}});
      for (const std::uint32_t symbol : read) part.operands.push_back(index(symbol));
      if (condition->is(symbolic::Op::Or)) one = "(" + std::move(one) + ")";
    }
    text += (text.empty() ? "" : " and ") + std::move(one);
  }
}

Condition Condition::of(const symbolic::Expr* condition) {
  std::vector<std::uint32_t> symbols;
  symbolic::collect_symbols(condition, symbols);
  Condition made = between(std::move(symbols));
  made.complete({&condition, 1});
  return made;
}

namespace {

std::string with_names(const std::string& text, std::span<const std::string> names) {
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

}  // namespace

std::string Condition::text_of(std::span<const std::string> names) const { return with_names(text, names); }

Condition::Failure Condition::failure(std::span<const symbolic::Value> values) const {
  for (std::size_t i = 0; i < symbols.size(); ++i) room[symbols[i]] = values[i];
  std::vector<const Part*> wrong, unknown;
  for (const Part& part : parts) {
    const auto value = part.program.evaluate(room.data());
    if (!value) unknown.push_back(&part);  // it rests on one before it, or leaves 64 bits
    if (value && !value->is_true()) wrong.push_back(&part);
  }
  Failure told;
  for (const Part* part : wrong.empty() ? unknown : wrong) {
    told.expected.append(told.expected.empty() ? "" : " and ").append(with_names(part->text, names));
    for (const std::size_t operand : part->operands) {
      if (std::ranges::find(told.operands, operand) == told.operands.end()) told.operands.push_back(operand);
    }
  }
  if (!told.expected.empty()) return told;
  told.expected = text_of(names);
  for (std::size_t i = 0; i < symbols.size(); ++i) told.operands.push_back(i);
  return told;
}

}  // namespace pellucid::guards
