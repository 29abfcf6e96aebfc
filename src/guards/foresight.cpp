#include "guards/foresight.h"

#include <cmath>

namespace pellucid::guards {

std::optional<symbolic::Value> Foresight::value_of(const Read& read, std::span<PyObject* const> tensors) const {
  std::vector<PyObject*> inputs;
  for (const std::size_t operand : read.operands) inputs.push_back(tensors[operand]);
  return read.replay->run(inputs);
}

bool Foresight::value_at(std::size_t symbol, std::span<PyObject* const> tensors, const Number& number,
                         symbolic::Value* out) const {
  const std::size_t at = symbols[symbol];
  if (at >= reads.size()) return number(at - reads.size(), out);
  const auto value = value_of(reads[at], tensors);
  if (!value || (value->type == symbolic::Type::Float && !std::isfinite(value->f))) return false;
  *out = *value;
  return true;
}

bool Foresight::holds(std::span<PyObject* const> tensors, const Number& number) const noexcept {
  if (apart > 0) return aten::are_apart(tensors.first(apart), tensors.subspan(apart));
  if (truth) {
    const auto value = value_of(reads.front(), tensors);
    return value && value->is_true() == *truth;
  }
  return condition->holds([&](std::size_t i, symbolic::Value* out) { return value_at(i, tensors, number, out); });
}

std::string Foresight::expected() const {
  if (apart > 0) return "tensors that share no memory";
  if (truth) return "bool(" + reads.front().name + ") is " + (*truth ? "True" : "False");
  return condition->text_of(condition->names);
}

namespace {

std::string text_of(const symbolic::Value& value) {
  const auto object = value.type == symbolic::Type::Float ? py::take(PyFloat_FromDouble(value.f))
                                                          : py::take(PyLong_FromLongLong(value.i));
  return py::repr_of(object.get());
}

}  // namespace

std::string Foresight::found(std::span<PyObject* const> tensors, const Number& number) const {
  if (apart > 0) return "one memory";
  std::string text;
  const auto add = [&](const std::string& name, const std::optional<symbolic::Value>& value) {
    text.append(text.empty() ? "" : ", ").append(name).append(" = ").append(value ? text_of(*value) : "no such number");
  };
  if (truth) {
    add(reads.front().name, value_of(reads.front(), tensors));
    return text;
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbolic::Value value;
    const bool is_known = value_at(i, tensors, number, &value);
    add(condition->names[i], is_known ? std::optional(value) : std::nullopt);
  }
  return text;
}

}  // namespace pellucid::guards
