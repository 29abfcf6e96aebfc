#include "guards/implication.h"

#include <algorithm>
#include <unordered_map>

#include "guards/equality.h"
#include "py/numpy_array.h"

namespace pellucid::guards {

// Told guard by guard: each of the wide program is one of the narrow program, or follows from what that one knows of
// the same value.
class Implication {
 public:
  Implication(const GuardProgram& narrow, const GuardProgram& wide);
  bool holds() const;
  static bool has_open(const GuardProgram& program) noexcept;

 private:
  using Wanted = std::vector<GuardProgram::Wanted>;
  const Check& narrow_check(std::uint32_t guard) const { return narrow_.checks_[narrow_.check_of_[guard]]; }
  const std::vector<std::uint32_t>& known_of(const Source* source) const;
  const Check* known(const Source* source, Kind kind) const;
  bool follows(std::uint32_t guard) const;
  bool is_same(std::uint32_t narrow, std::uint32_t wide) const;
  bool type_follows(const Check& wide, const Source* source) const;
  bool number_follows(const Check& wide, const Source* source) const;
  bool tensor_follows(const Check& wide, const Source* source) const;
  bool array_follows(const Check& wide, const Source* source) const;
  bool condition_follows(const Check& wide, std::uint32_t check) const;
  bool distinct_follows(std::uint32_t check) const;
  bool load(const Source* source, symbolic::Value* out) const;

  const GuardProgram &narrow_, &wide_;
  std::unordered_map<std::size_t, std::vector<std::uint32_t>> by_source_;  // hash -> guards of the narrow program
};

namespace {

// Of equal paths equal.
std::size_t hash_of(const Source* source) noexcept {
  std::size_t hash = 0;
  for (const Source* s = source; s != nullptr; s = s->base) {
    hash = hash * 1000003 + static_cast<std::size_t>(s->step) * 31 + static_cast<std::size_t>(s->index + 1);
  }
  return hash;
}

bool is_same_state(const aten::GlobalState* a, const aten::GlobalState* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && a->equals(*b));
}

}  // namespace

Implication::Implication(const GuardProgram& narrow, const GuardProgram& wide) : narrow_(narrow), wide_(wide) {
  for (std::uint32_t i = 0; i < narrow_.check_of_.size(); ++i)
    by_source_[hash_of(narrow_.given_->guards[i].source)].push_back(i);
}

bool Implication::holds() const {
  for (std::uint32_t i = 0; i < wide_.check_of_.size(); ++i) {
    if (!follows(i)) return false;
  }
  return true;
}

const std::vector<std::uint32_t>& Implication::known_of(const Source* source) const {
  static const std::vector<std::uint32_t> none;
  const auto found = by_source_.find(hash_of(source));
  return found == by_source_.end() ? none : found->second;
}

// What the narrow program checks of this value in this way, or null.
const Check* Implication::known(const Source* source, Kind kind) const {
  for (const std::uint32_t guard : known_of(source)) {
    const Guard& given = narrow_.given_->guards[guard];
    if (given.kind == kind && equal_paths(given.source, source)) return &narrow_check(guard);
  }
  return nullptr;
}

bool Implication::follows(std::uint32_t guard) const {
  const Guard& given = wide_.given_->guards[guard];
  const std::uint32_t index = wide_.check_of_[guard];
  const Check& check = wide_.checks_[index];
  switch (given.kind) {
    case Kind::FORESEEN:
      return false;
    case Kind::CONDITION:
      return condition_follows(check, index);
    case Kind::DISTINCT:
      return distinct_follows(index);
    case Kind::TENSOR_MATCH:
      return tensor_follows(check, given.source);
    case Kind::ARRAY_MATCH:
      return array_follows(check, given.source);
    case Kind::NUMBER_MATCH:
      if (number_follows(check, given.source)) return true;
      break;
    case Kind::TYPE_MATCH:
      if (type_follows(check, given.source)) return true;
      break;
    default:
      break;
  }
  return std::ranges::any_of(known_of(given.source), [&](std::uint32_t other) { return is_same(other, guard); });
}

namespace {

bool is_same_operand(PyObject* a, PyObject* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && equal_constants(a, b));
}

}  // namespace

bool Implication::is_same(std::uint32_t narrow, std::uint32_t wide) const {
  const Guard &a = narrow_.given_->guards[narrow], &b = wide_.given_->guards[wide];
  if (a.kind != b.kind || a.number != b.number || !equal_paths(a.source, b.source) || !equal_paths(a.other, b.other))
    return false;
  const Check &x = narrow_check(narrow), &y = wide_.checks_[wide_.check_of_[wide]];
  return is_same_operand(x.operand, y.operand) && x.found == y.found && x.number == y.number && x.items == y.items &&
         is_same_state(x.state, y.state);
}

