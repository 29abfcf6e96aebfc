#include "decompile/printer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>

#include "py/ref.h"

namespace pellucid::decompile {
namespace {

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

struct BinaryText {
  const char* symbol;
  int level;
};
constexpr BinaryText kBinary[] = {{"+", kArithmetic}, {"&", kBitAnd}, {"//", kTerm}, {"<<", kShift}, {"@", kTerm},
                                  {"*", kTerm},       {"%", kTerm},   {"|", kBitOr}, {"**", kPower}, {">>", kShift},
                                  {"-", kArithmetic}, {"/", kTerm},   {"^", kBitXor}};
constexpr const char* kComparisons[] = {"<", "<=", "==", "!=", ">", ">=", "is", "is not", "in", "not in"};

constexpr const char* kKeywords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                     "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                     "else",   "except", "finally", "for",      "from",     "global", "if",
                                     "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                     "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};

constexpr std::size_t kLongest = 8 << 20;  // bytes of text
constexpr const char* kQuotes[] = {"'", "\"", "'''", "\"\"\""};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Names and literals.
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

// Expressions and patterns.
class Expressions : public Literals {
 public:
  using Literals::Literals;

 protected:
  // ---- f-strings ----
  void formatted(const Node& node, const std::string& quote) {
    std::string around;
    around.swap(out_);
    forbidden_.push_back(quote);
    expression(node.kids[0], kTest + 1);
    forbidden_.pop_back();
    around.swap(out_);
    if (around.find('\\') != std::string::npos || around.find(quote) != std::string::npos)
      fail("a backslash within an f-string");
    out_ += around.starts_with('{') ? "{ " : "{";
    out_ += around;
    if (node.op != 0) {
      out_ += "!";
      out_ += static_cast<char>(node.op);
    }
    if (node.kids[1] != nullptr) {
      out_ += ":";
      pieces(*node.kids[1], quote);
    }
    out_ += "}";
  }
  void pieces(const Node& node, const std::string& quote) {
    for (const Node* piece : node.kids) {
      if (failed_) return;
      if (piece->kind == Kind::FormattedValue) {
        formatted(*piece, quote);
      } else if (is_text(piece)) {
        out_ += inside(piece->object, quote, true);
      } else if (piece->kind == Kind::JoinedStr) {
        pieces(*piece, quote);
      } else {
        fail("a part of a text that is none");
      }
    }
  }
  bool try_joined(const Node& node, const std::string& quote) {
    std::string made = "f" + quote;
    made.swap(out_);
    pieces(node, quote);
    out_ += quote;
    made.swap(out_);
    if (!failed_ && allowed(made)) {
      out_ += made;
      return true;
    }
    failed_ = false;
    return false;
  }
  void joined(const Node& node, int level) {
    if (failed_) return;
    if (forbidden_.size() > 3) return fail("f-strings are nested too deeply");
    for (const char* quote : kQuotes) {
      if (std::none_of(forbidden_.begin(), forbidden_.end(),
                       [&](const std::string& other) { return quote[0] == other[0]; }) &&
          try_joined(node, quote)) {
        return;
      }
    }
    for (const char* quote : kQuotes) {
      if (try_joined(node, quote)) return;
    }
    percent(node, level);
  }
  // '%s' % (x,), which the compiler makes an f-string of.
  void percent(const Node& node, int level) {
    std::string made;
    for (const Node* piece : node.kids) {
      if (piece->kind == Kind::FormattedValue) {
        if (piece->op == 0 || piece->kids[1] != nullptr) return fail("an f-string that cannot be written");
        made += "%";
        made += static_cast<char>(piece->op);
      } else if (is_text(piece)) {
        std::string text = inside(piece->object, "'", false);
        replace_all(text, "%", "%%");
        made += text;
      }
    }
    made = "'" + made + "'";
    if (!allowed(made)) return fail("an f-string that cannot be written");
    if (level > kTerm) out_ += "(";
    out_ += made + " % (";
    for (const Node* piece : node.kids) {
      if (piece->kind != Kind::FormattedValue) continue;
      expression(piece->kids[0], kTest);
      out_ += ", ";
    }
    out_ += ")";
    if (level > kTerm) out_ += ")";
  }

