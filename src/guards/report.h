// A GuardProgram in words and as Python: which guard does not hold and why, what all of them say. It looks at values
// anew and leaves the latches of the program alone.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "guards/program.h"

namespace pellucid::guards {

struct Description {  // one guard in words (FEATURES B10)
  std::string kind, source, source_kind, text;
  std::string file;  // "" for ambient guards
  int line = 0;
  std::string operation;
};

// A guard that is in no program yet, of a capture under way. `home`: the globals that print as G.
Description describe(const Guard& guard, const PyObject* home);
py::Owned<> as_dict(const Description& guard);  // its fields by name
// "TYPE_MATCH L['x'] type list  # model.py:3, reads": what logs show.
void add_line(std::string& text, const Description& guard);

struct Miss {             // a guard that does not hold
  std::size_t guard = 0;  // index in describe(); size() when the program itself is dead
  Description description;
  const Source* source = nullptr;  // of the program; null: it is about none
  std::string expected, found, suggestion;
  std::string message() const;
};

class GuardReport {
 public:
  class Words;  // that its guards have in common

  explicit GuardReport(const GuardProgram& program) : program_(program) {}

  std::optional<Miss> first_miss(PyObject* const* locals, PyObject* closure) const;
  // All that fail, but for what hangs on a value that is not what was expected, and but for late checks when others
  // fail.
  std::vector<Miss> misses(PyObject* const* locals, PyObject* closure) const;
  std::string explain(PyObject* const* locals, PyObject* closure) const;  // first_miss()->message(), "" when all hold
  std::vector<Description> describe() const;
  Description of(std::size_t check) const;  // the guard that it is of

  // Python expressions over L (locals by name), F (cells by name), G (globals of the entry), C (constants()) and
  // HOLDS(guard, value), which is holds() below. Joined by "and" they say what check() says.
  std::vector<std::string> code_parts() const;
  py::Owned<> constants() const;
  bool holds(std::size_t guard, PyObject* value) const noexcept;

 private:
  struct Operands {
    PyObject *value = nullptr, *other = nullptr;
    py::Owned<> tuple;
    bool present = true;
  };
  std::vector<py::Owned<>> evaluate_all(PyObject* const* locals, PyObject* closure) const;
  std::optional<std::vector<GuardProgram::Wanted>> wanted_by(std::size_t check) const;
  Operands operands_of(std::size_t check, const std::vector<py::Owned<>>& values) const;
  Miss death() const;
  bool is_doubted(std::uint32_t node, const std::vector<bool>& doubted) const;
  bool is_moot(std::size_t check, const Operands& operands, const std::vector<bool>& doubted) const;
  std::vector<std::string> names_of(std::size_t check) const;
  Miss miss_of(std::size_t check, const Operands& operands) const;
  Description description_of(const Check& check, Words& words) const;
  std::vector<std::string> write_code(std::vector<PyObject*>& constants) const;

  const GuardProgram& program_;
};

}  // namespace pellucid::guards
