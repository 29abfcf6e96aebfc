// Steps that no graph break asks for by itself: a region may still be made to end at them.
#include "bytecode/opcodes.h"
#include "check.h"
#include "frames/real_step.h"
#include "py/ref.h"

using namespace pellucid;
using bytecode::Opcode;

namespace {

struct Machine {
  explicit Machine(const char* name) {
    code = py::take(reinterpret_cast<PyObject*>(PyCode_NewEmpty("file", "function", 1)));
    auto names = py::take(PyTuple_Pack(1, py::str(name).get()));
    auto keywords = py::take(PyDict_New());
    py::check(PyDict_SetItemString(keywords.get(), "co_names", names.get()));
    auto replace = py::take(PyObject_GetAttrString(code.get(), "replace"));
    code = py::take(PyObject_Call(replace.get(), py::take(PyTuple_New(0)).get(), keywords.get()));
  }
  ~Machine() {
    while (top > 0) Py_XDECREF(slots[--top]);
  }
  void push(py::Owned<> value) { slots[top++] = value.release(); }
  bool run(Opcode opcode, int arg) {
    frames::Step step{.base = slots,
                      .top = slots + top,
                      .arg = arg,
                      .next = 0,
                      .kwnames = nullptr,
                      .code = reinterpret_cast<PyCodeObject*>(code.get())};
    const frames::Rule rule = frames::rule_for(static_cast<int>(opcode), step);
    const bool done = rule != nullptr && rule(step);
    top = static_cast<int>(step.top - slots);
    return done;
  }
  std::string error() {  // "NameError: text", and it is gone
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    const auto held = py::Owned<>::steal(type), text = py::Owned<>::steal(value), trace = py::Owned<>::steal(traceback);
    return py::repr_of(text.get());
  }

  py::Owned<> code;
  PyObject* slots[8] = {};
  int top = 0;
};

}  // namespace

TEST("real_step: globals are stored, loaded and deleted") {
  Machine machine("pellucid_unit_name");
  machine.push(py::str("value"));
  CHECK(machine.run(Opcode::STORE_GLOBAL, 0));
  CHECK_EQ(machine.top, 0);
  CHECK(machine.run(Opcode::LOAD_GLOBAL, 1));
  CHECK_EQ(machine.top, 2);
  CHECK(machine.slots[0] == nullptr);
  CHECK_EQ(py::text_of(machine.slots[1]), "value");
  CHECK(machine.run(Opcode::DELETE_GLOBAL, 0));
  CHECK(!machine.run(Opcode::DELETE_GLOBAL, 0));
  CHECK_EQ(machine.error(), "NameError(\"name 'pellucid_unit_name' is not defined\")");
  CHECK(!machine.run(Opcode::LOAD_GLOBAL, 0));
  CHECK_EQ(machine.error(), "NameError(\"name 'pellucid_unit_name' is not defined\")");
}

TEST("real_step: a builtin is a global without the NULL below") {
  Machine machine("len");
  CHECK(machine.run(Opcode::LOAD_GLOBAL, 0));
  CHECK_EQ(machine.top, 1);
  CHECK(machine.slots[0] == PyDict_GetItemString(PyEval_GetBuiltins(), "len"));
}

TEST("real_step: import from a module and from one that lacks the name") {
  Machine machine("math");
  machine.push(py::take(PyLong_FromLong(0)));
  machine.push(py::Owned<>::share(Py_None));
  CHECK(machine.run(Opcode::IMPORT_NAME, 0));
  CHECK_EQ(machine.top, 1);
  CHECK(!machine.run(Opcode::IMPORT_FROM, 0));
  CHECK(machine.error().find("cannot import name 'math' from 'math'") != std::string::npos);
}