  // ---- expressions ----
  template <class F>
  void grouped(bool parens, F&& inner) {
    if (parens) out_ += "(";
    inner();
    if (parens) out_ += ")";
  }
  void items(const List& kids, std::size_t from, int level) {
    for (std::size_t k = from; k < kids.size(); ++k) {
      if (k > from) out_ += ", ";
      expression(kids[k], level);
    }
  }
  // A tuple where no parentheses are needed.
  void bare(const Node* node) {
    if (node == nullptr) return fail("an expression that is missing");
    if (node->kind == Kind::Tuple && node->kids.size() > 1) return items(node->kids, 0, kTest);
    expression(node, node->kind == Kind::Yield || node->kind == Kind::YieldFrom ? kYield : kTest);
  }

  void note_warning(const Node& node) {
    const auto literal = [](const Node* kid) {
      return kid->kind == Kind::Constant || kid->kind == Kind::JoinedStr || kid->kind == Kind::Tuple ||
             kid->kind == Kind::List || kid->kind == Kind::Dict || kid->kind == Kind::Set ||
             kid->kind == Kind::Comprehension || kid->kind == Kind::Lambda;
    };
    may_warn_ = may_warn_ || std::any_of(node.kids.begin(), node.kids.end(), literal);
  }

  void expression(const Node* node, int level) {
    if (failed_) return;
    if (out_.size() > kLongest) return fail("the text is too long");  // values that are copied can double it each time
    if (node == nullptr) return fail("an expression that is missing");
    switch (node->kind) {
      case Kind::Name:
        return name(node->name);
      case Kind::Constant:
        return constant(*node, level);
      case Kind::Tuple:
        out_ += "(";
        items(node->kids, 0, kTest);
        out_ += node->kids.size() == 1 ? ",)" : ")";
        return;
      case Kind::List:
        out_ += "[";
        items(node->kids, 0, kTest);
        out_ += "]";
        return;
      case Kind::Set:
        out_ += node->kids.empty() ? "{*()" : "{";
        items(node->kids, 0, kTest);
        out_ += "}";
        return;
      case Kind::Dict:
        return dict(*node);
      case Kind::Attribute:
        expression(node->kids[0], kAtom);
        out_ += ".";
        return name(node->name);
      case Kind::Subscript:
        note_warning(*node);
        expression(node->kids[0], kAtom);
        out_ += "[";
        index(node->kids[1]);
        out_ += "]";
        return;
      case Kind::Slice:
        out_ += "slice(";
        for (std::size_t k = 0; k < 3; ++k) {
          if (k > 0) out_ += ", ";
          node->kids[k] == nullptr ? void(out_ += "None") : expression(node->kids[k], kTest);
        }
        out_ += ")";
        return;
      case Kind::JoinedStr:
        return joined(*node, level);
      case Kind::Starred:
        out_ += "*";
        return expression(node->kids[0], kBitOr);
      case Kind::Call:
        return call(*node);
      case Kind::Comprehension:
        return comprehension(*node, true);
      case Kind::FormattedValue:
      case Kind::Keyword:
      case Kind::FunctionRef:
        return fail("an expression that stands alone");
      default:
        return is_pattern(node->kind) ? pattern(node, false) : operation(*node, level);
    }
  }

  // Whether the compiler makes an f-string of `text % (…)`, which it has not done where there is a `%`: then the text
  // was an f-string itself.
  bool would_fold(const Node& node) {
    const Node *left = node.kids[0], *right = node.kids[1];
    if (!is_text(left) || right->kind != Kind::Tuple || !forbidden_.empty()) return false;
    const std::string text = py::text_of(left->object);
    if (text.find('{') != std::string::npos || text.find('}') != std::string::npos) return false;
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
      ++at;
      while (at < text.size() && std::string_view("-.0123456789").find(text[at]) != std::string_view::npos) ++at;
      if (at >= text.size() || std::string_view("sra%").find(text[at]) == std::string_view::npos) return false;
    }
    return true;
  }

