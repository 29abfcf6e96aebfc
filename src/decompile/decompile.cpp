#include "decompile/decompile.h"

#include <algorithm>
#include <set>
#include <vector>

#include "decompile/parse.h"
#include "decompile/printer.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::decompile {
namespace {

constexpr int kDeepestShell = 40;

// What is tried, in turn. All of them mean the same; the first one is right nearly always.
constexpr Options kChoices[] = {
    {},
    {.collapse_inside = true},
    {.collapse = false},
    {.keep_return = true},
    {.collapse_inside = true, .keep_return = true},
    {.collapse = false, .keep_return = true},
    {.while_true = true},
    {.collapse_inside = true, .while_true = true},
    {.eager_match = true},
    {.merge_exits = true},
    {.collapse_inside = true, .merge_exits = true},
    {.spread = true},
    {.collapse_inside = true, .spread = true},
};

enum class Form : std::uint8_t { Function, Lambda, Comprehension, Class, Module };

Form form_of(PyCodeObject* code) {
  if (has_name(code, "<lambda>")) return Form::Lambda;
  if (is_comprehension(code)) return Form::Comprehension;
  if ((code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) != 0) return Form::Function;
  return has_name(code, "<module>") ? Form::Module : Form::Class;
}

bool is_identifier(PyObject* text) { return PyUnicode_IsIdentifier(text) == 1; }

// The qualified name of a class is a constant of its code, so it must be compiled within what it is in.
bool contains_class(PyCodeObject* code, int depth = 0) {
  if (depth > kDeepestShell) return false;
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(code->co_consts); ++at) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, at);
    if (!PyCode_Check(constant)) continue;
    auto* inner = reinterpret_cast<PyCodeObject*>(constant);
    if (form_of(inner) == Form::Class || contains_class(inner, depth + 1)) return true;
  }
  return false;
}

// Classes and functions around, by the qualified name; the innermost last.
struct Shell {
  std::string name;
  bool is_function = false;
};

std::vector<Shell> shells_of(PyCodeObject* code) {
  std::vector<Shell> found;
  const std::string qualname = py::text_of(code->co_qualname);
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t dot = qualname.find('.'); dot != std::string::npos; dot = qualname.find('.', from)) {
    parts.push_back(qualname.substr(from, dot - from));
    from = dot + 1;
  }
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (parts[at] == "<locals>") continue;
    const auto text =
        py::Owned<>::steal(PyUnicode_FromStringAndSize(parts[at].data(), static_cast<Py_ssize_t>(parts[at].size())));
    if (!text || !is_identifier(text.get())) {
      PyErr_Clear();
      found.clear();
      continue;
    }
    found.push_back({parts[at], at + 1 < parts.size() && parts[at + 1] == "<locals>"});
  }
  if (found.size() > kDeepestShell) found.clear();
  return found;
}

std::string indented(const std::string& text, std::size_t depth) {
  std::string made;
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find('\n', from), text.size() - 1) + 1;
    if (end - from > 1) made.append(4 * depth, ' ');
    made.append(text, from, end - from);
    from = end;
  }
  return made;
}

// One attempt with one set of choices.
class Attempt {
 public:
  Attempt(PyCodeObject* code, const Options& options) : code_(code), form_(form_of(code)), shared_(options) {}

  bool write(Decompiled& made) {
    const bool closes_over = code_->co_nfreevars > 0;
    const bool shelled = !closes_over && (form_ == Form::Class || (form_ == Form::Function && contains_class(code_)));
    const std::vector<Shell> shells = shelled ? shells_of(code_) : std::vector<Shell>();
    Body body;
    Parse parse(code_, shared_, {});
    if (!read(parse, body)) return false;
    for (std::size_t at = shells.size(); at-- > 0;) {
      Stmt* shell = shared_.arena.statement(shells[at].is_function ? Stmt::Kind::FunctionDef : Stmt::Kind::ClassDef);
      shell->name = shared_.arena.intern(shells[at].name);
      shell->body = std::move(body);
      body = {shell};
    }
    Printed printed = print(body, 0, closes_over, shared_.options.spread);
    if (!printed.good) {
      shared_.failure = printed.why;
      return false;
    }
    may_warn_ = printed.may_warn;
    made.text = std::move(printed.text);
    // Modules are called otherwise than other objects: `if 0: import m` says that a name is one.
    std::string imports;
    for (const Name name : sorted(shared_.imports)) imports += (imports.empty() ? "if 0: import " : ", ") + *name;
    if (!imports.empty()) imports += "\n";
    if (!closes_over) {
      made.text = imports + made.text;
      made.module = made.text;
      path_.clear();
      for (const Shell& shell : shells) path_.push_back(shell.name);
      return true;
    }
    made.module = imports + enclosed(made.text);
    return true;
  }

