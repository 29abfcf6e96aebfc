// pellucid._core._bytecode: the bytecode room seen from Python, for tests and for curiosity.
#include <nanobind/stl/string.h>

#include "bytecode/program.h"
#include "hooks.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {

PyCodeObject* code_of(nb::handle object) {
  if (!PyCode_Check(object.ptr())) {
    PyErr_SetString(PyExc_TypeError, "a code object is needed");
    py::throw_pending();
  }
  return reinterpret_cast<PyCodeObject*>(object.ptr());
}

int number_or_none(PyObject* value) { return value == Py_None ? -1 : static_cast<int>(PyLong_AsLong(value)); }

// What CPython says of each instruction; it gives one position for each code unit.
std::vector<bytecode::Position> positions_of(PyCodeObject* code, const bytecode::DecodedCode& decoded) {
  const auto iterator = py::take(PyObject_CallMethod(reinterpret_cast<PyObject*>(code), "co_positions", nullptr));
  const auto units = py::take(PySequence_List(iterator.get()));
  std::vector<bytecode::Position> found;
  for (const bytecode::Instruction& at : decoded.instructions()) {
    PyObject* part = PyList_GET_ITEM(units.get(), at.offset / 2);
    const auto number = [part](Py_ssize_t i) { return number_or_none(PyTuple_GET_ITEM(part, i)); };
    found.push_back({number(0), number(1), number(2), number(3)});
  }
  return found;
}

// (co_code, co_linetable, co_exceptiontable, co_stacksize) of `code`, decoded and put together again.
py::Owned<> reassembled(PyCodeObject* code) {
  const bytecode::DecodedCode fresh(code);  // not the cached one: a test that sweeps the library must not keep it all
  bytecode::Program program{fresh.instructions(), positions_of(code, fresh), fresh.exceptions()};
  const int depth = bytecode::max_stack_depth(program, bytecode::stack_depths(program));
  const bytecode::Encoded encoded = bytecode::encode(program, code->co_firstlineno);
  const auto bytes = [](const std::string& text) {
    return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  };
  return py::take(
      Py_BuildValue("(NNNi)", bytes(encoded.code), bytes(encoded.line_table), bytes(encoded.exception_table), depth));
}

nb::object reassemble(nb::handle code) {
  return guarded([&] { return nb::steal(reassembled(code_of(code)).release()); });
}

void compare(PyCodeObject* code, std::vector<std::string>& differences, int& count) {
  const auto again = reassembled(code);
  auto* object = reinterpret_cast<PyObject*>(code);
  ++count;
  Py_ssize_t part = 0;
  for (const char* name : {"co_code", "co_linetable", "co_exceptiontable"}) {
    const auto original = py::take(PyObject_GetAttrString(object, name));
    const int same = PyObject_RichCompareBool(original.get(), PyTuple_GET_ITEM(again.get(), part++), Py_EQ);
    py::check(same);
    if (same == 0) differences.push_back(py::repr_of(object) + ": " + name);
  }
  // CPython counts dead code too, so ours may be smaller, but never larger.
  if (PyLong_AsLong(PyTuple_GET_ITEM(again.get(), part)) > code->co_stacksize)
    differences.push_back(py::repr_of(object) + ": co_stacksize");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* inner = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(inner)) compare(reinterpret_cast<PyCodeObject*>(inner), differences, count);
  }
}

// (number of code objects seen, what differs after decode and assemble), for `code` and all code objects inside it.
nb::object roundtrip_differences(nb::handle code) {
  return guarded([&] {
    std::vector<std::string> differences;
    int count = 0;
    compare(code_of(code), differences, count);
    nb::list texts;
    for (const std::string& difference : differences) texts.append(nb::str(difference.c_str()));
    return nb::object(nb::make_tuple(count, texts));
  });
}

// [(offset, opcode name, arg, target offset or None)], as dis shows it without EXTENDED_ARG and caches.
nb::object disassemble(nb::handle code) {
  return guarded([&] {
    const bytecode::DecodedCode& decoded = bytecode::decoded(code_of(code));
    nb::list rows;
    for (int i = 0; i < decoded.size(); ++i) {
      const bytecode::Instruction& at = decoded[i];
      const nb::object target =
          at.target < 0 ? nb::object(nb::none()) : nb::object(nb::int_(decoded[at.target].start()));
      const std::string name(bytecode::name_of(at.op));
      rows.append(nb::make_tuple(at.offset, name, at.arg, target));
    }
    return nb::object(rows);
  });
}

// [(start, end, target, depth, lasti)] in byte offsets.
nb::object exception_table(nb::handle code) {
  return guarded([&] {
    nb::list rows;
    for (const auto& entry : bytecode::parse_exception_table(py::exception_table(code_of(code)))) {
      rows.append(nb::make_tuple(entry.start, entry.end, entry.target, entry.depth, entry.lasti));
    }
    return nb::object(rows);
  });
}

// {name: (number, caches)} of every opcode in the table
nb::dict opcodes() {
  nb::dict table;
  for (int number = 0; number < 256; ++number) {
    const bytecode::OpInfo& row = bytecode::info(static_cast<bytecode::Opcode>(number));
    if (!row.name.empty()) table[row.name.data()] = nb::make_tuple(number, static_cast<int>(row.caches));
  }
  return table;
}

int stack_effect(int opcode, int arg, bool jump) {
  return bytecode::stack_effect(static_cast<bytecode::Opcode>(opcode), arg, jump);
}

}  // namespace

void add_bytecode(nb::module_& core) {
  nb::module_ m = core.def_submodule("_bytecode", "Decode, assemble and look at code objects.");
  m.def("reassemble", &reassemble, nb::arg("code"));
  m.def("roundtrip_differences", &roundtrip_differences, nb::arg("code"));
  m.def("disassemble", &disassemble, nb::arg("code"));
  m.def("exception_table", &exception_table, nb::arg("code"));
  m.def("opcodes", &opcodes);
  m.def("stack_effect", &stack_effect, nb::arg("opcode"), nb::arg("arg"), nb::arg("jump"));
}

}  // namespace pellucid::hooks
