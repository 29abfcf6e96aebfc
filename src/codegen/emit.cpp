#include "codegen/emit.h"

#include "base/reasons.h"
#include "bytecode/assemble.h"
#include "codegen/facts.h"
#include "codegen/program.h"
#include "py/cpython.h"

namespace pellucid::codegen {

using bytecode::Opcode;
namespace {

using bytecode::Assembler;

bytecode::Signature signature_for(const region::Capture& capture, const Program& program) {
  PyCodeObject* code = capture.code.get();
  bytecode::Signature signature;
  signature.filename = py::Owned<>::share(code->co_filename);
  signature.name = py::Owned<>::share(code->co_name);
  signature.qualname = py::Owned<>::share(code->co_qualname);
  signature.firstlineno = code->co_firstlineno;
  if (!capture.arguments.empty()) {  // a region from the middle of a program: its cells are among the arguments
    signature.argcount = static_cast<int>(capture.arguments.size());
    for (const std::string& name : capture.arguments) signature.varnames.push_back(py::str(name));
    for (const std::string& local : program.locals()) signature.varnames.push_back(py::str(local));
    return signature;
  }
  const int arguments = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0 ? 1 : 0) +
                        ((code->co_flags & CO_VARKEYWORDS) != 0 ? 1 : 0);
  signature.argcount = arguments;  // *args and **kwargs come as the tuple and dict they are
  if (code->co_nfreevars > 0) signature.flags |= CO_NESTED;
  for (int i = 0; i < arguments; ++i) {
    signature.varnames.push_back(py::Owned<>::share(py::slot_name(code, i)));
  }
  for (const std::string& local : program.locals()) signature.varnames.push_back(py::str(local));
  auto freevars = py::take(PyCode_GetFreevars(code));
  for (PyObject* name : list_items(freevars.get())) signature.freevars.push_back(py::Owned<>::share(name));
  return signature;
}

class Emitter {
 public:
  Emitter(Program& program, const region::Capture& capture)
      : program_(program), code_(signature_for(capture, program)) {
    PyCodeObject* code = capture.code.get();
    code_.set_position({.line = code->co_firstlineno, .end_line = code->co_firstlineno});
  }
  py::Owned<PyCodeObject> emit() {
    code_.prologue();
    for (const Line& line : program_.lines()) emit(line);
    return code_.finish();
  }
  // The same instructions, each at the line of a listing.
  py::Owned<PyCodeObject> emit_numbered() {
    int number = 1;
    code_.set_position({.line = number, .end_line = number});
    code_.prologue();
    for (const Line& line : program_.lines()) {
      ++number;
      code_.set_position({.line = number, .end_line = number});
      emit(line);
    }
    return code_.finish();
  }

 private:
  void emit(const Line& line);
  void emit(const Expr& expr);
  void emit(const Stmt& stmt);
  void emit(const Source* source);
  void emit_fresh(int index);
  void emit_graph();
  void emit_inputs();
  void emit_call(PyObject* callee, const std::vector<Expr>& arguments);
  void emit_keyword_call(const Expr& expr);
  void emit_items(const std::vector<Expr>& items) {
    for (const Expr& item : items) emit(item);
  }
  void load_object(PyObject* object, bool push_null = false);
  void load_base(const Source* source, const Load& load);
  int slot(const std::string& name) { return code_.local(py::str(name).get()); }
  static int size(const std::vector<Expr>& items) { return static_cast<int>(items.size()); }

