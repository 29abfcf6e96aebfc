#include "decompile/parse.h"

#include "py/ref.h"

namespace pellucid::decompile {
namespace {

constexpr long kStepsForEach = 3000;  // instructions read for each one of the code object
constexpr long kStepsAtLeast = 200000;
constexpr int kHighestTree = 1500;

}  // namespace

Parse::Parse(PyCodeObject* code, Shared& shared, std::set<Name> outer)
    : unit(code, shared.options), shared(shared), arena(shared.arena), outer(std::move(outer)) {
  is_class = unit.is_class();
  is_lambda = has_name(code, "<lambda>");
  shared.most_steps += kStepsAtLeast + kStepsForEach * size();
}

bool Parse::fail(const char* why, int at) {
  shared.failure = why;
  if (at >= 0) {
    const Ins& ins = unit[at];
    shared.failure += " (in " + py::text_of(unit.code()->co_name) + ", ";
    shared.failure += at < size() ? std::string(bytecode::name_of(ins.op)) + " at offset " + std::to_string(ins.offset)
                                  : std::string("at the end");
    shared.failure += ")";
  }
  return false;
}

bool Parse::step_allowed() {
  if (++shared.steps > shared.most_steps) return fail("the function is too complex");
  if (arena.highest() > kHighestTree) return fail("an expression is nested too deeply");
  return true;
}

Name Parse::name_at(PyObject* names, int index) {
  if (index < 0 || !PyTuple_Check(names) || index >= PyTuple_GET_SIZE(names)) {
    fail("a name that does not exist");
    return nullptr;
  }
  PyObject* name = PyTuple_GET_ITEM(names, index);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    fail("a name that is no text");
    return nullptr;
  }
  return arena.intern({text, static_cast<std::size_t>(size)});
}

PyObject* Parse::constant_at(int index) {
  PyObject* constants = unit.code()->co_consts;
  if (index < 0 || index >= PyTuple_GET_SIZE(constants)) {
    fail("a constant that does not exist");
    return nullptr;
  }
  return PyTuple_GET_ITEM(constants, index);
}

bool has_name(PyCodeObject* code, const char* name) {
  return PyUnicode_CompareWithASCIIString(code->co_name, name) == 0;
}

}  // namespace pellucid::decompile
