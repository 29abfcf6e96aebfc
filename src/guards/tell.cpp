#include "guards/tell.h"

#include <algorithm>

#include "guards/equality.h"

namespace pellucid::guards {
namespace {

// What answers for any object whatsoever, whichever guards hold.
bool is_independent(Kind kind) noexcept {
  switch (kind) {
    case Kind::ID_MATCH:
    case Kind::NOT_ID:
    case Kind::TYPE_MATCH:
    case Kind::EQUALS_MATCH:
    case Kind::NUMBER_MATCH:
    case Kind::TENSOR_MATCH:
    case Kind::ARRAY_MATCH:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Tells::add(const GuardProgram& program, std::size_t guard) {
  if (guard < program.check_of_.size()) add_check(program, program.check_of_[guard]);
}

void Tells::add_as_in(const GuardProgram& program, const Tells& others, const GuardProgram& other) {
  if (!program.alive() || !other.alive()) return;
  for (const Tell& tell : others.tells_) {
    for (const std::uint32_t check : program.check_of_) {
      if (is_about(program, check, tell)) add_check(program, check);
    }
  }
}

bool Tells::is_about(const GuardProgram& program, std::uint32_t check, const Tell& tell) {
  const auto is_end = [](const Source* source, const Path& path) { return equal_paths(source, path.back()); };
  const std::uint32_t node = program.node_of_check_[check];
  if (node != GuardProgram::kNone)
    return tell.paths.size() == 1 && is_end(program.nodes_[node].source, tell.paths.front());
  const auto found = std::ranges::find(program.conditionals_, check, &GuardProgram::Conditional::check);
  if (found == program.conditionals_.end()) return false;
  return std::ranges::equal(found->operands, tell.paths, [&](const GuardProgram::Wanted& operand, const Path& path) {
    return is_end(operand.source(program), path);
  });
}

void Tells::add_check(const GuardProgram& program, std::uint32_t check) {
  const bool is_known = std::ranges::any_of(tells_, [&](const Tell& tell) { return tell.check == check; });
  if (is_known || tells_.size() == kMost) return;
  Tell tell{.check = check, .paths = {}};
  const auto source_of = [&](std::uint32_t node) { return program.nodes_[node].source; };
  const std::uint32_t node = program.node_of_check_[tell.check];
  if (node != GuardProgram::kNone) {
    if (program.nodes_[node].attributes || !is_independent(program.checks_[tell.check].kind)) return;
    if (is_path(source_of(node), tell.paths.emplace_back())) tells_.push_back(std::move(tell));
    return;
  }
  const auto found = std::ranges::find(program.conditionals_, tell.check, &GuardProgram::Conditional::check);
  if (found == program.conditionals_.end() || program.checks_[tell.check].foresight != nullptr) return;
  for (const GuardProgram::Wanted& operand : found->operands) {
    if (!is_path(source_of(operand.node), tell.paths.emplace_back())) return;
    if (operand.layout != nullptr) tell.paths.back().push_back(operand.layout);
  }
  tells_.push_back(std::move(tell));
}

bool Tells::may_hold(const GuardProgram& program, PyObject* const* locals, PyObject* closure) const noexcept {
  if (tells_.empty()) return true;
  if (!program.alive()) return false;  // what the sources and checks name may be gone
  const GuardProgram::Frame frame{locals, closure};
  return std::ranges::all_of(tells_, [&](const Tell& tell) { return tell.holds(program.checks_[tell.check], frame); });
}

bool Tells::Tell::holds(const Check& check, const GuardProgram::Frame& frame) const noexcept {
  const auto object_at = [&](const Path& path, std::size_t count) {
    return guards::object_at(path, count, frame.locals, frame.closure);
  };
  if (check.kind != Kind::CONDITION) {
    PyObject* value = object_at(paths.front(), paths.front().size());
    return value != nullptr && guards::holds(check, value, nullptr);
  }
  return check.condition->holds([&](std::size_t i, symbolic::Value* out) {
    const Path& path = paths[i];
    if (!source::is_of_layout(path.back()->step)) {
      PyObject* value = object_at(path, path.size());
      return value != nullptr && is_symbolic_value(value, out);
    }
    PyObject* tensor = object_at(path, path.size() - 1);
    std::int64_t number = 0;
    if (tensor == nullptr || !source::load_number(*path.back(), tensor, &number)) return false;
    *out = symbolic::Value::of(number);
    return true;
  });
}

}  // namespace pellucid::guards