  const std::string& failure() const { return shared_.failure; }
  bool may_warn() const { return may_warn_; }
  const std::vector<std::string>& path() const { return path_; }

 private:
  // The text within functions and classes that have its free variables, and the qualified name where that matters.
  std::string enclosed(const std::string& text) {
    std::vector<Shell> shells;
    if (form_ == Form::Class || contains_class(code_)) shells = shells_of(code_);
    const auto innermost =
        std::find_if(shells.rbegin(), shells.rend(), [](const Shell& one) { return one.is_function; });
    std::size_t around = static_cast<std::size_t>(shells.rend() - innermost);  // 1 + its index; 0: there is none
    const bool in_class = around < shells.size();
    std::vector<std::string> free;
    for (int slot = py::first_free_slot(code_); slot < py::slot_count(code_); ++slot) {
      std::string name = py::text_of(py::slot_name(code_, slot));
      if (!in_class || name != "__class__") free.push_back(std::move(name));
    }
    path_.clear();
    if (around == 0 && !free.empty()) {
      const bool global = form_ == Form::Class || !shells.empty();
      const bool local = py::text_of(code_->co_qualname).find("<locals>") != std::string::npos;
      if (global && !local) global_ = shells.empty() ? py::text_of(code_->co_name) : shells[0].name;
      shells.insert(shells.begin(), {"__outer__", true});
      around = 1;
    }
    std::string made;
    for (std::size_t at = 0; at < shells.size(); ++at) {
      made.append(4 * at, ' ');
      made += (shells[at].is_function ? "def " + shells[at].name + "()" : "class " + shells[at].name) + ":\n";
      path_.push_back(shells[at].name);
      if (at + 1 != around) continue;
      const std::string indent(4 * around, ' ');
      if (!global_.empty()) made += indent + "global " + global_ + "\n";
      for (const std::string& name : free) made += indent + name + " = None\n";
    }
    return made + indented(text, shells.size());
  }

  static std::vector<Name> sorted(const std::set<Name>& names) {
    std::vector<Name> found(names.begin(), names.end());
    std::sort(found.begin(), found.end(), [](Name a, Name b) { return *a < *b; });
    return found;
  }

