// The emitted function as Python text, from the same lines that the emitter reads.
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "codegen/facts.h"
#include "codegen/program.h"

namespace pellucid::codegen {
namespace {

std::string cat(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (std::string_view part : parts) out += part;
  return out;
}

class Printer {
 public:
  explicit Printer(Program& program) : program_(program) {}
  std::string line(const Line& line);
  std::string loader_notes();

 private:
  std::string text(const Expr& expr);
  std::string text(const Stmt& stmt);
  std::string text(const Source* source);
  std::string step(const Source* source);
  std::string fresh(int index);
  std::string object(PyObject* object);
  std::string call(const std::string& callee, const std::vector<Expr>& arguments);
  std::string keyword_call(const Expr& expr);
  std::string joined(const std::vector<Expr>& items);
  std::string map(const std::vector<Expr>& items);
  std::string graph_call();

  Program& program_;
};

// Neither NaN nor infinity is written in Python without a call: the text gives them a name.
bool is_written(PyObject* constant) {
  if (PyFloat_CheckExact(constant)) return std::isfinite(PyFloat_AS_DOUBLE(constant));
  if (PyComplex_CheckExact(constant)) {
    const Py_complex value = PyComplex_AsCComplex(constant);
    return std::isfinite(value.real) && std::isfinite(value.imag);
  }
  if (!PyTuple_CheckExact(constant)) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i) {
    if (!is_written(PyTuple_GET_ITEM(constant, i))) return false;
  }
  return true;
}

std::string Printer::object(PyObject* object) {
  const bool is_text = is_literal(object) && !PyCode_Check(object) && is_written(object);
  return is_text ? py::repr_of(object) : program_.global_of(object);
}

std::string Printer::text(const Source* source) {
  const std::string* local = program_.local_of(source);
  return local != nullptr ? *local : step(source);
}

std::string Printer::step(const Source* source) {
  const Load load = program_.step(source);
  switch (load.form) {
    case Load::Form::Argument:
    case Load::Form::Deref:
      return py::text_of(load.name);
    case Load::Form::Cell:
      return cat({"<cell ", py::text_of(load.name), ">"});
    case Load::Form::Object:
      return object(load.callee);
    case Load::Form::Attr:
      return cat({text(source->base), ".", py::text_of(load.name)});
    case Load::Form::Subscr:
      return cat({text(source->base), "[", object(load.name), "]"});
    case Load::Form::Call: {
      std::string arguments = text(source->base);
      if (load.name != nullptr) arguments += cat({", ", object(load.name)});
      return cat({program_.global_of(load.callee), "(", arguments, ")"});
    }
    case Load::Form::CallSubscr:
      return cat({program_.global_of(load.callee), "(", text(source->base), ", '__dict__')[", object(load.name), "]"});
  }
  return "?";
}

std::string Printer::joined(const std::vector<Expr>& items) {
  std::string out;
  for (const Expr& item : items) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

std::string Printer::map(const std::vector<Expr>& items) {
  std::string out = "{";
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (i != 0) out += ", ";
    out += text(items[i]);
    out += ": ";
    out += text(items[i + 1]);
  }
  out += "}";
  return out;
}

std::string Printer::call(const std::string& callee, const std::vector<Expr>& arguments) {
  return cat({callee, "(", joined(arguments), ")"});
}

// Keys of a map that can stand in front of an `=`.
bool all_are_keywords(const std::vector<Expr>& map) {
  static PyObject* const is_reserved = py::import_attr("keyword", "iskeyword").release();
  for (std::size_t i = 0; i + 1 < map.size(); i += 2) {
    PyObject* const key = map[i].kind == Expr::Kind::Constant ? map[i].object.get() : nullptr;
    if (key == nullptr || !PyUnicode_CheckExact(key) || PyUnicode_IsIdentifier(key) != 1) return false;
    if (py::take(PyObject_CallOneArg(is_reserved, key)).get() != Py_False) return false;
  }
  return true;
}

std::string Printer::keyword_call(const Expr& expr) {
  const Expr &arguments = expr.items[1], &keywords = expr.items[2];
  if (keywords.items.empty()) return call(text(expr.items[0]), arguments.items);
  if (arguments.kind == Expr::Kind::Tuple && keywords.kind == Expr::Kind::Map && all_are_keywords(keywords.items)) {
    std::string out = joined(arguments.items);
    for (std::size_t i = 0; i + 1 < keywords.items.size(); i += 2)
      out +=
          cat({out.empty() ? "" : ", ", py::text_of(keywords.items[i].object.get()), "=", text(keywords.items[i + 1])});
    return cat({text(expr.items[0]), "(", out, ")"});
  }
  return cat({text(expr.items[0]), "(*", text(arguments), ", **", text(keywords), ")"});
}

std::string Printer::fresh(int index) {
  const std::string* local = program_.local_of_fresh(index);
  return local != nullptr ? *local : text(program_.plan().fresh[static_cast<std::size_t>(index)].make);
}

std::string Printer::text(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::Constant:
      return object(expr.object.get());
    case Expr::Kind::Source:
      return text(expr.source);
    case Expr::Kind::Output:
      return program_.local_of(expr.node);
    case Expr::Kind::Fresh:
      return fresh(expr.index);
    case Expr::Kind::Call:
      return call(program_.global_of(expr.object.get()), expr.items);
    case Expr::Kind::CallKw:
      return keyword_call(expr);
    case Expr::Kind::Tuple:
      return cat({"(", joined(expr.items), expr.items.size() == 1 ? ",)" : ")"});
    case Expr::Kind::List:
      return cat({"[", joined(expr.items), "]"});
    case Expr::Kind::Set:
      return cat({"{", joined(expr.items), "}"});
    case Expr::Kind::Slice:
      return cat({"slice(", joined(expr.items), ")"});
    case Expr::Kind::Map:
      return map(expr.items);
  }
  return "?";
}

