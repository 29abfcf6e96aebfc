#include "bytecode/assemble.h"
#include "check.h"
#include "py/cpython.h"

using namespace pellucid;
using namespace pellucid::bytecode;

namespace {

std::vector<py::Owned<>> names(std::initializer_list<const char*> texts) {
  std::vector<py::Owned<>> list;
  for (const char* text : texts) list.push_back(py::str(text));
  return list;
}

py::Owned<> globals_with_builtins() {
  auto dict = py::take(PyDict_New());
  py::check(PyDict_SetItemString(dict.get(), "__builtins__", PyEval_GetBuiltins()));
  return dict;
}

py::Owned<> function_of(const py::Owned<PyCodeObject>& code, PyObject* globals) {
  return py::take(PyFunction_New(reinterpret_cast<PyObject*>(code.get()), globals));
}

long call_long(Assembler& code, std::initializer_list<long> args) {
  const auto function = function_of(code.finish(), globals_with_builtins().get());
  auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  Py_ssize_t i = 0;
  for (const long arg : args) PyTuple_SET_ITEM(tuple.get(), i++, PyLong_FromLong(arg));
  const auto result = py::take(PyObject_CallObject(function.get(), tuple.get()));
  return PyLong_AsLong(result.get());
}

py::Owned<> number(long value) { return py::take(PyLong_FromLong(value)); }

Signature taking(std::initializer_list<const char*> arguments) {
  Signature s;
  s.argcount = static_cast<int>(arguments.size());
  s.varnames = names(arguments);
  return s;
}

// What CPython reads in co_linetable of an instruction, when all are one code unit long.
Position position_at(PyCodeObject* code, int index) {
  Position at;
  PyCode_Addr2Location(code, 2 * index, &at.line, &at.column, &at.end_line, &at.end_column);
  return at;
}

}  // namespace

static_assert(stack_effect(Opcode::CALL, 3) == -4);
static_assert(stack_effect(Opcode::FOR_ITER, 0, true) == -1 && stack_effect(Opcode::FOR_ITER, 0, false) == 1);
static_assert(name_of(Opcode::LOAD_GLOBAL) == "LOAD_GLOBAL" && info(Opcode::LOAD_GLOBAL).caches == 5);
static_assert(info(Opcode::LOAD_ATTR).words == "an attribute" && info(Opcode::NOP).words.empty());
static_assert(info(Opcode::GET_AITER).policy == Policy::Coroutine && info(Opcode::CALL).policy == Policy::Symbolic);
static_assert(is_jump(Opcode::SEND) && !is_jump(Opcode::CALL) && !falls_through(Opcode::JUMP_FORWARD));

TEST("assembler: arithmetic and a call of a global") {
  Assembler code(taking({"x"}));
  code.prologue();
  code.load_global(py::str("abs").get(), true);
  code.load_fast(0);
  code.load_const(number(5).get());
  code.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_MULTIPLY));
  code.call(1);
  code.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(call_long(code, {-4}), 20);
}

TEST("assembler: keyword arguments") {
  Assembler code(taking({"x"}));
  code.prologue();
  code.load_global(py::str("int").get(), true);
  code.load_const(py::str("11").get());
  code.load_fast(0);
  code.call(2, py::take(Py_BuildValue("(s)", "base")).get());
  code.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(call_long(code, {3}), 4);
}

TEST("assembler: methods, containers, unpacking and subscripts") {
  Assembler code(taking({"x", "y"}));
  code.prologue();
  code.load_fast(0);
  code.load_fast(1);
  code.emit(Opcode::BUILD_LIST, 2);
  code.store_fast(code.local(py::str("items").get()));
  code.load_fast(2);
  code.load_method(py::str("append").get());
  code.load_const(number(100).get());
  code.call(1);
  code.emit(Opcode::POP_TOP);
  code.load_fast(2);
  code.emit(Opcode::UNPACK_SEQUENCE, 3);  // pushes the last item first
  code.emit(Opcode::BUILD_TUPLE, 3);
  code.load_const(number(0).get());
  code.emit(Opcode::BINARY_SUBSCR);
  code.load_fast(2);
  code.load_const(number(0).get());
  code.emit(Opcode::BINARY_SUBSCR);
  code.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_ADD));
  code.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(call_long(code, {7, 8}), 107);
}