  void operation(const Node& node, int level) {
    switch (node.kind) {
      case Kind::BinOp: {
        const BinaryText& text = kBinary[node.op];
        const bool power = text.level == kPower;
        return grouped(level > text.level, [&] {
          if (text.symbol[0] == '%' && would_fold(node)) out_ += "f";
          expression(node.kids[0], power ? text.level + 1 : text.level);
          out_ += std::string(" ") + text.symbol + " ";
          expression(node.kids[1], power ? text.level : text.level + 1);
        });
      }
      case Kind::UnaryOp: {
        const bool is_not = node.op == static_cast<int>(Unary::Not);
        const int own = is_not ? kNot : kFactor;
        constexpr const char* kSymbols[] = {"not ", "-", "+", "~"};
        return grouped(level > own, [&] {
          out_ += kSymbols[node.op];
          expression(node.kids[0], own);
        });
      }
      case Kind::BoolOp: {
        const int own = node.op == 0 ? kAnd : kOr;
        const bool lines = spread_ && forbidden_.empty();
        return grouped(level > own || lines, [&] {
          for (std::size_t k = 0; k < node.kids.size(); ++k) {
            if (k > 0) out_ += std::string(lines ? "\n    " : " ") + (node.op == 0 ? "and " : "or ");
            expression(node.kids[k], own + 1);
          }
        });
      }
      case Kind::Compare:
        note_warning(node);
        return grouped(level > kCompare, [&] {
          expression(node.kids[0], kCompare + 1);
          for (std::size_t k = 0; k < node.ops.size() && k + 1 < node.kids.size(); ++k) {
            out_ += std::string(" ") + kComparisons[static_cast<unsigned char>(node.ops[k])] + " ";
            expression(node.kids[k + 1], kCompare + 1);
          }
        });
      case Kind::IfExp:
        return grouped(level > kTest, [&] {
          expression(node.kids[1], kTest + 1);
          out_ += " if ";
          expression(node.kids[0], kTest + 1);
          out_ += " else ";
          expression(node.kids[2], kTest);
        });
      case Kind::Lambda: {
        const auto& parts = *static_cast<const LambdaParts*>(node.extra);
        return grouped(level > kTest, [&] {
          out_ += "lambda";
          std::string before;
          before.swap(out_);
          arguments(parts.arguments);
          before.swap(out_);
          if (!before.empty()) out_ += " " + before;
          out_ += ": ";
          expression(parts.body, kTest);
        });
      }
      case Kind::NamedExpr:
        return grouped(level > kNamed, [&] {
          expression(node.kids[0], kAtom);
          out_ += " := ";
          expression(node.kids[1], kTest);
        });
      case Kind::Yield:
        return grouped(level > kYield, [&] {
          out_ += "yield";
          if (is_none(node.kids[0])) return;
          out_ += " ";
          bare(node.kids[0]);
        });
      case Kind::YieldFrom:
        return grouped(level > kYield, [&] {
          out_ += "yield from ";
          expression(node.kids[0], kTest);
        });
      case Kind::Await:
        return grouped(level > kAwait, [&] {
          out_ += "await ";
          expression(node.kids[0], kAtom);
        });
      default:
        return fail("an expression of no kind");
    }
  }

  void dict(const Node& node) {
    out_ += "{";
    for (std::size_t k = 0; k + 1 < node.kids.size(); k += 2) {
      if (k > 0) out_ += ", ";
      if (node.kids[k] == nullptr) {
        out_ += "**";
        expression(node.kids[k + 1], kBitOr);
      } else {
        expression(node.kids[k], kTest);
        out_ += ": ";
        expression(node.kids[k + 1], kTest);
      }
    }
    out_ += "}";
  }

