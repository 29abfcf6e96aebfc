#include "symbolic/program.h"

#include <unordered_map>

#include "base/small_vector.h"
#include "symbolic/evaluate.h"

namespace pellucid::symbolic {

class Program::Compiler {
 public:
  explicit Compiler(Program& program) : program_(program) {}

  // Where the value of an expression is; each is computed once.
  Operand add(const Expr* expr) {
    if (const auto found = places_.find(expr); found != places_.end()) return found->second;
    const Operand place = made(expr);
    places_.emplace(expr, place);
    return place;
  }

  // A condition that is no result of the code becomes one: what must hold is an instruction.
  void require(const Expr* condition) {
    Operand place = add(condition);
    if (place.place != Result) {
      const std::vector<Operand> twice{place, place};
      place = emit({.op = Op::And}, twice);
    }
    program_.code_[place.index].must_hold = true;
  }

 private:
  Operand made(const Expr* expr) {
    if (expr->is_constant()) {
      program_.constants_.push_back(expr->constant());
      return {Constant, static_cast<std::uint32_t>(program_.constants_.size() - 1)};
    }
    if (expr->is(Op::Symbol)) {
      program_.types_.push_back({expr->operation.symbol, expr->type});
      return {Symbol, expr->operation.symbol};
    }
    std::vector<Operand> operands;
    for (const Expr* arg : expr->args) operands.push_back(add(arg));
    return emit(expr->operation, operands);
  }

  Operand emit(const Operation& operation, const std::vector<Operand>& operands) {
    const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
    program_.code_.push_back({.op = operation.op,
                              .function = operation.function,
                              .must_hold = false,
                              .count = size(operands),
                              .operands = size(program_.operands_),
                              .coefficients = size(program_.coefficients_),
                              .constant = operation.constant});
    program_.operands_.insert(program_.operands_.end(), operands.begin(), operands.end());
    const auto coefficients = operation.coefficients;
    program_.coefficients_.insert(program_.coefficients_.end(), coefficients.begin(), coefficients.end());
    return {Result, size(program_.code_) - 1};
  }

  Program& program_;
  std::unordered_map<const Expr*, Operand> places_;
};

Program::Program(std::span<const Expr* const> conditions) {
  Compiler compiler(*this);
  for (const Expr* condition : conditions) {
    last_ = compiler.add(condition);
    if (condition->type == Type::Bool) compiler.require(condition);
  }
}

bool Program::are_of_type(const Value* symbols) const noexcept {
  for (const TypeOfSymbol& wanted : types_) {
    if (symbols[wanted.symbol].type != wanted.type) return false;
  }
  return true;
}

bool Program::step(const Instruction& instruction, const Value* const* places, Value& result) const noexcept {
  const Operand* operands = operands_.data() + instruction.operands;
  const auto operand = [&](std::size_t i) -> const Value& { return places[operands[i].place][operands[i].index]; };
  // Nearly every guard compares two ints.
  if (Op::Eq <= instruction.op && instruction.op <= Op::Le && operand(0).type == Type::Int &&
      operand(1).type == Type::Int) {
    result = Value::truth(is_so(instruction.op, operand(0).i <=> operand(1).i));
    return true;
  }
  const std::size_t terms = instruction.op == Op::Sum ? instruction.count : 0;
  const Operation operation{.op = instruction.op,
                            .function = instruction.function,
                            .constant = instruction.constant,
                            .coefficients = {coefficients_.data() + instruction.coefficients, terms}};
  const auto value = symbolic::evaluate(operation, instruction.count, operand);
  if (value) result = *value;
  return value.has_value();
}

bool Program::holds(const Value* symbols) const noexcept {
  if (!are_of_type(symbols)) return false;
  SmallVector<Value, 64> results(code_.size(), Value::of(0));
  const Value* const places[] = {results.begin(), symbols, constants_.data()};
  for (std::size_t i = 0; i < code_.size(); ++i) {
    Value& result = results.begin()[i];
    if (!step(code_[i], places, result)) return false;
    if (code_[i].must_hold && !result.is_true()) return false;
  }
  return true;
}

std::optional<Value> Program::evaluate(const Value* symbols) const {
  if (!last_ || !are_of_type(symbols)) return std::nullopt;
  std::vector<Value> results(code_.size(), Value::of(0));
  const Value* const places[] = {results.data(), symbols, constants_.data()};
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (!step(code_[i], places, results[i])) return std::nullopt;
  }
  return places[last_->place][last_->index];
}

}  // namespace pellucid::symbolic
