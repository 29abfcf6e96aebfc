#include "binding/bytecode_testing.h"

#include <nanobind/stl/string.h>

#include "bytecode/assemble.h"
#include "bytecode/control_flow.h"
#include "py/ref.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

// nanobind knows its own exceptions only: ours become pending errors here.
template <class F>
auto guarded(F&& body) {
  try {
    return body();
  } catch (...) {
    py::translate_current_exception();
  }
  throw nb::python_error();
}

PyCodeObject* code_of(nb::handle object) {
  if (!PyCode_Check(object.ptr())) {
    PyErr_SetString(PyExc_TypeError, "a code object is needed");
    py::throw_pending();
  }
  return reinterpret_cast<PyCodeObject*>(object.ptr());
}

py::Owned<PyCodeObject> reassembled(PyCodeObject* code) {
  const bytecode::DecodedCode fresh(code);  // not the cached one: a test that sweeps the library must not keep it all
  return bytecode::assemble(code, bytecode::program_of(fresh));
}

nb::object roundtrip(nb::handle code) {
  return guarded([&] { return nb::steal(reinterpret_cast<PyObject*>(reassembled(code_of(code)).release())); });
}

bool same_attribute(PyObject* left, PyObject* right, const char* name) {
  const auto a = py::take(PyObject_GetAttrString(left, name)), b = py::take(PyObject_GetAttrString(right, name));
  const int same = PyObject_RichCompareBool(a.get(), b.get(), Py_EQ);
  py::check(same);
  return same == 1;
}

void compare(PyCodeObject* code, std::vector<std::string>& differences, int& count) {
  const auto again = reassembled(code);
  auto* object = reinterpret_cast<PyObject*>(code);
  ++count;
  for (const char* name :
       {"co_code", "co_linetable", "co_exceptiontable", "co_varnames", "co_cellvars", "co_freevars", "co_flags"}) {
    if (!same_attribute(object, again.object(), name)) differences.push_back(py::repr_of(object) + ": " + name);
  }
  // CPython counts dead code too, so ours may be smaller, but never larger.
  if (again->co_stacksize > code->co_stacksize) differences.push_back(py::repr_of(object) + ": co_stacksize");
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

nb::object position_of(const bytecode::Position& at) {
  const auto part = [](int value) { return value < 0 ? nb::object(nb::none()) : nb::object(nb::int_(value)); };
  return nb::make_tuple(part(at.line), part(at.end_line), part(at.column), part(at.end_column));
}

// [(offset, opcode name, arg, target offset or None, position)], as dis shows it without EXTENDED_ARG and caches.
nb::object disassemble(nb::handle code) {
  return guarded([&] {
    const bytecode::DecodedCode& decoded = bytecode::decoded(code_of(code));
    nb::list rows;
    for (int i = 0; i < decoded.size(); ++i) {
      const bytecode::Instruction& at = decoded[i];
      const nb::object target =
          at.target < 0 ? nb::object(nb::none()) : nb::object(nb::int_(decoded[at.target].start()));
      const std::string name(bytecode::name_of(at.op));
      rows.append(nb::make_tuple(at.offset, name, at.arg, target, position_of(decoded.position(i))));
    }
    return nb::object(rows);
  });
}

// [(start, end, target, depth, lasti)] in byte offsets.
nb::object exception_table(nb::handle code) {
  return guarded([&] {
    nb::list rows;
    PyObject* bytes = code_of(code)->co_exceptiontable;
    const std::string_view text(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
    for (const auto& entry : bytecode::parse_exception_table(text)) {
      rows.append(nb::make_tuple(entry.start, entry.end, entry.target, entry.depth, entry.lasti));
    }
    return nb::object(rows);
  });
}

// {offset: names of the variables that are live before it}
nb::object live_locals(nb::handle code) {
  return guarded([&] {
    const bytecode::DecodedCode& decoded = bytecode::decoded(code_of(code));
    const int slots = code_of(code)->co_nlocalsplus;
    const auto live = bytecode::live_locals(bytecode::program_of(decoded), slots);
    nb::dict result;
    for (int i = 0; i < decoded.size(); ++i) {
      nb::list names;
      for (int slot = 0; slot < slots; ++slot) {
        if (live[static_cast<std::size_t>(i)][static_cast<std::size_t>(slot)])
          names.append(nb::borrow(decoded.local_name(slot)));
      }
      result[nb::int_(decoded[i].offset)] = names;
    }
    return nb::object(result);
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

void add_bytecode_testing(nb::module_& core) {
  nb::module_ m = core.def_submodule("_bytecode", "Decode, assemble and look at code objects.");
  m.def("roundtrip", &roundtrip, nb::arg("code"));
  m.def("roundtrip_differences", &roundtrip_differences, nb::arg("code"));
  m.def("disassemble", &disassemble, nb::arg("code"));
  m.def("exception_table", &exception_table, nb::arg("code"));
  m.def("live_locals", &live_locals, nb::arg("code"));
  m.def("opcodes", &opcodes);
  m.def("stack_effect", &stack_effect, nb::arg("opcode"), nb::arg("arg"), nb::arg("jump"));
}

}  // namespace pellucid::binding