  Program& program_;
  Assembler code_;
};

void Emitter::load_object(PyObject* object, bool push_null) {
  if (!push_null && is_literal(object)) return code_.load_const(object);
  code_.load_global(py::str(program_.global_of(object)).get(), push_null);
}

void Emitter::emit(const Source* source) {
  if (const std::string* local = program_.local_of(source)) return code_.load_fast(slot(*local));
  const Load load = program_.step(source);
  load_base(source, load);
}

void Emitter::load_base(const Source* source, const Load& load) {
  switch (load.form) {
    case Load::Form::Argument:
      return code_.load_fast(static_cast<int>(source->index));
    case Load::Form::Cell:
      return code_.emit(Opcode::LOAD_CLOSURE, code_.deref(load.name));
    case Load::Form::Deref:
      return code_.emit(Opcode::LOAD_DEREF, code_.deref(load.name));
    case Load::Form::Object:
      return load_object(load.callee);
    case Load::Form::Attr:
      emit(source->base);
      return code_.load_attr(load.name);
    case Load::Form::Subscr:
      emit(source->base);
      load_object(load.name);
      return code_.emit(Opcode::BINARY_SUBSCR);
    case Load::Form::Call:
      load_object(load.callee, true);
      emit(source->base);
      if (load.name != nullptr) load_object(load.name);
      return code_.call(load.name != nullptr ? 2 : 1);
    case Load::Form::CallSubscr:
      load_object(load.callee, true);
      emit(source->base);
      code_.load_const(py::interned("__dict__").get());
      code_.call(2);
      load_object(load.name);
      return code_.emit(Opcode::BINARY_SUBSCR);
  }
}

void Emitter::emit_call(PyObject* callee, const std::vector<Expr>& arguments) {
  load_object(callee, true);
  emit_items(arguments);
  code_.call(size(arguments));
}

void Emitter::emit_keyword_call(const Expr& expr) {
  const Expr &callee = expr.items[0], &arguments = expr.items[1], &keywords = expr.items[2];
  code_.emit(Opcode::PUSH_NULL);
  emit(callee);
  if (keywords.items.empty()) {
    emit_items(arguments.items);
    return code_.call(size(arguments.items));
  }
  emit(arguments);
  emit(keywords);
  code_.emit(Opcode::CALL_FUNCTION_EX, 1);
}

void Emitter::emit_fresh(int index) {
  if (const std::string* local = program_.local_of_fresh(index)) return code_.load_fast(slot(*local));
  emit(program_.plan().fresh[static_cast<std::size_t>(index)].make);
}

void Emitter::emit(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::Constant:
      return load_object(expr.object.get());
    case Expr::Kind::Source:
      return emit(expr.source);
    case Expr::Kind::Output:
      return code_.load_fast(slot(program_.local_of(expr.node)));
    case Expr::Kind::Fresh:
      return emit_fresh(expr.index);
    case Expr::Kind::Call:
      return emit_call(expr.object.get(), expr.items);
    case Expr::Kind::CallKw:
      return emit_keyword_call(expr);
    case Expr::Kind::Tuple:
      emit_items(expr.items);
      return code_.emit(Opcode::BUILD_TUPLE, size(expr.items));
    case Expr::Kind::List:
      emit_items(expr.items);
      return code_.emit(Opcode::BUILD_LIST, size(expr.items));
    case Expr::Kind::Set:
      emit_items(expr.items);
      return code_.emit(Opcode::BUILD_SET, size(expr.items));
    case Expr::Kind::Slice:
      emit_items(expr.items);
      return code_.emit(Opcode::BUILD_SLICE, size(expr.items));
    case Expr::Kind::Map:
      emit_items(expr.items);
      return code_.emit(Opcode::BUILD_MAP, size(expr.items) / 2);
  }
}

void Emitter::emit(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::Evaluate:
      emit(stmt.value);
      return code_.emit(Opcode::POP_TOP);
    case Stmt::Kind::SetAttr:
      emit(stmt.value);
      emit(stmt.target);
      return code_.store_attr(stmt.name.get());
    case Stmt::Kind::DelAttr:
      emit(stmt.target);
      return code_.delete_attr(stmt.name.get());
    case Stmt::Kind::SetItem:
      emit(stmt.value);
      emit(stmt.target);
      emit(stmt.key);
      return code_.emit(Opcode::STORE_SUBSCR);
    case Stmt::Kind::DelItem:
      emit(stmt.target);
      emit(stmt.key);
      return code_.emit(Opcode::DELETE_SUBSCR);
    case Stmt::Kind::Append:
    case Stmt::Kind::Add:
      emit(stmt.target);
      emit(stmt.value);
      code_.emit(stmt.kind == Stmt::Kind::Append ? bytecode::Opcode::LIST_APPEND : bytecode::Opcode::SET_ADD, 1);
      return code_.emit(Opcode::POP_TOP);
  }
}

void Emitter::emit_inputs() {
  const InputLoader& loader = program_.input_loader();
  const auto& loaded = loader.function ? loader.roots : program_.inputs();
  if (loader.function) load_object(loader.function.get(), true);
  for (const Source* input : loaded) emit(input);
  code_.call(static_cast<int>(loaded.size()));
  if (loader.function) code_.emit(Opcode::CALL_FUNCTION_EX);
}

void Emitter::emit_graph() {
  code_.load_global(py::str(program_.graph_name()).get(), true);
  emit_inputs();
  const auto& outputs = program_.outputs();
  if (outputs.empty()) return code_.emit(Opcode::POP_TOP);
  code_.emit(Opcode::UNPACK_SEQUENCE, static_cast<int>(outputs.size()));
  if (program_.returns_graph_output()) return;
  for (const graph::Node* node : outputs) code_.store_fast(slot(program_.local_of(node)));
}

void Emitter::emit(const Line& line) {
  switch (line.kind) {
    case Line::Kind::Draw:
      load_object(program_.drawing().drawer, true);
      for (const Source* generator : program_.drawing().generators) emit(generator);
      code_.call(static_cast<int>(program_.drawing().generators.size()));
      return code_.store_fast(slot(*program_.local_of(line.source)));
    case Line::Kind::Load: {
      const Load load = program_.step(line.source);
      load_base(line.source, load);
      return code_.store_fast(slot(*program_.local_of(line.source)));
    }
    case Line::Kind::Graph:
      return emit_graph();
    case Line::Kind::Make:
      emit(program_.plan().fresh[static_cast<std::size_t>(line.fresh)].make);
      return code_.store_fast(slot(*program_.local_of_fresh(line.fresh)));
    case Line::Kind::Do:
      return emit(*line.stmt);
    case Line::Kind::Return:
      if (!program_.returns_graph_output()) emit(program_.plan().result);
      return code_.emit(Opcode::RETURN_VALUE);
  }
}

