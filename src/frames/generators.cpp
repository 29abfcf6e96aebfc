#include "frames/generators.h"

#include <vector>

#include "py/ref.h"

#define Py_BUILD_CORE
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

namespace pellucid::frames {
namespace {

// The generator function's own prologue makes the frame: it needs some value for each argument.
PyObject* make(PyObject*, PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  return py::enter([&] {
    const std::vector<PyObject*> nothing(positional + static_cast<std::size_t>(code->co_kwonlyargcount) + 1, Py_None);
    py::Owned<> names;
    if (code->co_kwonlyargcount != 0) {
      names = py::take(
          PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, code->co_argcount + code->co_kwonlyargcount));
    }
    return py::take(PyObject_Vectorcall(function, nothing.data(), positional, names.get()));
  });
}

PyObject* filled(PyObject* values, Py_ssize_t at) noexcept {
  PyObject* value = PyTuple_GET_ITEM(values, at);
  return value == empty_slot() ? nullptr : Py_NewRef(value);
}

PyObject* fill(PyObject*, PyObject* const* args, Py_ssize_t) {
  auto* generator = reinterpret_cast<PyGenObject*>(args[0]);
  auto* frame = reinterpret_cast<_PyInterpreterFrame*>(generator->gi_iframe);
  const bool started = args[1] == Py_True;
  const long next = PyLong_AsLong(args[2]);
  PyObject *fast = args[3], *stack = args[4];
  Py_ssize_t slot = 0;
  for (; slot < PyTuple_GET_SIZE(fast); ++slot) {
    PyObject* old = std::exchange(frame->localsplus[slot], filled(fast, slot));
    Py_XDECREF(old);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stack); ++i) frame->localsplus[slot++] = filled(stack, i);
  frame->stacktop = static_cast<int>(slot);
  frame->prev_instr = _PyCode_CODE(frame->f_code) + next / 2 - 1;
  if (started) generator->gi_frame_state = FRAME_SUSPENDED;
  Py_RETURN_NONE;
}

PyMethodDef kMake = {"__make_generator", make, METH_O, nullptr};
PyMethodDef kFill = {"__fill_generator", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fill)),
                     METH_FASTCALL, nullptr};

}  // namespace

PyObject* generator_maker() {
  static PyObject* const function = py::take(PyCFunction_New(&kMake, nullptr)).release();
  return function;
}
PyObject* generator_filler() {
  static PyObject* const function = py::take(PyCFunction_New(&kFill, nullptr)).release();
  return function;
}
PyObject* empty_slot() {
  static PyObject* const empty =
      py::take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
  return empty;
}

}  // namespace pellucid::frames
