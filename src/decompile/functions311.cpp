// Whole code objects: functions, lambdas, classes and comprehensions.
#include <algorithm>
#include <memory>

#include "decompile/parse.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

// The parse of a code object within that of `p`.
std::unique_ptr<Parse> child_of(Parse& p, PyCodeObject* code) {
  std::set<Name> outer(p.outer);
  if (!p.is_class) {
    for (int slot = 0; slot < py::slot_count(p.unit.code()); ++slot) {
      if (const Name name = p.local(slot)) outer.insert(name);
    }
  }
  return std::make_unique<Parse>(code, p.shared, std::move(outer));
}

void take_over_scopes(Parse& p, const Parse& child) {
  p.globals.insert(child.globals.begin(), child.globals.end());
  PyCodeObject* code = p.unit.code();
  for (int slot = py::first_free_slot(code); slot < py::slot_count(code); ++slot) {
    const Name name = p.local(slot);
    if (name != nullptr && child.nonlocals.contains(name)) p.nonlocals.insert(name);
  }
}

bool annotations_of(Parse& p, const Node* given, std::map<Name, const Node*>& out) {
  if (given == nullptr) return true;
  if (given->kind != Kind::Tuple) return p.fail("annotations of another form");
  for (std::size_t k = 0; k + 1 < given->kids.size(); k += 2) {
    if (!is_text(given->kids[k])) return p.fail("annotations of another form");
    const char* text = PyUnicode_AsUTF8(given->kids[k]->object);
    if (text == nullptr) return PyErr_Clear(), p.fail("annotations of another form");
    out[p.arena.intern(text)] = given->kids[k + 1];
  }
  return true;
}

bool keyword_defaults_of(Parse& p, const Node* given, std::map<Name, const Node*>& out) {
  if (given == nullptr) return true;
  if (given->kind != Kind::Dict) return p.fail("defaults of another form");
  for (std::size_t k = 0; k + 1 < given->kids.size(); k += 2) {
    if (!is_text(given->kids[k])) return p.fail("defaults of another form");
    const char* text = PyUnicode_AsUTF8(given->kids[k]->object);
    if (text == nullptr) return PyErr_Clear(), p.fail("defaults of another form");
    out[p.arena.intern(text)] = given->kids[k + 1];
  }
  return true;
}

void declare_scopes(Parse& p, Body& out) {
  const auto declare = [&](Stmt::Kind kind, const std::set<Name>& names) {
    if (names.empty()) return;
    Stmt* made = p.arena.statement(kind);
    made->names.assign(names.begin(), names.end());
    std::sort(made->names.begin(), made->names.end(), [](Name a, Name b) { return *a < *b; });
    out.push_back(made);
  };
  declare(Stmt::Kind::Global, p.globals);
  declare(Stmt::Kind::Nonlocal, p.nonlocals);
}

// `if False: …`: what makes the compiler see something that no instruction is left of.
Stmt* never(Parse& p, Stmt* what) {
  Stmt* made = p.arena.statement(Stmt::Kind::If, p.arena.constant(Py_False));
  made->body = {what};
  return made;
}

// Cells that no function takes: only code that is never reached has one.
void keep_unused_cells(Parse& p, Body& out) {
  PyCodeObject* code = p.unit.code();
  std::set<int> cells;
  for (int at = 0; at < p.size(); ++at) {
    if (p.is(at, Opcode::MAKE_CELL)) cells.insert(p[at].arg);
  }
  for (int at = 0; at < p.size(); ++at) {
    if (p.is(at, Opcode::LOAD_CLOSURE)) cells.erase(p[at].arg);
  }
  for (const int slot : cells) {
    const Name name = slot < py::slot_count(code) ? p.local(slot) : nullptr;
    if (name == nullptr || *name == "__class__") continue;
    auto* parts = p.arena.own(LambdaParts());
    parts->body = p.arena.name(name);
    Node node;
    node.kind = Kind::Lambda;
    node.extra = parts;
    out.push_back(never(p, p.arena.statement(Stmt::Kind::Expr, p.arena.fresh(std::move(node)))));
  }
}