bool Implication::type_follows(const Check& wide, const Source* source) const {
  if (const Check* value = known(source, Kind::EQUALS_MATCH))
    return reinterpret_cast<PyObject*>(Py_TYPE(value->operand)) == wide.operand;
  if (const Check* number = known(source, Kind::NUMBER_MATCH)) return number->operand == wide.operand;
  const Check* tensor = known(source, Kind::TENSOR_MATCH);
  return tensor != nullptr && reinterpret_cast<PyObject*>(tensor->tensor->type()) == wide.operand;
}

bool Implication::number_follows(const Check& wide, const Source* source) const {
  symbolic::Value value;
  const Check* narrow = known(source, Kind::EQUALS_MATCH);
  return narrow != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(narrow->operand)) == wide.operand &&
         is_symbolic_value(narrow->operand, &value);
}

bool Implication::tensor_follows(const Check& wide, const Source* source) const {
  const Check* narrow = known(source, Kind::TENSOR_MATCH);
  return narrow != nullptr && narrow->tensor->implies(*wide.tensor);
}

bool Implication::array_follows(const Check& wide, const Source* source) const {
  const Check* narrow = known(source, Kind::ARRAY_MATCH);
  return narrow != nullptr && py::layout_implies(narrow->operand, wide.operand);
}

// The one value that this number has where the narrow program holds.
bool Implication::load(const Source* source, symbolic::Value* out) const {
  if (!source::is_of_layout(source->step)) {
    const Check* value = known(source, Kind::EQUALS_MATCH);
    return value != nullptr && is_symbolic_value(value->operand, out);
  }
  std::int64_t number = 0;
  if (const Check* array = known(source->base, Kind::ARRAY_MATCH)) {
    const bool is_closed = py::size_in_layout(array->operand, source->index, &number);
    *out = symbolic::Value::of(number);
    return is_closed;
  }
  const Check* tensor = known(source->base, Kind::TENSOR_MATCH);
  if (tensor == nullptr) return false;
  const bool is_size = source->step == source::Step::Size;
  const bool is_known =
      is_size ? tensor->tensor->size_at(source->index, &number) : tensor->tensor->stride_at(source->index, &number);
  *out = symbolic::Value::of(number);
  return is_known;
}

bool Implication::condition_follows(const Check& wide, std::uint32_t check) const {
  const auto at = [](const GuardProgram& program, std::uint32_t index) -> const Wanted* {
    const auto found = std::ranges::find(program.conditionals_, index, &GuardProgram::Conditional::check);
    return found == program.conditionals_.end() ? nullptr : &found->operands;
  };
  const Wanted* operands = at(wide_, check);
  if (operands == nullptr) return false;
  const auto source = [&](std::size_t i) { return (*operands)[i].source(wide_); };
  if (wide.condition->holds([&](std::size_t i, symbolic::Value* out) { return load(source(i), out); })) return true;
  return std::ranges::any_of(narrow_.conditionals_, [&](const GuardProgram::Conditional& other) {
    const Condition* own = narrow_.checks_[other.check].condition;
    if (own == nullptr || own->text != wide.condition->text) return false;
    if (other.operands.size() != operands->size()) return false;
    for (std::size_t i = 0; i < operands->size(); ++i) {
      if (!equal_paths(other.operands[i].source(narrow_), source(i))) return false;
    }
    return true;
  });
}

bool Implication::distinct_follows(std::uint32_t check) const {
  const auto wide = std::ranges::find(wide_.distincts_, check, &GuardProgram::Distinct::check);
  if (wide == wide_.distincts_.end()) return false;
  const auto is_among = [&](const GuardProgram::Distinct& narrow, std::uint32_t node) {
    return std::ranges::any_of(narrow.nodes, [&](std::uint32_t own) {
      return equal_paths(narrow_.nodes_[own].source, wide_.nodes_[node].source);
    });
  };
  return std::ranges::any_of(narrow_.distincts_, [&](const GuardProgram::Distinct& narrow) {
    return std::ranges::all_of(wide->nodes, [&](std::uint32_t node) { return is_among(narrow, node); });
  });
}

bool Implication::has_open(const GuardProgram& program) noexcept {
  return std::ranges::any_of(program.checks_, [](const Check& check) {
    return check.kind == Kind::NUMBER_MATCH || check.kind == Kind::CONDITION ||
           (check.tensor != nullptr && check.tensor->has_open());
  });
}

bool implies(const GuardProgram& narrow, const GuardProgram& wide) {
  return narrow.alive() && wide.alive() && Implication(narrow, wide).holds();
}

bool has_open(const GuardProgram& program) noexcept { return Implication::has_open(program); }

}  // namespace pellucid::guards