  void index(const Node* node) {
    if (node != nullptr && node->kind == Kind::Slice) {
      const List& parts = node->kids;
      if (parts[0] != nullptr) expression(parts[0], kTest);
      out_ += ":";
      if (parts[1] != nullptr) expression(parts[1], kTest);
      if (parts[2] != nullptr) {
        out_ += ":";
        expression(parts[2], kTest);
      }
      return;
    }
    const bool many = node != nullptr && node->kind == Kind::Tuple && !node->kids.empty();
    if (!many) return expression(node, kTest);
    for (std::size_t k = 0; k < node->kids.size(); ++k) {
      if (k > 0) out_ += ", ";
      const Node* kid = node->kids[k];
      kid->kind == Kind::Slice ? index(kid) : expression(kid, kTest);
    }
    if (node->kids.size() == 1) out_ += ",";
  }

  void call(const Node& node) {
    if (node.kids[0]->kind != Kind::Name && node.kids[0]->kind != Kind::Attribute) may_warn_ = true;
    expression(node.kids[0], kAtom);
    out_ += "(";
    const bool only_generator = node.kids.size() == 2 && node.kids[1]->kind == Kind::Comprehension &&
                                static_cast<const Comprehension*>(node.kids[1]->extra)->kind == 'g';
    if (only_generator) comprehension(*node.kids[1], false);
    for (std::size_t k = 1; k < node.kids.size() && !only_generator; ++k) {
      if (k > 1) out_ += ", ";
      argument(node.kids[k]);
    }
    out_ += ")";
  }
  void argument(const Node* node) {
    if (node->kind != Kind::Keyword) return expression(node, kTest);
    if (node->name == nullptr) {
      out_ += "**";
      return expression(node->kids[0], kBitOr);
    }
    name(node->name);
    out_ += "=";
    expression(node->kids[0], kTest);
  }

  void comprehension(const Node& node, bool parens) {
    const auto& made = *static_cast<const Comprehension*>(node.extra);
    const char* around = made.kind == 'l' ? "[]" : made.kind == 'g' ? "()" : "{}";
    if (parens) out_ += around[0];
    if (made.key != nullptr) {
      expression(made.key, kTest);
      out_ += ": ";
    }
    expression(made.element, kTest);
    bool first = true;
    for (const Generator& generator : made.generators) {
      out_ += generator.is_async ? " async for " : " for ";
      bare(generator.target);
      out_ += " in ";
      expression(first ? node.kids[0] : generator.iterable, kTest + 1);
      first = false;
      for (const Node* condition : generator.conditions) {
        out_ += " if ";
        expression(condition, kTest + 1);
      }
    }
    if (parens) out_ += around[1];
  }

  void arguments(const Arguments& given) {
    bool first = true;
    const auto separate = [&] {
      if (!first) out_ += ", ";
      first = false;
    };
    const auto argument = [&](const Argument& one, const char* star) {
      separate();
      out_ += star;
      name(one.name);
      if (one.annotation != nullptr) {
        out_ += ": ";
        expression(one.annotation, one.annotation->kind == Kind::Starred ? kNamed : kTest);
      }
      if (one.fallback != nullptr) {
        out_ += one.annotation != nullptr ? " = " : "=";
        expression(one.fallback, kTest);
      }
    };
    for (std::size_t k = 0; k < given.positional.size(); ++k) {
      argument(given.positional[k], "");
      if (static_cast<int>(k) + 1 == given.positional_only) {
        separate();
        out_ += "/";
      }
    }
    if (given.rest.name != nullptr) {
      argument(given.rest, "*");
    } else if (!given.keyword_only.empty()) {
      separate();
      out_ += "*";
    }
    for (const Argument& one : given.keyword_only) argument(one, "");
    if (given.keywords.name != nullptr) argument(given.keywords, "**");
  }