// Local variables that nothing stores: their only assignment was in code that is never reached.
void keep_lost_locals(Parse& p, Body& out) {
  using enum Opcode;
  PyCodeObject* code = p.unit.code();
  std::set<int> bound, used;
  std::set<Name> global;
  const int parameters = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0 ? 1 : 0) +
                         ((code->co_flags & CO_VARKEYWORDS) != 0 ? 1 : 0);
  for (int at = 0; at < p.size(); ++at) {
    const Ins& ins = p[at];
    if (ins.op == STORE_FAST || ins.op == DELETE_FAST || ins.op == STORE_DEREF || ins.op == DELETE_DEREF)
      bound.insert(ins.arg);
    if (ins.op == LOAD_FAST || ins.op == LOAD_DEREF || ins.op == LOAD_CLOSURE) used.insert(ins.arg);
    if (ins.op == LOAD_GLOBAL) {
      if (const Name name = p.name_at(code->co_names, ins.arg >> 1)) global.insert(name);
    }
  }
  Stmt* made = p.arena.statement(Stmt::Kind::Assign, p.arena.none());
  for (int slot = parameters; slot < py::first_free_slot(code); ++slot) {
    const Name name = p.local(slot);
    if (name == nullptr || !used.contains(slot) || bound.contains(slot) || global.contains(name)) continue;
    if (name->starts_with('.') || *name == "__class__") continue;
    made->list.push_back(p.arena.name(name));
  }
  if (!made->list.empty()) out.push_back(never(p, made));
  keep_unused_cells(p, out);
}

// Free variables that no instruction is about: nothing but `nonlocal` names them.
void keep_unused_free_variables(Parse& p) {
  using enum Opcode;
  PyCodeObject* code = p.unit.code();
  std::set<int> used;
  for (int at = 0; at < p.size(); ++at) {
    const Opcode op = p[at].op;
    const bool about =
        op == LOAD_DEREF || op == LOAD_CLASSDEREF || op == LOAD_CLOSURE || op == STORE_DEREF || op == DELETE_DEREF;
    if (about) used.insert(p[at].arg);
  }
  for (int slot = py::first_free_slot(code); slot < py::slot_count(code); ++slot) {
    const Name name = p.local(slot);
    if (name != nullptr && !used.contains(slot) && *name != "__class__") p.nonlocals.insert(name);
  }
}

bool yields(const Parse& p) {
  for (int at = 0; at < p.size(); ++at) {
    if (p.is(at, Opcode::YIELD_VALUE) || p.is(at, Opcode::GET_YIELD_FROM_ITER)) return true;
  }
  return false;
}

bool yields_async(const Parse& p) {
  for (int at = 0; at < p.size(); ++at) {
    if (p.is(at, Opcode::ASYNC_GEN_WRAP)) return true;
  }
  return false;
}

PyObject* docstring_of(PyCodeObject* code) {
  if (PyTuple_GET_SIZE(code->co_consts) == 0) return nullptr;
  PyObject* first = PyTuple_GET_ITEM(code->co_consts, 0);
  return PyUnicode_CheckExact(first) ? first : nullptr;
}

// The expression of a body that is returns and ifs alone.
const Node* as_expression(Parse& p, const Body& body, std::size_t from = 0) {
  if (from >= body.size()) return p.fail("a lambda of another form"), nullptr;
  const Stmt* first = body[from];
  if (first->kind == Stmt::Kind::Return) return first->first != nullptr ? first->first : p.arena.none();
  if (first->kind == Stmt::Kind::If) {
    const Node* if_true = as_expression(p, first->body);
    const Node* if_false = first->orelse.empty() ? as_expression(p, body, from + 1) : as_expression(p, first->orelse);
    if (if_true == nullptr || if_false == nullptr) return nullptr;
    return p.arena.of(Kind::IfExp, {first->first, if_true, if_false});
  }
  if (first->kind == Stmt::Kind::Expr && body.size() == 2 && first->first->kind == Kind::Yield) return first->first;
  return p.fail("a lambda of another form"), nullptr;
}

bool contains_yield(const Node* node, std::set<const Node*>& seen) {
  if (node == nullptr || !seen.insert(node).second) return false;
  if (node->kind == Kind::Yield || node->kind == Kind::YieldFrom) return true;
  return std::any_of(node->kids.begin(), node->kids.end(), [&](const Node* kid) { return contains_yield(kid, seen); });
}

LambdaParts* read_lambda(Parse& p, PyCodeObject* code) {
  const auto child = child_of(p, code);
  const Node* value = lambda_body(*child);
  if (value == nullptr) return nullptr;
  auto* parts = p.arena.own(LambdaParts());
  parts->body = value;
  return parts;
}

