// Expressions and patterns as Python text: the middle one of the three layers of printer.cpp.
#pragma once
#include <string>

#include "decompile/literals_printer.h"

namespace pellucid::decompile {

struct BinaryText {
  const char* symbol;
  int level;
};
inline constexpr BinaryText kBinary[] = {
    {"+", kArithmetic}, {"&", kBitAnd}, {"//", kTerm},  {"<<", kShift},     {"@", kTerm}, {"*", kTerm},  {"%", kTerm},
    {"|", kBitOr},      {"**", kPower}, {">>", kShift}, {"-", kArithmetic}, {"/", kTerm}, {"^", kBitXor}};
inline constexpr const char* kComparisons[] = {"<", "<=", "==", "!=", ">", ">=", "is", "is not", "in", "not in"};

inline constexpr std::size_t kLongest = 8 << 20;  // bytes of text

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

}  // namespace pellucid::decompile