  // ---- patterns ----
  static bool is_pattern(Kind kind) { return kind >= Kind::MatchValue && kind <= Kind::MatchOr; }
  void pattern(const Node* node, bool inner) {
    if (failed_) return;
    if (node == nullptr) return fail("a pattern that is missing");
    const List& kids = node->kids;
    switch (node->kind) {
      case Kind::MatchValue:
        return expression(kids[0], kBitOr + 1);
      case Kind::MatchSingleton: {
        Node constant_node;
        constant_node.kind = Kind::Constant;
        constant_node.object = node->object;
        return constant(constant_node, kTest);
      }
      case Kind::MatchSequence:
        out_ += "[";
        for (std::size_t k = 0; k < kids.size(); ++k) {
          if (k > 0) out_ += ", ";
          pattern(kids[k], false);
        }
        out_ += "]";
        return;
      case Kind::MatchMapping: {
        out_ += "{";
        const auto count = static_cast<std::size_t>(node->number);
        for (std::size_t k = 0; k < count; ++k) {
          if (k > 0) out_ += ", ";
          expression(kids[k], kBitOr + 1);
          out_ += ": ";
          pattern(kids[count + k], false);
        }
        if (node->name != nullptr) {
          out_ += count > 0 ? ", **" : "**";
          name(node->name);
        }
        out_ += "}";
        return;
      }
      case Kind::MatchClass:
        expression(kids[0], kAtom);
        out_ += "(";
        for (std::size_t k = 1; k < kids.size(); ++k) {
          if (k > 1) out_ += ", ";
          if (kids[k]->kind != Kind::Keyword) {
            pattern(kids[k], false);
            continue;
          }
          name(kids[k]->name);
          out_ += "=";
          pattern(kids[k]->kids[0], false);
        }
        out_ += ")";
        return;
      case Kind::MatchStar:
        out_ += "*";
        return node->name != nullptr ? name(node->name) : void(out_ += "_");
      case Kind::MatchAs:
        if (kids[0] == nullptr) return node->name != nullptr ? name(node->name) : void(out_ += "_");
        return grouped(inner, [&] {
          pattern(kids[0], true);
          out_ += " as ";
          name(node->name);
        });
      case Kind::MatchOr:
        return grouped(inner, [&] {
          for (std::size_t k = 0; k < kids.size(); ++k) {
            if (k > 0) out_ += " | ";
            pattern(kids[k], true);
          }
        });
      default:
        return fail("a pattern of no kind");
    }
  }
};

class Statements : public Expressions {
 public:
  using Expressions::Expressions;

  void body(const Body& body, int depth) {
    if (depth > 95) return fail("statements are nested too deeply for the text");
    for (const Stmt* stmt : body) {
      statement(*stmt, depth);
      if (failed_) return;
    }
  }
  void documented_body(const Body& given, int depth) {
    const Stmt* first = given.empty() ? nullptr : given[0];
    const bool documented = first != nullptr && first->is_documentation;
    if (!documented) return body(given, depth);
    indent(depth);
    documentation(first->first->object);
    out_ += "\n";
    body(Body(given.begin() + 1, given.end()), depth);
  }

  Printed result() { return {!failed_, std::move(out_), why_, may_warn_}; }

