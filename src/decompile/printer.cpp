#include "decompile/printer.h"

#include "decompile/expressions_printer.h"

namespace pellucid::decompile {
namespace {

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