TEST("assembler: a loop, with the direction of jumps chosen") {
  Assembler code(taking({"n"}));
  const int total = code.local(py::str("total").get()), i = code.local(py::str("i").get());
  code.prologue();
  code.load_const(number(0).get());
  code.store_fast(total);
  code.load_global(py::str("range").get(), true);
  code.load_fast(0);
  code.call(1);
  code.emit(Opcode::GET_ITER);
  const Label top = code.new_label(), done = code.new_label();
  code.bind(top);
  code.jump(Opcode::FOR_ITER, done);
  code.store_fast(i);
  code.load_fast(total);
  code.load_fast(i);
  code.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_INPLACE_ADD));
  code.store_fast(total);
  code.jump(Opcode::JUMP_FORWARD, top);
  code.bind(done);
  code.load_fast(total);
  code.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(call_long(code, {10}), 45);
}

TEST("assembler: protected ranges, nested, with computed depths") {
  Assembler code(taking({"x"}));
  const Label begin = code.new_label(), end = code.new_label(), handler = code.new_label(), after = code.new_label();
  const Label cleanup = code.new_label(), last = code.new_label();
  code.prologue();
  code.load_const(number(1000).get());  // stays on the stack below the range
  code.bind(begin);
  code.load_const(number(60).get());
  code.load_fast(0);
  code.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_FLOOR_DIVIDE));
  code.bind(end);
  code.jump(Opcode::JUMP_FORWARD, after);
  code.bind(handler);
  code.emit(Opcode::PUSH_EXC_INFO);
  code.emit(Opcode::POP_TOP);
  code.emit(Opcode::POP_EXCEPT);
  code.load_const(number(-1).get());
  code.jump(Opcode::JUMP_FORWARD, after);
  code.bind(cleanup);  // what CPython emits behind every handler: put the old exception back, raise again
  code.emit(Opcode::COPY, 3);
  code.emit(Opcode::POP_EXCEPT);
  code.emit(Opcode::RERAISE, 1);
  code.bind(last);
  code.bind(after);
  code.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_ADD));
  code.emit(Opcode::RETURN_VALUE);
  code.protect(begin, end, handler);
  code.protect(handler, cleanup, cleanup, true);
  const auto made = code.finish();
  const DecodedCode decoded(made.get());
  CHECK_EQ(decoded.exceptions().size(), 2U);
  CHECK_EQ(decoded.exceptions()[0].depth, 1);
  CHECK_EQ(decoded.exceptions()[1].depth, 2);
  const auto function = function_of(made, globals_with_builtins().get());
  for (const auto& [argument, expected] : {std::pair{6L, 1010L}, std::pair{0L, 999L}}) {
    const auto result = py::take(PyObject_CallOneArg(function.get(), number(argument).get()));
    CHECK_EQ(PyLong_AsLong(result.get()), expected);
  }
}

TEST("assembler: cells, free variables and a closure") {
  Signature inner_signature = taking({"y"});
  inner_signature.freevars = names({"x"});
  Assembler inner(std::move(inner_signature));
  const auto x = py::str("x"), late = py::str("late");
  inner.prologue();
  inner.emit(Opcode::LOAD_DEREF, inner.deref(x.get()));
  inner.load_fast(inner.local(py::str("later_local").get()) - 1);  // new locals move the slots of free variables
  inner.emit(Opcode::BINARY_OP, static_cast<int>(Operator::NB_SUBTRACT));
  inner.emit(Opcode::RETURN_VALUE);
  const auto inner_code = inner.finish();

  Signature outer_signature = taking({"x"});
  outer_signature.cellvars = names({"x", "late"});
  Assembler outer(std::move(outer_signature));
  outer.prologue();
  outer.load_const(number(3).get());
  outer.emit(Opcode::STORE_DEREF, outer.deref(late.get()));
  outer.emit(Opcode::PUSH_NULL);
  outer.emit(Opcode::LOAD_CLOSURE, outer.deref(x.get()));
  outer.emit(Opcode::BUILD_TUPLE, 1);
  outer.load_const(inner_code.object());
  outer.emit(Opcode::MAKE_FUNCTION, 8);
  outer.emit(Opcode::LOAD_DEREF, outer.deref(late.get()));
  outer.call(1);
  outer.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(call_long(outer, {10}), 7);
  CHECK_THROWS(py::PythonError, outer.deref(py::str("nowhere").get()));
}

TEST("assembler: more than 256 constants and names get EXTENDED_ARG, far jumps too") {
  Assembler code(taking({"x"}));
  const Label end = code.new_label();
  code.prologue();
  code.load_fast(0);
  code.jump(Opcode::POP_JUMP_FORWARD_IF_FALSE, end);
  for (int i = 0; i < 400; ++i) {
    code.load_const(number(1000 + i).get());
    code.emit(Opcode::POP_TOP);
  }
  code.bind(end);
  code.load_const(number(1399).get());
  code.emit(Opcode::RETURN_VALUE);
  CHECK_EQ(code.const_index(number(1399).get()), 400);
  CHECK_EQ(call_long(code, {0}), 1399);
}