 private:
  // ---- statements ----
  void line(int depth, const char* word) {
    indent(depth);
    out_ += word;
  }
  void block(const Body& given, int depth) {
    out_ += ":\n";
    body(given, depth + 1);
  }
  void names(int depth, const char* word, const std::vector<Name>& given) {
    line(depth, word);
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (k > 0) out_ += ", ";
      name(given[k]);
    }
    out_ += "\n";
  }
  void aliases(const std::vector<Alias>& given) {
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (k > 0) out_ += ", ";
      *given[k].name == "*" ? void(out_ += "*") : dotted(given[k].name);
      if (given[k].as != nullptr) {
        out_ += " as ";
        name(given[k].as);
      }
    }
    out_ += "\n";
  }

  void statement(const Stmt& stmt, int depth) {
    switch (stmt.kind) {
      case Stmt::Kind::If:
        return if_statement(stmt, depth, "if ");
      case Stmt::Kind::While:
        line(depth, "while ");
        stmt.first == nullptr ? void(out_ += "True") : expression(stmt.first, kNamed);
        block(stmt.body, depth);
        return otherwise(stmt.orelse, depth);
      case Stmt::Kind::For:
        line(depth, stmt.is_async ? "async for " : "for ");
        bare(stmt.first);
        out_ += " in ";
        expression(stmt.second, kTest);
        block(stmt.body, depth);
        return otherwise(stmt.orelse, depth);
      case Stmt::Kind::Try:
        return try_statement(stmt, depth);
      case Stmt::Kind::With:
        line(depth, stmt.is_async ? "async with " : "with ");
        expression(stmt.first, kTest);
        if (stmt.second != nullptr) {
          out_ += " as ";
          expression(stmt.second, kTest);
        }
        return block(stmt.body, depth);
      case Stmt::Kind::Match:
        return match(stmt, depth);
      case Stmt::Kind::FunctionDef:
        return function(stmt, depth);
      case Stmt::Kind::ClassDef:
        return class_(stmt, depth);
      case Stmt::Kind::Global:
        return names(depth, "global ", stmt.names);
      case Stmt::Kind::Nonlocal:
        return names(depth, "nonlocal ", stmt.names);
      case Stmt::Kind::Import:
        line(depth, "import ");
        return aliases(stmt.aliases);
      case Stmt::Kind::ImportFrom:
        line(depth, "from ");
        out_.append(static_cast<std::size_t>(stmt.level), '.');
        if (!stmt.name->empty()) dotted(stmt.name);
        out_ += " import ";
        return aliases(stmt.aliases);
      default:
        if (is_dropped_constant(stmt)) return constant_statement(stmt, depth);
        indent(depth);
        simple(stmt);
        out_ += "\n";
    }
  }

  // The compiler drops constants that are statements; one that it kept was the subject of a match.
  static bool is_dropped_constant(const Stmt& stmt) {
    return stmt.kind == Stmt::Kind::Expr && !stmt.is_documentation && stmt.first->kind == Kind::Constant &&
           !PyUnicode_CheckExact(stmt.first->object);
  }
  void constant_statement(const Stmt& stmt, int depth) {
    line(depth, "match ");
    expression(stmt.first, kTest);
    out_ += ":\n";
    line(depth + 1, "case _:\n");
    line(depth + 2, "pass\n");
  }

  void simple(const Stmt& stmt) {
    switch (stmt.kind) {
      case Stmt::Kind::Expr:
        if (stmt.first->kind == Kind::Tuple) return expression(stmt.first, kTest);
        if (stmt.first->kind == Kind::Constant && PyUnicode_CheckExact(stmt.first->object)) {
          out_ += "f'" + inside(stmt.first->object, "'", true) + "'";  // no f: the compiler drops it
          return;
        }
        return bare(stmt.first);
      case Stmt::Kind::Assign:
        for (const Node* target : stmt.list) {
          bare(target);
          out_ += " = ";
        }
        return bare(stmt.first);
      case Stmt::Kind::AugAssign:
        expression(stmt.first, kAtom);
        out_ += std::string(" ") + kBinary[stmt.op].symbol + "= ";
        return bare(stmt.second);
      case Stmt::Kind::AnnAssign:
        annotated_name(stmt.first);
        out_ += ": ";
        return expression(stmt.second, kTest);
      case Stmt::Kind::Return:
        out_ += "return";
        if (stmt.first == nullptr) return;
        out_ += " ";
        return stmt.first->kind == Kind::Yield || stmt.first->kind == Kind::YieldFrom ? expression(stmt.first, kTest)
                                                                                      : bare(stmt.first);
      case Stmt::Kind::Raise:
        out_ += "raise";
        if (stmt.first == nullptr) return;
        out_ += " ";
        expression(stmt.first, kTest);
        if (stmt.second == nullptr) return;
        out_ += " from ";
        return expression(stmt.second, kTest);
      case Stmt::Kind::Assert:
        out_ += "assert ";
        if (stmt.first != nullptr && stmt.first->kind == Kind::Tuple) may_warn_ = true;
        stmt.first == nullptr ? void(out_ += "False") : expression(stmt.first, kTest);
        if (stmt.second == nullptr) return;
        out_ += ", ";
        return expression(stmt.second, kTest);
      case Stmt::Kind::Delete:
        out_ += "del ";
        return expression(stmt.list[0], kTest);
      case Stmt::Kind::Pass:
        out_ += "pass";
        return;
      case Stmt::Kind::Break:
        out_ += "break";
        return;
      case Stmt::Kind::Continue:
        out_ += "continue";
        return;
      default:
        return fail("a statement of no kind");
    }
  }
  void annotated_name(const Node* text) {
    const char* found = PyUnicode_AsUTF8(text->object);
    if (found == nullptr) return PyErr_Clear(), fail("a name that is no identifier");
    name(&*parts_.insert(found).first);
  }

  void otherwise(const Body& orelse, int depth) {
    if (orelse.empty()) return;
    line(depth, "else");
    block(orelse, depth);
  }
  void if_statement(const Stmt& stmt, int depth, const char* word) {
    line(depth, word);
    expression(stmt.first, kNamed);
    block(stmt.body, depth);
    if (failed_) return;
    if (stmt.orelse.size() == 1 && stmt.orelse[0]->kind == Stmt::Kind::If) {
      if (++elifs_ > 500) return fail("too many branches");
      return if_statement(*stmt.orelse[0], depth, "elif ");
    }
    otherwise(stmt.orelse, depth);
  }
  void try_statement(const Stmt& stmt, int depth) {
    line(depth, "try");
    block(stmt.body, depth);
    for (const Clause& clause : stmt.clauses) {
      line(depth, stmt.is_star ? "except*" : "except");
      if (clause.test != nullptr) {
        out_ += " ";
        expression(clause.test, kTest);
      }
      if (clause.name != nullptr) {
        out_ += " as ";
        name(clause.name);
      }
      block(clause.body, depth);
    }
    otherwise(stmt.orelse, depth);
    if (stmt.last.empty()) return;
    line(depth, "finally");
    block(stmt.last, depth);
  }
  void match(const Stmt& stmt, int depth) {
    line(depth, "match ");
    expression(stmt.first, kTest);
    out_ += ":\n";
    for (const Clause& clause : stmt.clauses) {
      line(depth + 1, "case ");
      pattern(clause.test, false);
      if (clause.guard != nullptr) {
        out_ += " if ";
        expression(clause.guard, kNamed);
      }
      block(clause.body, depth + 1);
    }
  }
  void decorators(const std::vector<const Node*>& given, int depth) {
    for (const Node* decorator : given) {
      line(depth, "@");
      expression(decorator, kTest);
      out_ += "\n";
    }
  }
  void function(const Stmt& stmt, int depth) {
    decorators(stmt.decorators, depth);
    line(depth, stmt.is_async ? "async def " : "def ");
    name(stmt.name);
    out_ += "(";
    arguments(stmt.arguments);
    out_ += ")";
    if (stmt.arguments.returns != nullptr) {
      out_ += " -> ";
      expression(stmt.arguments.returns, kTest);
    }
    out_ += ":\n";
    documented_body(stmt.body, depth + 1);
  }
  void class_(const Stmt& stmt, int depth) {
    decorators(stmt.decorators, depth);
    line(depth, "class ");
    name(stmt.name);
    if (!stmt.list.empty()) {
      out_ += "(";
      for (std::size_t k = 0; k < stmt.list.size(); ++k) {
        if (k > 0) out_ += ", ";
        argument(stmt.list[k]);
      }
      out_ += ")";
    }
    out_ += ":\n";
    documented_body(stmt.body, depth + 1);
  }

  int elifs_ = 0;
};

}  // namespace

Printed print(const Body& body, int depth, bool one_line, bool spread) {
  Statements printer(one_line, spread);
  printer.body(body, depth);
  return printer.result();
}

}  // namespace pellucid::decompile