// The loops of a comprehension and its element: a statement that is nothing but loops and ifs.
bool comprehension_parts(Parse& p, const Body& body, Comprehension& made) {
  const Stmt* only = nullptr;
  for (const Stmt* stmt : body) {
    // CPython compiles `for target in [value]`, behind another `for`, as an assignment.
    if (only == nullptr && stmt->kind == Stmt::Kind::Assign && stmt->list.size() == 1 && !made.generators.empty()) {
      made.generators.push_back({stmt->list[0], p.arena.of(Kind::List, p.arena.list({stmt->first})), {}, false});
      continue;
    }
    const bool silent = stmt->kind == Stmt::Kind::Continue || stmt->kind == Stmt::Kind::Pass ||
                        (stmt->kind == Stmt::Kind::Return && (stmt->first == nullptr || is_none(stmt->first)));
    if (silent) continue;
    if (only != nullptr) return p.fail("a comprehension of another form");
    only = stmt;
  }
  if (only == nullptr) {
    if (made.generators.empty()) return p.fail("a comprehension of another form");
    // Its condition is never true, and what it would give is not compiled.
    made.generators.back().conditions.push_back(p.arena.constant(Py_False));
    made.element = p.arena.none();
    if (made.kind == 'd') made.key = p.arena.none();
    return true;
  }
  if (only->kind == Stmt::Kind::For) {
    made.generators.push_back({only->first, made.generators.empty() ? nullptr : only->second, {}, only->is_async});
    return comprehension_parts(p, only->body, made);
  }
  if (only->kind == Stmt::Kind::If && only->orelse.empty() && !made.generators.empty()) {
    made.generators.back().conditions.push_back(only->first);
    return comprehension_parts(p, only->body, made);
  }
  if (made.generators.empty()) return p.fail("a comprehension of another form");
  if (made.kind == 'g') {
    if (only->kind != Stmt::Kind::Expr || only->first->kind != Kind::Yield)
      return p.fail("a generator of another form");
    made.element = only->first->kids[0];
    return true;
  }
  if (only->kind != Stmt::Kind::Append) return p.fail("a comprehension of another form");
  made.element = only->first;
  made.key = only->second;
  return (made.kind == 'd') == (made.key != nullptr) || p.fail("a comprehension of another form");
}

Comprehension* read_comprehension(Parse& p, PyCodeObject* code) {
  const auto child = child_of(p, code);
  Comprehension* made = comprehension_body(*child);
  if (made != nullptr) take_over_scopes(p, *child);
  return made;
}

bool is_assignment_to(const Stmt* stmt, const char* name) {
  return stmt->kind == Stmt::Kind::Assign && stmt->list.size() == 1 && stmt->list[0]->kind == Kind::Name &&
         *stmt->list[0]->name == name;
}

// `__annotations__["name"] = type`
const Node* annotated(const Stmt* stmt) {
  if (stmt->kind != Stmt::Kind::Assign || stmt->list.size() != 1 || stmt->list[0]->kind != Kind::Subscript)
    return nullptr;
  const Node* target = stmt->list[0];
  const bool is =
      target->kids[0]->kind == Kind::Name && *target->kids[0]->name == "__annotations__" && is_text(target->kids[1]);
  return is ? target->kids[1] : nullptr;
}

}  // namespace

bool is_comprehension(PyCodeObject* code) {
  return has_name(code, "<listcomp>") || has_name(code, "<setcomp>") || has_name(code, "<dictcomp>") ||
         has_name(code, "<genexpr>");
}

bool arguments_of(Parse& p, PyCodeObject* code, const Function* function, Arguments& out) {
  std::map<Name, const Node*> annotations, defaults;
  if (function != nullptr && (!annotations_of(p, function->annotations, annotations) ||
                              !keyword_defaults_of(p, function->keyword_defaults, defaults))) {
    return false;
  }
  const auto found = [](const std::map<Name, const Node*>& in, Name name) {
    const auto at = in.find(name);
    return at != in.end() ? at->second : nullptr;
  };
  int slot = 0;
  const auto next = [&](Argument& into) {
    if (slot >= py::slot_count(code)) return p.fail("parameters that do not exist");
    const auto* text = PyUnicode_AsUTF8(py::slot_name(code, slot++));
    if (text == nullptr) return PyErr_Clear(), p.fail("a parameter without a name");
    into.name = p.arena.intern(text);
    into.annotation = found(annotations, into.name);
    return true;
  };
  if (code->co_argcount < 0 || code->co_kwonlyargcount < 0 || code->co_posonlyargcount > code->co_argcount) {
    return p.fail("parameters that do not exist");
  }
  for (int k = 0; k < code->co_argcount; ++k) {
    if (!next(out.positional.emplace_back())) return false;
  }
  for (int k = 0; k < code->co_kwonlyargcount; ++k) {
    if (!next(out.keyword_only.emplace_back())) return false;
    out.keyword_only.back().fallback = found(defaults, out.keyword_only.back().name);
  }
  out.positional_only = code->co_posonlyargcount;
  if ((code->co_flags & CO_VARARGS) != 0 && !next(out.rest)) return false;
  if ((code->co_flags & CO_VARKEYWORDS) != 0 && !next(out.keywords)) return false;
  out.returns = found(annotations, p.arena.intern("return"));
  if (function != nullptr && function->defaults != nullptr) {
    const Node* given = function->defaults;
    if (given->kind != Kind::Tuple || given->kids.size() > out.positional.size())
      return p.fail("defaults of another form");
    const std::size_t first = out.positional.size() - given->kids.size();
    for (std::size_t k = 0; k < given->kids.size(); ++k) out.positional[first + k].fallback = given->kids[k];
  }
  return true;
}

