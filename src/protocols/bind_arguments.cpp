#include "protocols/call.h"
#include "py/cpython.h"

namespace pellucid::protocols {

// The bound locals of a call, as CPython binds them. False: the call does not fit (CPython then words the TypeError).
bool bind_arguments(Interpreter& t, PyFunctionObject* function, PyCodeObject* code, Args args,
                    std::vector<py::Owned<>>& fast) {
  const int argc = code->co_argcount, posonly = code->co_posonlyargcount, kwonly = code->co_kwonlyargcount;
  const bool has_varargs = (code->co_flags & CO_VARARGS) != 0, has_varkw = (code->co_flags & CO_VARKEYWORDS) != 0;
  const int total = argc + kwonly;
  const auto given = static_cast<int>(args.size());
  const int filled = std::min(given, argc);
  for (int i = 0; i < filled; ++i) fast[i] = py::Owned<>::share(args[i]);
  if (has_varargs) {
    auto rest = py::take(PyTuple_New(std::max(0, given - argc)));
    for (int i = argc; i < given; ++i) PyTuple_SET_ITEM(rest.get(), i - argc, Py_NewRef(args[i]));
    fast[total] = std::move(rest);
  } else if (given > argc) {
    return false;
  }
  py::Owned<> varkw;
  if (has_varkw) varkw = py::take(PyDict_New());
  for (std::size_t k = 0; k < args.keyword_count(); ++k) {
    PyObject* name = PyTuple_GET_ITEM(args.kwnames, k);
    PyObject* value = args.values[args.size() + k];
    int slot = -1;
    for (int i = posonly; i < total; ++i) {
      PyObject* candidate = py::slot_name(code, i);
      if (candidate == name || PyUnicode_Compare(candidate, name) == 0) {
        slot = i;
        break;
      }
    }
    if (slot >= 0) {
      if (fast[slot]) return false;
      fast[slot] = py::Owned<>::share(value);
    } else if (has_varkw) {
      if (PyDict_Contains(varkw.get(), name)) return false;
      py::check(PyDict_SetItem(varkw.get(), name, value));
    } else {
      return false;
    }
  }
  if (has_varkw) fast[total + has_varargs] = std::move(varkw);
  PyObject* defaults = function->func_defaults;
  const int default_count = defaults == nullptr ? 0 : static_cast<int>(PyTuple_GET_SIZE(defaults));
  for (int i = 0; i < argc; ++i) {
    if (fast[i]) continue;
    if (i < argc - default_count) return false;
    fast[i] = py::Owned<>::share(PyTuple_GET_ITEM(defaults, i - (argc - default_count)));
  }
  for (int i = argc; i < total; ++i) {
    if (fast[i]) continue;
    PyObject* kwdefaults = function->func_kwdefaults;
    if (kwdefaults == nullptr) return false;
    bool found = false;
    Result value = t.region.reads.dict_get(kwdefaults, py::slot_name(code, i), &found);
    if (!found) return false;
    fast[i] = std::move(value.value);
  }
  return true;
}

}  // namespace pellucid::protocols
