// C++ unit tests as extension modules, which run in an ordinary interpreter, so no libpython is needed. pellucid_unit
// links the rooms that need no torch, pellucid_region_unit those up to `region`: it proves that they stand without the
// others.
//
//   python -c "import pellucid_unit; raise SystemExit(pellucid_unit.run())"
#include <Python.h>

#include <cstdio>
#include <cstdlib>

#include "check.h"
#include "interrupt_at.h"
#include "py/ref.h"

#ifndef UNIT_MODULE
#define UNIT_MODULE pellucid_unit
#endif
#define UNIT_TEXT(name) #name
#define UNIT_NAME(name) UNIT_TEXT(name)

namespace unit {
namespace {
int failures = 0;
}

std::vector<Test>& all() {
  static std::vector<Test> tests;
  return tests;
}

void fail(const char* file, int line, const std::string& what) {
  ++failures;
  std::printf("  %s:%d: %s\n", file, line, what.c_str());
}

namespace {

std::string text_of_exception() {
  try {
    throw;
  } catch (const pellucid::py::PythonError& error) {
    return pellucid::py::repr_of(error.value());
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Runs the tests whose name contains `filter`; gives the number of failed ones.
int run(std::string_view filter) {
  int run_count = 0, failed = 0;
  for (const Test& test : all()) {
    if (std::string_view(test.name).find(filter) == std::string_view::npos) continue;
    const int before = failures;
    try {
      test.body();
    } catch (...) {
      fail(test.name, 0, "threw " + text_of_exception());
    }
    if (PyErr_Occurred() != nullptr) {
      fail(test.name, 0, "left a Python error pending");
      PyErr_Clear();
    }
    ++run_count;
    if (failures != before) std::printf("FAILED %s\n", test.name), ++failed;
  }
  std::printf("%d C++ tests, %d failed\n", run_count, failed);
  std::fflush(stdout);
  return run_count == 0 ? 1 : failed;
}

PyObject* run_from_python(PyObject*, PyObject* args) {
  const char* filter = "";
  if (PyArg_ParseTuple(args, "|s", &filter) == 0) return nullptr;
  return PyLong_FromLong(run(filter));
}

PyObject* names_from_python(PyObject*, PyObject*) {
  return pellucid::py::enter([] {
    auto names = pellucid::py::take(PyList_New(0));
    for (const Test& test : all()) pellucid::py::check(PyList_Append(names.get(), pellucid::py::str(test.name).get()));
    return names;
  });
}

PyMethodDef kMethods[] = {{"run", run_from_python, METH_VARARGS, "run(filter='') -> number of failed tests"},
                          {"names", names_from_python, METH_NOARGS, "names() -> list of tests"},
                          {"interrupt_at", interrupt_at, METH_VARARGS, "interrupt_at(allocation, signal or class)"},
                          {"allocations", allocations, METH_NOARGS, "allocations() -> made since interrupt_at"},
                          {}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, UNIT_NAME(UNIT_MODULE), "C++ unit tests.", -1, kMethods};

}  // namespace
}  // namespace unit

PyMODINIT_FUNC UNIT_JOIN(PyInit_, UNIT_MODULE)() { return PyModule_Create(&unit::kModule); }