bool function_body(Parse& p, Body& out) {
  PyCodeObject* code = p.unit.code();
  Body body;
  if (!block(p, {0, p.size(), p.size()}, {}, body)) return false;
  while (!p.shared.options.keep_return && !body.empty() && body.back()->kind == Stmt::Kind::Return &&
         body.back()->first == nullptr) {
    body.pop_back();
  }
  if (PyObject* doc = docstring_of(code)) {
    out.push_back(p.arena.statement(Stmt::Kind::Expr, p.arena.constant(doc)));
    out.back()->is_documentation = true;
  }
  keep_unused_free_variables(p);
  declare_scopes(p, out);
  keep_lost_locals(p, out);
  const bool generator = (code->co_flags & CO_GENERATOR) != 0 && !yields(p);
  const bool async_generator = (code->co_flags & CO_ASYNC_GENERATOR) != 0 && !yields_async(p);
  if (generator || async_generator) {
    out.push_back(never(p, p.arena.statement(Stmt::Kind::Expr, p.arena.of(Kind::Yield, {p.arena.none()}))));
  }
  out.insert(out.end(), body.begin(), body.end());
  out = or_pass(p, std::move(out));
  return true;
}

namespace {

// The body of a class or module whose arms ended with copies of its end, written without `return`.
Body without_returns(Parse& p, const Body& body) {
  using Kind = Stmt::Kind;
  Body out;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const Stmt* stmt = body[k];
    const auto returns = [](const Body& arm) { return !arm.empty() && arm.back()->kind == Kind::Return; };
    if (stmt->kind == Kind::Return) return out;
    const bool first = stmt->kind == Kind::If && returns(stmt->body);
    if (!first && !(stmt->kind == Kind::If && returns(stmt->orelse))) {
      out.push_back(body[k]);
      continue;
    }
    // What follows it is what the other arm goes on with.
    Stmt* made = p.arena.statement(Kind::If, stmt->first);
    made->body = stmt->body;
    made->orelse = stmt->orelse;
    Body& other = first ? made->orelse : made->body;
    other.insert(other.end(), body.begin() + static_cast<std::ptrdiff_t>(k) + 1, body.end());
    made->body = or_pass(p, without_returns(p, made->body));
    made->orelse = without_returns(p, made->orelse);
    out.push_back(made);
    return out;
  }
  return out;
}

}  // namespace

bool class_body(Parse& p, Body& out) {
  int end = p.size();
  using enum Opcode;
  if (p.is(end - 4, LOAD_CLOSURE) && p.is(end - 3, COPY) && p.is(end - 2, STORE_NAME) && p.is(end - 1, RETURN_VALUE))
    end -= 4;
  Body body;
  if (!block(p, {0, end, end}, {}, body)) return false;
  body = without_returns(p, body);
  declare_scopes(p, out);
  const std::size_t declared = out.size();
  bool module = false, qualname = false;
  for (Stmt* stmt : body) {
    const bool first = out.size() == declared;
    if (first && !module && is_assignment_to(stmt, "__module__")) {
      module = true;
      continue;
    }
    if (first && !qualname && is_assignment_to(stmt, "__qualname__")) {
      qualname = true;
      continue;
    }
    if (first && is_assignment_to(stmt, "__doc__") && is_text(stmt->first)) {
      out.insert(out.begin(), p.arena.statement(Stmt::Kind::Expr, stmt->first));
      out.front()->is_documentation = true;
      continue;
    }
    if (const Node* name = annotated(stmt)) {
      Stmt* made = p.arena.statement(Stmt::Kind::AnnAssign, name, stmt->first);
      out.push_back(made);
      continue;
    }
    out.push_back(stmt);
  }
  out = or_pass(p, std::move(out));
  return true;
}

