#include "codegen/program.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_set>

#include "base/reasons.h"
#include "codegen/emit.h"
#include "codegen/facts.h"
#include "region/draws.h"

namespace pellucid::codegen {
namespace {

std::string identifier(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (keep) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "v_" + out;
  constexpr std::size_t kLongest = 60;
  return out.substr(0, kLongest);
}

// `h_0_attn` for …['h']._modules['0']._modules['attn']: the last words of the path.
std::string words_of(const Source* source) {
  std::string words;
  int taken = 0;
  for (const Source* s = source; s != nullptr && taken < 3; s = s->base) {
    std::string word;
    if (s->step == source::Step::Plain || s->step == source::Step::OverArray) continue;
    if (s->step == source::Step::Item || source::step_function_name(s->step) != nullptr)
      word = std::to_string(s->index);
    if (source::is_of_layout(s->step)) word.insert(0, s->step == source::Step::Size ? "size_" : "stride_");
    if (s->step == source::Step::Local || s->step == source::Step::Free || s->step == source::Step::InstanceAttr ||
        s->step == source::Step::DictItem || s->step == source::Step::Member) {
      word = py::text_of(s->operand.get());
    }
    if (s->step == source::Step::DictOf) word = "dict";
    if (s->step == source::Step::Drawn) word = "drawn";
    if (word.empty()) continue;
    // _modules, _parameters and _buffers say nothing, but where the path ends in them
    if (s != source && (word == "_modules" || word == "_parameters" || word == "_buffers")) continue;
    words = words.empty() ? word : word + "_" + words;
    ++taken;
  }
  return identifier(words.empty() ? "value" : words);
}

std::string attribute_text(PyObject* object, const char* name) {
  auto found = py::Owned<>::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return py::text_of(found.get());
}

// What a reader would call a global object.
std::string hint_for(PyObject* object) {
  if (PyFloat_CheckExact(object)) return std::isnan(PyFloat_AS_DOUBLE(object)) ? "nan" : "inf";
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name == nullptr) PyErr_Clear();  // a module of the user's own making
    return name != nullptr ? name : "module";
  }
  if (PyFunction_Check(object) || PyCFunction_Check(object)) return attribute_text(object, "__qualname__");
  if (Py_TYPE(object) == &PyWrapperDescr_Type || Py_TYPE(object) == &PyMethodDescr_Type)
    return attribute_text(object, "__qualname__");
  if (Py_TYPE(object) == &_PyMethodWrapper_Type) return attribute_text(object, "__qualname__");
  if (PyDict_CheckExact(object)) {
    PyObject* name = PyDict_GetItemString(object, "__name__");
    if (name != nullptr && PyUnicode_CheckExact(name)) return "globals_of_" + py::text_of(name);
  }
  return std::string("a_") + _PyType_Name(Py_TYPE(object));
}

bool is_root(const Source* source) { return source->base == nullptr; }
// Loads that cost no more than a local does.
bool is_cheap(const Source* source) {
  return is_root(source) || (source->step == source::Step::CellContents && source->base->step == source::Step::Free);
}

}  // namespace

Program::Program(const region::Capture& capture, Plan plan, bool call_graph, std::string graph_name)
    : plan_(std::move(plan)), loads_(capture), graph_name_(std::move(graph_name)) {
  reserve_user_names(capture.code.get());
  for (const std::string& name : capture.arguments) {
    locals_taken_.reserve(name);
    globals_taken_.reserve(name);  // in the text it would be the argument
  }
  const auto free = py::take(PyCode_GetFreevars(capture.code.get()));
  for (PyObject* name : list_items(free.get())) globals_taken_.reserve(py::text_of(name));  // the same
  for (const std::string& name : {graph_name_, std::string("__builtins__"), std::string("__name__")})
    globals_taken_.reserve(name);
  if (call_graph) {
    inputs_ = graph_inputs(capture);
    outputs_ = capture.graph.outputs();
  }
  for (graph::Node* node : plan_.outputs) {
    if (std::find(outputs_.begin(), outputs_.end(), node) == outputs_.end()) {
      throw GraphBreak(Reason::Internal, {{"detail", "a value leaves the region that the graph does not give"}});
    }
  }
  if (!capture.draws.empty()) {
    drawing_.generators = region::generators_of(capture);
    drawing_.drawer = capture.drawer ? capture.drawer.get() : Py_None;
  }
  if (is_worth_a_loader()) make_loader();
  count_all();
  direct_ =
      plan_.result.kind == Expr::Kind::Output && outputs_.size() == 1 && plan_.effects.empty() && plan_.order.empty();
  if (drawing_.drawer != nullptr) lay_out_draws(capture.drawn);
  if (call_graph) lay_out_graph();
  lay_out_rest();
}

bool Program::is_worth_a_loader() const {
  constexpr std::size_t kFewSteps = 12;  // by instructions these take about as long as the call of a loader
  std::unordered_set<const Source*> steps;
  for (const Source* input : inputs_) {
    for (const Source* s = input; s != nullptr && !is_cheap(s) && steps.insert(s).second;) s = s->base;
  }
  return steps.size() > kFewSteps;
}

void Program::make_loader() {
  input_loader_ = make_input_loader(inputs_);
  const std::size_t digits = graph_name_.find_last_not_of("0123456789") + 1;
  add_global("__inputs_" + graph_name_.substr(digits), input_loader_.function.get());
}

void Program::add_global(const std::string& wanted, PyObject* object) {
  const std::string name = globals_taken_.take(identifier(wanted));
  global_names_.emplace(object, name);
  globals_.emplace_back(name, py::Owned<>::share(object));
}

