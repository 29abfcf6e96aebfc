// raise, the end of a with block, yield from.
#include "frames/real_rules.h"
#include "py/ref.h"

namespace pellucid::frames {

// Raises again with arg 0: the interpreter does that, without another entry in the traceback.
bool raise_varargs(Step& step) noexcept {
  const auto instance_of = [](PyObject* given, const char* words) {
    auto made =
        PyExceptionClass_Check(given) ? py::Owned<>::steal(PyObject_CallNoArgs(given)) : py::Owned<>::share(given);
    if (made && !PyExceptionInstance_Check(made.get())) {
      if (made.get() == given) {
        PyErr_SetString(PyExc_TypeError, words);
      } else {
        PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", given,
                     Py_TYPE(made.get()));
      }
      made = {};
    }
    return made;
  };
  const auto error = instance_of(step.peek(step.arg - 1), "exceptions must derive from BaseException");
  if (!error) return false;
  if (step.arg == 2) {
    PyObject* given = step.peek(0);
    auto cause =
        given == Py_None ? py::Owned<>() : instance_of(given, "exception causes must derive from BaseException");
    if (!cause && given != Py_None) return false;
    PyException_SetCause(error.get(), cause.release());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return false;
}

bool with_except_start(Step& step) noexcept {
  PyObject* error = step.peek(0);
  const auto traceback = py::Owned<>::steal(PyException_GetTraceback(error));
  PyObject* args[] = {nullptr, reinterpret_cast<PyObject*>(Py_TYPE(error)), error,
                      traceback ? traceback.get() : Py_None};
  PyObject* result = PyObject_Vectorcall(step.peek(3), args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (result != nullptr) *step.top++ = result;
  return result != nullptr;
}

bool get_yield_from_iter(Step& step) noexcept {
  PyObject* iterable = step.peek(0);
  if (PyGen_CheckExact(iterable)) return true;
  if (PyCoro_CheckExact(iterable)) {
    if ((step.code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0) return true;
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return false;
  }
  PyObject* iterator = PyObject_GetIter(iterable);
  if (iterator == nullptr) return false;
  step.replace(1, iterator);
  return true;
}

bool send(Step& step) noexcept {
  PyObject *value = step.peek(0), *receiver = step.peek(1);
  static PyObject* const name = PyUnicode_InternFromString("send");
  PyObject* result = value == Py_None && PyIter_Check(receiver) ? Py_TYPE(receiver)->tp_iternext(receiver)
                                                                : PyObject_CallMethodOneArg(receiver, name, value);
  if (result != nullptr) {
    step.replace(1, result);
    return true;
  }
  if (_PyGen_FetchStopIterationValue(&result) < 0) return false;
  step.next += 2 * step.arg;
  step.replace(2, result);
  return true;
}

}  // namespace pellucid::frames
