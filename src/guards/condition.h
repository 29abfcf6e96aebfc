// A relation between numbers that a region relies on: "L['n'] % 4 == 0".
#pragma once
#include <Python.h>

#include <span>
#include <string>
#include <vector>

#include "symbolic/program.h"

namespace pellucid::guards {

struct Condition {
  symbolic::Program program;
  std::vector<std::uint32_t> symbols;         // those that the program reads
  mutable std::vector<symbolic::Value> room;  // for the values of all up to the last of these; used under the GIL
  std::string text;                           // Python, with {0} for the first of them
  std::vector<std::string> names;             // where they were read
  // What it consists of where that is more than one: for reports, which tell those that fail.
  struct Part {
    symbolic::Program program;
    std::string text;
    std::vector<std::size_t> operands;  // indices in `symbols`
  };
  std::vector<Part> parts;

  static Condition of(const symbolic::Expr* condition);
  // Between these symbols, and not known yet: true until complete() says what it is, which happens once.
  static Condition between(std::vector<std::uint32_t> symbols);
  void complete(std::span<const symbolic::Expr* const> conditions);
  bool is_empty() const noexcept { return text.empty(); }

  // `read(i, out)` gives the value of symbols[i]; false: there is no such number.
  template <class Read>
  bool holds(Read&& read) const noexcept {
    if (is_empty()) return true;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (!read(i, &room[symbols[i]])) return false;
    }
    return program.holds(room.data());
  }
  std::string text_of(std::span<const std::string> names) const;
  // In words, with these values of `symbols`: the parts of it that do not hold, and the values that these look at.
  struct Failure {
    std::string expected;
    std::vector<std::size_t> operands;
  };
  Failure failure(std::span<const symbolic::Value> values) const;
};

// An int of 64 bits or a finite float: what a symbol may stand for. Nothing else is written to `out`.
bool is_symbolic_value(PyObject* value, symbolic::Value* out) noexcept;

}  // namespace pellucid::guards