  bool read(Parse& parse, Body& body) {
    Arena& arena = shared_.arena;
    switch (form_) {
      case Form::Module:
        return module_body(parse, body);
      case Form::Class: {
        Stmt* made = arena.statement(Stmt::Kind::ClassDef);
        made->name = arena.intern(py::text_of(code_->co_name));
        body = {made};
        return class_body(parse, made->body);
      }
      case Form::Comprehension: {
        const Comprehension* made = comprehension_body(parse);
        if (made == nullptr) return false;
        Node node;
        node.kind = Kind::Comprehension;
        node.extra = made;
        node.kids = arena.list({arena.name(arena.intern("iterable"))});
        body = {arena.statement(Stmt::Kind::Expr, arena.make(std::move(node)))};
        if ((code_->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0) body = {within_async(body)};
        return true;
      }
      case Form::Lambda: {
        auto* parts = arena.own(LambdaParts());
        parts->body = lambda_body(parse);
        if (parts->body == nullptr || !arguments_of(parse, code_, nullptr, parts->arguments)) return false;
        Node node;
        node.kind = Kind::Lambda;
        node.extra = parts;
        body = {arena.statement(Stmt::Kind::Expr, arena.make(std::move(node)))};
        return true;
      }
      case Form::Function:
        break;
    }
    Stmt* made = arena.statement(Stmt::Kind::FunctionDef);
    made->name = arena.intern(is_identifier(code_->co_name) ? py::text_of(code_->co_name) : "_function");
    made->is_async = (code_->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    body = {made};
    return function_body(parse, made->body) && arguments_of(parse, code_, nullptr, made->arguments);
  }

  Stmt* within_async(const Body& body) {
    Stmt* made = shared_.arena.statement(Stmt::Kind::FunctionDef);
    made->name = shared_.arena.intern("_function");
    made->is_async = true;
    made->arguments.positional.push_back({shared_.arena.intern("iterable"), nullptr, nullptr});
    made->body = body;
    return made;
  }

  PyCodeObject* code_;
  const Form form_;
  Shared shared_;
  std::vector<std::string> path_;
  std::string global_;  // the name that a class is stored under, where that is a global one
  bool may_warn_ = false;
};

// No warning of the compiler is shown while it lives.
class Silence {
 public:
  explicit Silence(bool needed) {
    if (!needed) return;
    const auto make = py::import_attr("warnings", "catch_warnings");
    context_ = py::take(PyObject_CallNoArgs(make.get()));
    const auto entered = py::take(PyObject_CallMethod(context_.get(), "__enter__", nullptr));
    const auto filter = py::import_attr("warnings", "simplefilter");
    const auto done = py::take(PyObject_CallFunction(filter.get(), "s", "ignore"));
  }
  ~Silence() {
    if (!context_) return;
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    const auto done =
        py::Owned<>::steal(PyObject_CallMethod(context_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!done) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  py::Owned<> context_;
};

// Null, with the reason: it is no Python after all.
py::Owned<> compiled(const std::string& text, bool may_warn, std::string& why) {
  const Silence silence(may_warn);
  PyCompilerFlags flags = {0, PY_MINOR_VERSION};
  auto made = py::Owned<>::steal(Py_CompileStringExFlags(text.c_str(), "<decompiled>", Py_file_input, &flags, 0));
  if (made) return made;
  const bool ordinary = PyErr_ExceptionMatches(PyExc_SyntaxError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
                        PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_OverflowError) ||
                        PyErr_ExceptionMatches(PyExc_SystemError);
  if (!ordinary) py::throw_pending();
  const py::PythonError error;
  why = py::repr_of(error.value());
  return made;
}

PyCodeObject* inner_code(PyObject* code, PyObject* name) {
  PyObject* constants = reinterpret_cast<PyCodeObject*>(code)->co_consts;
  PyCodeObject* found = nullptr;
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(constants); ++at) {
    PyObject* constant = PyTuple_GET_ITEM(constants, at);
    if (!PyCode_Check(constant)) continue;
    auto* inner = reinterpret_cast<PyCodeObject*>(constant);
    if (PyUnicode_Compare(inner->co_name, name) == 0) found = inner;
  }
  return found;
}

// The code object of the text within that of its module, borrowed.
PyCodeObject* find(PyObject* module, const std::vector<std::string>& path, PyCodeObject* code) {
  if (form_of(code) == Form::Module) return reinterpret_cast<PyCodeObject*>(module);
  PyObject* at = module;
  for (const std::string& name : path) {
    at = reinterpret_cast<PyObject*>(inner_code(at, py::str(name).get()));
    if (at == nullptr) return nullptr;
  }
  if (PyCodeObject* found = inner_code(at, code->co_name)) return found;
  PyCodeObject* other = inner_code(at, py::str("_function").get());
  if (other == nullptr || form_of(code) != Form::Comprehension) return other;
  return inner_code(reinterpret_cast<PyObject*>(other), code->co_name);
}

}  // namespace

Decompiled decompile(PyCodeObject* code, bool verify) {
  Decompiled best;
  std::set<std::string> tried;
  for (const Options& options : kChoices) {
    Decompiled made;
    Attempt attempt(code, options);
    if (!attempt.write(made)) {
      if (best.why.empty()) best.why = attempt.failure();
      continue;
    }
    made.good = true;
    if (!verify) return made;
    if (!tried.insert(made.text).second) continue;
    std::string why;
    const auto module = compiled(made.module, attempt.may_warn(), why);
    if (!module) {
      if (best.why.empty()) best.why = "the text is no Python: " + why;
      continue;
    }
    PyCodeObject* again = find(module.get(), attempt.path(), code);
    if (again != nullptr) made.verified = compare(code, again, made.difference);
    if (made.verified >= Verified::Normalised) return made;
    if (!best.good || made.verified > best.verified) best = std::move(made);
  }
  return best;
}

}  // namespace pellucid::decompile
