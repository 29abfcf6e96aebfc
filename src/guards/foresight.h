// A decision of the program by numbers that the graph is going to compute of single elements in the CPU's memory: the
// operators of these are run ahead, on copies of what they write to.
#pragma once
#include <Python.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aten/replay.h"
#include "guards/condition.h"

namespace pellucid::guards {

struct Foresight {
  struct Read {
    std::shared_ptr<const aten::Replay> replay;
    std::vector<std::size_t> operands;  // indices of its inputs among the values of the guard
    std::string name;                   // what the program reads
  };
  std::vector<Read> reads;
  // Either the truth of the one that is read, or a condition. Or neither: the first `apart` values share no memory with
  // the others.
  std::optional<bool> truth;
  std::optional<Condition> condition;
  std::vector<std::size_t> symbols;  // of the condition: an index in `reads`, behind them one among the values
  std::size_t apart = 0;

  using Number = std::function<bool(std::size_t, symbolic::Value*)>;
  // `tensors[i]`: the i-th value of the guard; `number` reads it where it is a number.
  bool holds(std::span<PyObject* const> tensors, const Number& number) const noexcept;
  std::string expected() const;
  std::string found(std::span<PyObject* const> tensors, const Number& number) const;

 private:
  std::optional<symbolic::Value> value_of(const Read& read, std::span<PyObject* const> tensors) const;
  bool value_at(std::size_t symbol, std::span<PyObject* const> tensors, const Number& number,
                symbolic::Value* out) const;
};

}  // namespace pellucid::guards
