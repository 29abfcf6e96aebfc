// Names and literals as Python text: the lowest of the three layers of printer.cpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <unordered_set>
#include <vector>

#include "decompile/tree.h"
#include "py/ref.h"

namespace pellucid::decompile {

// How tightly an expression holds together.
enum Level : int {
  kNamed,
  kTuple,
  kYield,
  kTest,
  kOr,
  kAnd,
  kNot,
  kCompare,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kArithmetic,
  kTerm,
  kFactor,
  kPower,
  kAwait,
  kAtom,
};

inline constexpr const char* kKeywords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                            "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                            "else",   "except", "finally", "for",      "from",     "global", "if",
                                            "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                            "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};

inline constexpr const char* kQuotes[] = {"'", "\"", "'''", "\"\"\""};

inline void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

class Literals {
 public:
  Literals(bool one_line, bool spread) : spread_(spread), one_line_(one_line) {}

 protected:
  // ---- texts ----
  void fail(const char* why) {
    if (!failed_) why_ = why;
    failed_ = true;
  }
  void indent(int depth) { out_.append(4 * static_cast<std::size_t>(depth), ' '); }

  void name(Name id) {
    if (id == nullptr) return fail("a name that is missing");
    if (!names_.contains(id)) {
      const bool keyword = std::find(std::begin(kKeywords), std::end(kKeywords), *id) != std::end(kKeywords);
      const auto text =
          py::Owned<>::steal(PyUnicode_DecodeUTF8(id->data(), static_cast<Py_ssize_t>(id->size()), nullptr));
      if (!text) PyErr_Clear();
      if (!text || keyword || PyUnicode_IsIdentifier(text.get()) != 1) {
        fail("a name that is no identifier");
        why_ += ": ";
        why_ += *id;
        return;
      }
      names_.insert(id);
    }
    out_ += *id;
  }
  void dotted(Name id) {
    std::size_t from = 0;
    while (true) {
      const std::size_t dot = id->find('.', from);
      std::string part = id->substr(from, dot == std::string::npos ? dot : dot - from);
      name(&*parts_.insert(std::move(part)).first);
      if (dot == std::string::npos) return;
      out_ += ".";
      from = dot + 1;
    }
  }

  // The inside of a literal of text in these quotes; `braces`: of an f-string.
  std::string inside(PyObject* object, const std::string& quote, bool braces) {
    const auto repr = py::Owned<>::steal(PyObject_Repr(object));
    if (!repr) return PyErr_Clear(), fail("a text that cannot be written"), "";
    std::string text = py::text_of(repr.get());
    if (text.size() < 2) return fail("a text that cannot be written"), "";
    const char own = text[0];
    text = text.substr(1, text.size() - 2);
    std::string made;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char sign = text[at];
      if (sign == '\\' && at + 1 < text.size()) {
        if (text[at + 1] == own && (quote.size() == 1 ? quote[0] != own : true)) {
          if (quote[0] == own && quote.size() == 3) made += '\\';
          made += text[++at];
        } else {
          made += sign;
          made += text[++at];
        }
        continue;
      }
      if (sign == quote[0]) made += '\\';
      made += sign;
      if (braces && (sign == '{' || sign == '}')) made += sign;
    }
    return made;
  }
  bool allowed(const std::string& text) const {
    if (forbidden_.empty()) return true;
    if (text.find('\\') != std::string::npos) return false;
    return std::none_of(forbidden_.begin(), forbidden_.end(),
                        [&](const std::string& quote) { return text.find(quote) != std::string::npos; });
  }

  void text_literal(PyObject* object) {
    const auto repr = py::Owned<>::steal(PyObject_Repr(object));
    if (!repr) return PyErr_Clear(), fail("a text that cannot be written");
    const std::string plain = py::text_of(repr.get());
    if (allowed(plain)) {
      out_ += plain;
      return;
    }
    if (PyUnicode_CheckExact(object)) {
      for (const char* quote : kQuotes) {
        const std::string made = quote + inside(object, quote, false) + quote;
        if (allowed(made)) {
          out_ += made;
          return;
        }
      }
    }
    fail("a text with a backslash within an f-string");
  }

  void documentation(PyObject* object) {
    const std::string text = py::text_of(object);
    const bool lines = text.find('\n') != std::string::npos;
    const auto plain = [](unsigned char sign) { return sign >= 0x20 || sign == '\n'; };
    const bool simple = !text.empty() && std::all_of(text.begin(), text.end(), plain) &&
                        text.find("\"\"\"") == std::string::npos && text.find('\\') == std::string::npos &&
                        text.back() != '"';
    if (!simple || (lines && one_line_)) return text_literal(object);
    out_ += "\"\"\"" + text + "\"\"\"";
  }

  void number(PyObject* object) {
    if (PyComplex_CheckExact(object)) {
      const Py_complex value = PyComplex_AsCComplex(object);
      if (value.real == 0 && std::signbit(value.real) &&
          (value.imag < 0 || (value.imag == 0 && std::signbit(value.imag)))) {
        const auto positive = py::Owned<>::steal(PyComplex_FromDoubles(0, -value.imag));
        if (!positive) return PyErr_Clear(), fail("a number that cannot be written");
        out_ += "-";
        return number(positive.get());
      }
    }
    if (PyLong_CheckExact(object)) {
      auto text = py::Owned<>::steal(PyObject_Repr(object));
      if (!text) {  // longer than sys.get_int_max_str_digits()
        PyErr_Clear();
        text = py::Owned<>::steal(PyNumber_ToBase(object, 16));
        if (!text) PyErr_Clear();
      }
      if (!text) return fail("a number that cannot be written");
      out_ += py::text_of(text.get());
      return;
    }
    std::string text = py::repr_of(object);
    replace_all(text, "inf", "1e309");
    if (text == "nan" || text == "-nan") text = "(1e309 - 1e309)";
    if (text.find("nan") != std::string::npos) replace_all(text, "nan", "(1e309-1e309)");
    out_ += text;
  }

  bool is_negative(PyObject* object) {
    if (!PyLong_CheckExact(object) && !PyFloat_CheckExact(object)) return false;
    if (PyFloat_CheckExact(object))
      return std::signbit(PyFloat_AS_DOUBLE(object)) && !std::isnan(PyFloat_AS_DOUBLE(object));
    return Py_SIZE(object) < 0;
  }

  void constant(const Node& node, int level) {
    PyObject* object = node.object;
    if (object == Py_Ellipsis) {
      out_ += "...";
    } else if (object == Py_None || PyBool_Check(object)) {
      out_ += object == Py_None ? "None" : object == Py_True ? "True" : "False";
    } else if (PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) {
      text_literal(object);
    } else {
      const bool parens = level > kFactor && (is_negative(object) || level >= kAtom);
      if (parens) out_ += "(";
      number(object);
      if (parens) out_ += ")";
    }
  }

  const bool spread_;  // operands of `and` and `or` stand on lines of their own

 private:
  const bool one_line_;

 protected:
  std::string out_, why_;
  bool failed_ = false, may_warn_ = false;
  std::vector<std::string> forbidden_;  // quotes of the f-strings around
  std::unordered_set<Name> names_;      // that are identifiers
  std::unordered_set<std::string> parts_;
};

}  // namespace pellucid::decompile