py::Owned<> namespace_for(const Program& program, PyFunctionObject* original, PyObject* compiled) {
  auto globals = py::take(PyDict_New());
  PyObject* builtins = original->func_builtins;
  py::check(PyDict_SetItemString(globals.get(), "__builtins__", builtins));
  PyObject* module = original->func_module != nullptr ? original->func_module : Py_None;
  py::check(PyDict_SetItemString(globals.get(), "__name__", module));
  if (compiled != nullptr) py::check(PyDict_SetItemString(globals.get(), program.graph_name().c_str(), compiled));
  for (const auto& [name, object] : program.globals())
    py::check(PyDict_SetItem(globals.get(), py::str(name).get(), object.get()));
  return globals;
}

// A NaN from outside is the one that its guard holds; any other is the region's, which makes it at every call.
void know_nans(region::Capture& capture, PyObject* operand) {
  if (is_nan(operand)) {
    if (!capture.source_of.try_emplace(operand, capture.sources.constant(operand)).second) return;
    capture.alive.push_back(py::Owned<>::share(operand));
  } else if (PyTuple_Check(operand)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); ++i) know_nans(capture, PyTuple_GET_ITEM(operand, i));
  } else if (PyAnySet_Check(operand)) {
    for (PyObject* item : set_items(operand)) know_nans(capture, item);
  } else if (PySlice_Check(operand)) {
    auto* slice = reinterpret_cast<PySliceObject*>(operand);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) know_nans(capture, part);
  }
}

}  // namespace

void finish_graph(region::Capture& capture) {
  for (const guards::Guard& guard : capture.guards.all()) {
    // These ask for a key, which need not be there.
    const bool asks =
        guard.kind == guards::Kind::DICT_CONTAINS ? guard.number == 0 : guard.kind == guards::Kind::NO_FINALIZER_KEY;
    if (guard.operand && !asks) know_nans(capture, guard.operand.get());
  }
  const Plan plan = make_plan(capture);
  capture.bodies->finish();
  capture.graph.output(plan.outputs);
  capture.unused_inputs = graph_inputs(capture);
  capture.graph.simplify();
  const auto used = graph_inputs(capture);  // in the same order
  auto next = used.begin();
  std::erase_if(capture.unused_inputs, [&](const Source* input) {
    const bool is_used = next != used.end() && *next == input;
    if (is_used) ++next;
    return is_used;
  });
}

std::vector<const Source*> graph_inputs(const region::Capture& capture) {
  std::vector<const Source*> inputs;
  for (const graph::Node* node : capture.graph.placeholders()) {
    inputs.push_back(capture.sources.at(static_cast<std::size_t>(node->source_id)));
  }
  return inputs;
}

Region emit(const region::Capture& capture, PyObject* compiled, const std::string& name) {
  return emit(capture, make_plan(capture), compiled, name);
}

Region emit(const region::Capture& capture, Plan plan, PyObject* compiled, const std::string& name) {
  Program program(capture, std::move(plan), compiled != nullptr, name);
  PyFunctionObject* original = capture.function.get();
  auto code = Emitter(program, capture).emit();
  auto globals = namespace_for(program, original, compiled);
  auto function = py::take(PyFunction_New(code.object(), globals.get()));
  if (original->func_closure != nullptr && capture.arguments.empty())
    py::check(PyFunction_SetClosure(function.get(), original->func_closure));
  return {py::Owned<PyFunctionObject>::steal(reinterpret_cast<PyFunctionObject*>(function.release())),
          program.input_loader().function.get()};
}

bool calls_graph(const region::Capture& capture) {
  return capture.graph.op_count() != 0 || !capture.graph.outputs().empty();
}

std::string describe(const region::Capture& capture, const std::string& name) {
  Program program(capture, make_plan(capture), calls_graph(capture), name);
  std::string out = loader_notes(program);
  for (const std::string& text : texts_of(program)) {
    if (!text.empty()) out.append(text).append("\n");
  }
  return out;
}

Listing listing(const region::Capture& capture, const std::string& name) {
  Program program(capture, make_plan(capture), calls_graph(capture), name);
  auto code = Emitter(program, capture).emit_numbered();  // first, so that names are given as in emit()
  std::vector<std::string> lines = texts_of(program);
  auto globals = py::take(PyDict_New());
  for (const auto& [global, object] : program.globals())
    py::check(PyDict_SetItem(globals.get(), py::str(global).get(), object.get()));
  return {loader_notes(program), std::move(lines), py::Owned<>::share(code.object()), std::move(globals)};
}

}  // namespace pellucid::codegen