std::string Printer::text(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::Evaluate:
      return text(stmt.value);
    case Stmt::Kind::SetAttr:
      return cat({text(stmt.target), ".", py::text_of(stmt.name.get()), " = ", text(stmt.value)});
    case Stmt::Kind::DelAttr:
      return cat({"del ", text(stmt.target), ".", py::text_of(stmt.name.get())});
    case Stmt::Kind::SetItem:
      return cat({text(stmt.target), "[", text(stmt.key), "] = ", text(stmt.value)});
    case Stmt::Kind::DelItem:
      return cat({"del ", text(stmt.target), "[", text(stmt.key), "]"});
    case Stmt::Kind::Append:
      return cat({text(stmt.target), ".append(", text(stmt.value), ")"});
    case Stmt::Kind::Add:
      return cat({text(stmt.target), ".add(", text(stmt.value), ")"});
  }
  return "?";
}

std::string Printer::graph_call() {
  const InputLoader& loader = program_.input_loader();
  std::string arguments;
  for (const Source* input : loader.function ? loader.roots : program_.inputs()) {
    if (!arguments.empty()) arguments += ", ";
    arguments += text(input);
  }
  if (!loader.function) return cat({program_.graph_name(), "(", arguments, ")"});
  return cat({program_.graph_name(), "(*", program_.global_of(loader.function.get()), "(", arguments, "))"});
}

// What the C function gives, one comment for each input.
std::string Printer::loader_notes() {
  const InputLoader& loader = program_.input_loader();
  if (!loader.function) return "";
  std::string out = cat({"# ", program_.global_of(loader.function.get()), " gives:\n"});
  for (const Source* input : program_.inputs()) out += cat({"#   ", source::print(input), "\n"});
  return out;
}

std::string Printer::line(const Line& line) {
  switch (line.kind) {
    case Line::Kind::Draw: {
      std::string generators;
      for (const Source* generator : program_.drawing().generators)
        generators += cat({generators.empty() ? "" : ", ", text(generator)});
      return cat({*program_.local_of(line.source), " = ", program_.global_of(program_.drawing().drawer), "(",
                  generators, ")"});
    }
    case Line::Kind::Load:
      return cat({*program_.local_of(line.source), " = ", step(line.source)});
    case Line::Kind::Make:
      return cat({*program_.local_of_fresh(line.fresh), " = ",
                  text(program_.plan().fresh[static_cast<std::size_t>(line.fresh)].make)});
    case Line::Kind::Do:
      return text(*line.stmt);
    case Line::Kind::Return:
      return program_.returns_graph_output() ? cat({"return ", graph_call(), "[0]"})
                                             : cat({"return ", text(program_.plan().result)});
    case Line::Kind::Graph:
      break;
  }
  if (program_.returns_graph_output()) return "";  // part of the return
  std::string targets;
  for (const graph::Node* node : program_.outputs())
    targets += cat({targets.empty() ? "" : ", ", program_.local_of(node)});
  if (targets.empty()) return graph_call();
  return cat({targets, program_.outputs().size() == 1 ? ", = " : " = ", graph_call()});
}

}  // namespace

std::vector<std::string> texts_of(Program& program) {
  Printer printer(program);
  std::vector<std::string> texts;
  texts.reserve(program.lines().size());
  for (const Line& line : program.lines()) texts.push_back(printer.line(line));
  return texts;
}

std::string loader_notes(Program& program) { return Printer(program).loader_notes(); }

}  // namespace pellucid::codegen