bool module_body(Parse& p, Body& out) {
  Body body;
  if (!block(p, {0, p.size(), p.size()}, {}, body)) return false;
  body = without_returns(p, body);
  for (Stmt* stmt : body) {
    const Node* name = annotated(stmt);
    if (out.empty() && is_assignment_to(stmt, "__doc__") && is_text(stmt->first)) {
      out.push_back(p.arena.statement(Stmt::Kind::Expr, stmt->first));
      out.back()->is_documentation = true;
    } else if (name != nullptr) {
      out.push_back(p.arena.statement(Stmt::Kind::AnnAssign, name, stmt->first));
    } else {
      out.push_back(stmt);
    }
  }
  return true;
}

const Node* lambda_body(Parse& p) {
  Body body;
  if (!block(p, {0, p.size(), p.size()}, {}, body)) return nullptr;
  const Node* value = as_expression(p, body);
  if (value == nullptr) return nullptr;
  const bool generator = (p.unit.code()->co_flags & CO_GENERATOR) != 0;
  std::set<const Node*> seen;
  if (generator && !contains_yield(value, seen)) return p.fail("a lambda of another form"), nullptr;
  return value;
}

Comprehension* comprehension_body(Parse& p) {
  auto* made = p.arena.own(Comprehension());
  made->kind = py::text_of(p.unit.code()->co_name)[1];  // <listcomp>
  Body body;
  if (made->kind == 'g') {
    if (!block(p, {0, p.size(), p.size()}, {}, body)) return nullptr;
  } else {
    int begin = 0;
    using enum Opcode;
    while (begin < p.size() && !p.is(begin, BUILD_LIST) && !p.is(begin, BUILD_SET) && !p.is(begin, BUILD_MAP)) ++begin;
    const int end = p.size() - 1;
    if (begin >= end || !p.is(end, RETURN_VALUE)) return p.fail("a comprehension of another form"), nullptr;
    if (!block(p, {begin + 1, end, end}, {Value::marker(Tag::Container)}, body)) return nullptr;
  }
  return comprehension_parts(p, body, *made) ? made : nullptr;
}

Stmt* function_statement(Parse& p, const Function& function) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) return p.fail("functions are nested too deeply"), nullptr;
  const auto child = child_of(p, function.code);
  Stmt* made = p.arena.statement(Stmt::Kind::FunctionDef);
  made->name = p.arena.intern(py::text_of(function.code->co_name));
  made->is_async = (function.code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
  made->decorators = function.decorators;
  const bool read = function_body(*child, made->body) && arguments_of(p, function.code, &function, made->arguments);
  return read ? made : nullptr;
}

Stmt* class_statement(Parse& p, const ClassParts& parts) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) return p.fail("classes are nested too deeply"), nullptr;
  const auto child = child_of(p, parts.function->code);
  Stmt* made = p.arena.statement(Stmt::Kind::ClassDef);
  made->name = parts.name;
  made->list = parts.arguments;
  made->decorators = parts.decorators;
  return class_body(*child, made->body) ? made : nullptr;
}

const Node* lambda_of(Parse& p, const Function& function) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) return p.fail("functions are nested too deeply"), nullptr;
  if (!has_name(function.code, "<lambda>")) return p.fail("a function as an expression"), nullptr;
  const auto [made, is_new] =
      p.lambdas.emplace(std::tuple(function.code, function.defaults, function.keyword_defaults), nullptr);
  if (!is_new) return made->second;
  const auto [known, fresh] = p.children.emplace(reinterpret_cast<PyObject*>(function.code), nullptr);
  if (fresh) known->second = read_lambda(p, function.code);
  if (known->second == nullptr) return nullptr;
  auto* parts = p.arena.own(LambdaParts(*static_cast<const LambdaParts*>(known->second)));
  if (!arguments_of(p, function.code, &function, parts->arguments)) return nullptr;
  Node node;
  node.kind = Kind::Lambda;
  node.extra = parts;
  return made->second = p.arena.fresh(std::move(node));
}

const Node* comprehension_of(Parse& p, const Function& function, const Node* iterable) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) return p.fail("functions are nested too deeply"), nullptr;
  const auto [known, fresh] = p.children.emplace(reinterpret_cast<PyObject*>(function.code), nullptr);
  if (fresh) known->second = read_comprehension(p, function.code);
  if (known->second == nullptr) return nullptr;
  Node node;
  node.kind = Kind::Comprehension;
  node.extra = known->second;
  node.kids = p.arena.list({iterable});
  if ((function.code->co_flags & CO_COROUTINE) != 0) node.flags = kAwaited;
  return p.arena.make(std::move(node));
}

}  // namespace pellucid::decompile
