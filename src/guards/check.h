// One guard, ready to run: what it compares, in a form that needs no Python. Every kind has one Rule (rules.cpp) that
// decides, words what it expected and found, and prints itself as Python; there is no second copy of a check for
// messages.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "guards/guard.h"

namespace pellucid::guards {

struct Check {
  Kind kind;
  std::uint32_t guard = 0;       // its number in the program
  PyObject* operand = nullptr;   // borrowed from the program, which holds or watches it
  PyObject* found = nullptr;     // TYPE_LOOKUP: what the lookup gave; null: nothing
  std::vector<PyObject*> items;  // keys of DICT_KEYS, (code, defaults, kwdefaults) of FUNCTION
  std::int64_t number = 0;
  const aten::TensorSpec* tensor = nullptr;
  const aten::GlobalState* state = nullptr;
  const Condition* condition = nullptr;
  const Foresight* foresight = nullptr;
};

// How the words of a code part are written.
struct CodeText {
  std::string value, other;                        // the two sources as Python
  std::vector<std::string> values;                 // DISTINCT, CONDITION, FORESEEN: all of them
  std::function<std::string(PyObject*)> constant;  // "C[3]"
};

// FUNCTION, which hot programs ask inline.
inline bool has_parts(const Check& check, PyObject* value) noexcept {
  if (!PyFunction_Check(value)) return false;
  const auto same = [](PyObject* expected, PyObject* found) {
    return expected == (found == nullptr ? Py_None : found);
  };
  const auto* f = reinterpret_cast<PyFunctionObject*>(value);
  return f->func_code == check.items[0] && same(check.items[1], f->func_defaults) &&
         same(check.items[2], f->func_kwdefaults) &&
         (check.items.size() == 3 || (f->func_globals == check.items[3] && f->func_builtins == check.items[4]));
}

// `other`: the second value of IS and IS_NOT. DISTINCT, CONDITION and FORESEEN take a tuple of all values.
bool holds(const Check& check, PyObject* value, PyObject* other) noexcept;
std::string expected_text(const Check& check);
std::string missed_text(const Check& check, PyObject* value);  // expected of this value, which is not so
// `names`: of a check between several values their sources as Python.
std::string found_text(const Check& check, PyObject* value, PyObject* other, const std::vector<std::string>& names);
std::string code_text(const Check& check, const CodeText& text);
std::string suggestion(const Check& check);

bool all_distinct(PyObject* const* values, std::size_t count, std::vector<PyObject*>& scratch) noexcept;

}  // namespace pellucid::guards