TEST("assembler: equal constants of different types stay apart") {
  Assembler code(taking({}));
  const int one = code.const_index(number(1).get());
  CHECK_EQ(code.const_index(number(1).get()), one);
  CHECK(code.const_index(Py_True) != one);
  CHECK(code.const_index(py::take(PyFloat_FromDouble(1.0)).get()) != one);
  CHECK(code.const_index(py::take(PyFloat_FromDouble(0.0)).get()) !=
        code.const_index(py::take(PyFloat_FromDouble(-0.0)).get()));
}

TEST("assembler: refuses nonsense") {
  Assembler unbound(taking({}));
  unbound.jump(Opcode::JUMP_FORWARD, unbound.new_label());
  CHECK_THROWS(py::PythonError, unbound.finish());
  Assembler empty_stack(taking({}));
  empty_stack.emit(Opcode::POP_TOP);
  empty_stack.emit(Opcode::RETURN_VALUE);
  CHECK_THROWS(py::PythonError, empty_stack.finish());
  Assembler falls_off(taking({}));
  falls_off.prologue();
  CHECK_THROWS(py::PythonError, falls_off.finish());
  Assembler backwards(taking({}));
  backwards.prologue();
  const Label here = backwards.new_label();
  backwards.bind(here);
  backwards.load_const(Py_None);
  backwards.emit(Opcode::GET_ITER);
  backwards.jump(Opcode::FOR_ITER, here);
  backwards.emit(Opcode::POP_TOP);
  backwards.emit(Opcode::RETURN_VALUE);
  CHECK_THROWS(py::PythonError, backwards.finish());
}

TEST("assembler: positions reach the code object") {
  Signature signature = taking({});
  signature.firstlineno = 40;
  signature.filename = py::str("where.py");
  Assembler code(std::move(signature));
  code.prologue();
  code.set_position({41, 43, 5, 90});
  code.load_const(Py_None);
  code.set_position({});
  code.emit(Opcode::RETURN_VALUE);
  const auto made = code.finish();
  CHECK(position_at(made.get(), 0) == (Position{40, 40, -1, -1}));
  CHECK(position_at(made.get(), 1) == (Position{41, 43, 5, 90}));
  CHECK(position_at(made.get(), 2) == Position{});
  CHECK_EQ(py::text_of(made->co_filename), "where.py");
}

TEST("tables: random entries are what was put in") {
  unsigned state = 1;
  const auto random = [&state](int below) {
    return static_cast<int>((state = state * 1664525U + 1013904223U) >> 8) % below;
  };
  Assembler code(taking({}));
  std::vector<Position> positions;
  std::vector<ExceptionEntry> exceptions;
  for (int i = 0; i < 500; ++i) {
    const int line = 1 + random(100000), column = random(200);
    const int kind = random(4);
    positions.push_back(kind == 0   ? Position{}
                        : kind == 1 ? Position{line, line, -1, -1}
                                    : Position{line, line + random(2) * random(70), column, column + random(40)});
    code.set_position(positions.back());
    code.emit(Opcode::NOP);
    const int start = 2 * random(1 << 20);
    exceptions.push_back({start, start + 2 * random(1 << 12), 2 * random(1 << 22), random(300), random(2) == 1});
  }
  code.load_const(Py_None);
  code.emit(Opcode::RETURN_VALUE);
  const auto made = code.finish();
  for (std::size_t i = 0; i < positions.size(); ++i)
    CHECK(position_at(made.get(), static_cast<int>(i)) == positions[i]);
  CHECK(parse_exception_table(emit_exception_table(exceptions)) == exceptions);
  CHECK_THROWS(py::PythonError, parse_exception_table("\x40"));
}

TEST("decoded: cached on the code object, offsets and handlers") {
  const auto code = py::take(reinterpret_cast<PyCodeObject*>(
      Py_CompileString("try:\n  f(1)\nexcept E:\n  g(2)\n", "decoded.py", Py_file_input)));
  const DecodedCode& decoded = bytecode::decoded(code.get());
  CHECK(&decoded == &bytecode::decoded(code.get()));
  for (int i = 0; i < decoded.size(); ++i) CHECK_EQ(decoded.index_at(decoded[i].offset), i);
  CHECK_EQ(decoded.index_at(-2), -1);
  CHECK_EQ(decoded.index_at(1 << 20), -1);
  int guarded = 0;
  for (int i = 0; i < decoded.size(); ++i) {
    const ExceptionRange* handler = decoded.handler_of(i);
    if (handler != nullptr && decoded[handler->target].op == Opcode::PUSH_EXC_INFO) ++guarded;
    const bool calls = decoded[i].op == Opcode::CALL;
    if (calls) CHECK(handler != nullptr);
  }
  CHECK(guarded >= 4);
}