void Program::lay_out_draws(const Source* drawn) {
  add_global("__draw_all", drawing_.drawer);
  for (const Source* generator : drawing_.generators) load_shared(generator, false);
  source_locals_.emplace(drawn, new_local("drawn"));
  lines_.push_back({.kind = Line::Kind::Draw, .source = drawn});
}

void Program::count_all() {
  const auto count_statement = [this](const Stmt& stmt) {
    count(stmt.target);
    count(stmt.key);
    count(stmt.value);
  };
  if (!input_loader_.function) {
    for (const Source* input : inputs_) count(input);
  }
  for (const Source* generator : drawing_.generators) count(generator);
  for (const Fresh& fresh : plan_.fresh) {
    count(fresh.make);
    for (const Stmt& stmt : fresh.fill) count_statement(stmt);
  }
  for (const Stmt& stmt : plan_.effects) count_statement(stmt);
  count(plan_.result);
}

void Program::reserve_user_names(PyCodeObject* code) {
  for (const char* part : {"co_varnames", "co_cellvars", "co_freevars", "co_names"}) {
    auto names = py::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), part));
    for (PyObject* name : list_items(names.get())) locals_taken_.reserve(py::text_of(name));
  }
}

std::string Program::new_local(const std::string& hint) {
  locals_.push_back(locals_taken_.take(identifier(hint)));
  globals_taken_.reserve(locals_.back());  // in the text it would be the local
  return locals_.back();
}

void Program::count(const Source* source) {
  for (; source != nullptr; source = source->base) {
    if (uses_[source]++ != 0) return;  // its own base is loaded for the first use only
  }
}
void Program::count(const Expr& expr) {
  each(expr, [this](const Expr& part) {
    if (part.kind == Expr::Kind::Source) count(part.source);
  });
}

// Puts `source` and what it hangs on into locals where they are used more than once (`always`: itself in any case).
void Program::load_shared(const Source* source, bool always) {
  std::vector<const Source*> path;
  for (const Source* s = source; s != nullptr && !is_cheap(s) && source_locals_.count(s) == 0; s = s->base)
    path.push_back(s);
  for (auto s = path.rbegin(); s != path.rend(); ++s) {
    if (uses_[*s] < 2 && !(always && *s == source)) continue;
    source_locals_.emplace(*s, new_local(words_of(*s)));
    lines_.push_back({.kind = Line::Kind::Load, .source = *s});
  }
}
void Program::load_all(const Expr& expr, bool always) {
  each(expr, [&](const Expr& part) {
    if (part.kind != Expr::Kind::Source) return;
    // a cell's content may be written by the effects: only true roots are safe to read later
    if (always && !is_root(part.source) && is_cheap(part.source) && source_locals_.count(part.source) == 0) {
      source_locals_.emplace(part.source, new_local(words_of(part.source)));
      // First of all: the lines before this one may name it too.
      lines_.insert(lines_.begin(), {.kind = Line::Kind::Load, .source = part.source});
      return;
    }
    load_shared(part.source, always);
  });
}
void Program::load_all(const Stmt& stmt, bool always) {
  load_all(stmt.target, always);
  load_all(stmt.key, always);
  load_all(stmt.value, always);
}

void Program::lay_out_graph() {
  if (!input_loader_.function) {
    for (const Source* input : inputs_) load_shared(input, false);
  }
  lines_.push_back({.kind = Line::Kind::Graph});
  if (direct_) return;
  for (graph::Node* node : outputs_) output_locals_.emplace(node, new_local(node->name.empty() ? "out" : node->name));
}

void Program::lay_out_rest() {
  const bool writes = !plan_.effects.empty();
  // Every source is read before the first write.
  for (const Fresh& fresh : plan_.fresh) {
    load_all(fresh.make, writes);
    for (const Stmt& stmt : fresh.fill) load_all(stmt, writes);
  }
  for (const Stmt& stmt : plan_.effects) load_all(stmt, true);
  load_all(plan_.result, writes);
  for (int id : plan_.order) {
    const Fresh& fresh = plan_.fresh[static_cast<std::size_t>(id)];
    std::string type = fresh.original == nullptr ? "made" : Py_TYPE(fresh.original)->tp_name;
    fresh_locals_.emplace(id, new_local("new_" + type.substr(type.rfind('.') + 1)));
    lines_.push_back({.kind = Line::Kind::Make, .fresh = id});
  }
  for (int id : plan_.order) {
    for (const Stmt& stmt : plan_.fresh[static_cast<std::size_t>(id)].fill)
      lines_.push_back({.kind = Line::Kind::Do, .stmt = &stmt});
  }
  for (const Stmt& stmt : plan_.effects) lines_.push_back({.kind = Line::Kind::Do, .stmt = &stmt});
  lines_.push_back({.kind = Line::Kind::Return});
}

const std::string* Program::local_of(const Source* source) const {
  auto found = source_locals_.find(source);
  return found == source_locals_.end() ? nullptr : &found->second;
}
const std::string* Program::local_of_fresh(int index) const {
  auto found = fresh_locals_.find(index);
  return found == fresh_locals_.end() ? nullptr : &found->second;
}
const std::string& Program::local_of(const graph::Node* node) const { return output_locals_.at(node); }

const std::string& Program::global_of(PyObject* object) {
  auto found = global_names_.find(object);
  if (found == global_names_.end()) {
    found = global_names_.emplace(object, globals_taken_.take(identifier(hint_for(object)))).first;
    globals_.emplace_back(found->second, py::Owned<>::share(object));
  }
  return found->second;
}

}  // namespace pellucid::codegen
