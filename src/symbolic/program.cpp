#include "symbolic/program.h"

#include <unordered_map>

#include "base/small_vector.h"
#include "symbolic/evaluate.h"

namespace pellucid::symbolic {

class Program::Compiler {
 public:
  explicit Compiler(Program& program) : program_(program) {}

  // The register of an expression; each is computed once.
  std::uint32_t add(const Expr* expr) {
    if (const auto found = registers_.find(expr); found != registers_.end()) return found->second;
    std::vector<std::uint32_t> operands;
    for (const Expr* arg : expr->args) operands.push_back(add(arg));
    const auto at = static_cast<std::uint32_t>(program_.code_.size());
    program_.code_.push_back(instruction(expr));
    program_.operands_.insert(program_.operands_.end(), operands.begin(), operands.end());
    const auto coefficients = expr->operation.coefficients;
    program_.coefficients_.insert(program_.coefficients_.end(), coefficients.begin(), coefficients.end());
    registers_.emplace(expr, at);
    return at;
  }

 private:
  Instruction instruction(const Expr* expr) const {
    return {.op = expr->op(),
            .function = expr->operation.function,
            .type = expr->type,
            .must_hold = false,
            .symbol = expr->operation.symbol,
            .count = static_cast<std::uint32_t>(expr->args.size()),
            .operands = static_cast<std::uint32_t>(program_.operands_.size()),
            .coefficients = static_cast<std::uint32_t>(program_.coefficients_.size()),
            .constant = expr->constant()};
  }

  Program& program_;
  std::unordered_map<const Expr*, std::uint32_t> registers_;
};

Program::Program(std::span<const Expr* const> conditions) {
  Compiler compiler(*this);
  for (const Expr* condition : conditions) {
    last_ = compiler.add(condition);
    code_[last_].must_hold = condition->type == Type::Bool;
  }
}

bool Program::step(const Instruction& instruction, const Value* symbols, const Value* registers,
                   Value& result) const noexcept {
  if (instruction.op == Op::Symbol) {
    result = symbols[instruction.symbol];
    return result.type == instruction.type;
  }
  const std::uint32_t* operands = operands_.data() + instruction.operands;
  const std::size_t terms = instruction.op == Op::Sum ? instruction.count : 0;
  const Operation operation{.op = instruction.op,
                            .function = instruction.function,
                            .constant = instruction.constant,
                            .coefficients = {coefficients_.data() + instruction.coefficients, terms}};
  const auto value = symbolic::evaluate(operation, instruction.count,
                                        [&](std::size_t i) -> const Value& { return registers[operands[i]]; });
  if (value) result = *value;
  return value.has_value();
}

bool Program::holds(const Value* symbols) const noexcept {
  SmallVector<Value, 64> registers(code_.size(), Value::of(0));
  for (std::size_t i = 0; i < code_.size(); ++i) {
    Value& result = registers.begin()[i];
    if (!step(code_[i], symbols, registers.begin(), result)) return false;
    if (code_[i].must_hold && !result.is_true()) return false;
  }
  return true;
}

std::optional<Value> Program::evaluate(const Value* symbols) const {
  std::vector<Value> registers(code_.size(), Value::of(0));
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (!step(code_[i], symbols, registers.data(), registers[i])) return std::nullopt;
  }
  return code_.empty() ? std::nullopt : std::optional(registers[last_]);
}

}  // namespace pellucid::symbolic
