#include "frames/settle.h"
#include "py/number_operator.h"
#include "py/traceback.h"

#define Py_BUILD_CORE
#include <internal/pycore_pyerrors.h>
#undef Py_BUILD_CORE

namespace pellucid::frames {
namespace {

// Null: an error is pending, or (with `nothing`) there is no value to push.
struct Settled {
  PyObject* value = nullptr;
  bool nothing = false;
};

using Rule = Settled (*)(Step&, const Wait&, PyObject*) noexcept;

Settled raised() noexcept { return {}; }
Settled gives(PyObject* value) noexcept { return {value, false}; }

// The rules get a value or, where their row says so, null with an error pending. They own the value.
Settled instead(PyObject* value, PyObject* other) noexcept {
  Py_DECREF(value);
  return gives(Py_NewRef(other));
}

Settled real_Push(Step&, const Wait&, PyObject* value) noexcept { return gives(value); }

Settled real_Drop(Step&, const Wait&, PyObject* value) noexcept {
  Py_DECREF(value);
  return {nullptr, true};
}

Settled real_Replace(Step&, const Wait& wait, PyObject* value) noexcept { return instead(value, wait.a.get()); }

Settled real_Init(Step&, const Wait& wait, PyObject* value) noexcept {
  if (value == Py_None) return instead(value, wait.a.get());
  PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(value)->tp_name);
  Py_DECREF(value);
  return raised();
}

// The arguments of a vectorcall as a tuple and a dict (null without keywords).
bool split(PyObject* values, PyObject* kwnames, py::Owned<>& positional, py::Owned<>& keywords) noexcept {
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  const Py_ssize_t count = PyTuple_GET_SIZE(values) - named;
  positional = py::Owned<>::steal(PyTuple_GetSlice(values, 0, count));
  if (!positional || named == 0) return static_cast<bool>(positional);
  keywords = py::Owned<>::steal(PyDict_New());
  for (Py_ssize_t i = 0; keywords && i < named; ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, i), PyTuple_GET_ITEM(values, count + i)) < 0)
      return false;
  }
  return static_cast<bool>(keywords);
}

Settled real_NewThenInit(Step&, const Wait& wait, PyObject* value) noexcept {
  PyTypeObject* type = Py_TYPE(value);
  if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(wait.a.get())) == 0) return gives(value);
  py::Owned<> positional, keywords;
  const bool done = split(wait.b.get(), wait.c.get(), positional, keywords) &&
                    type->tp_init(value, positional.get(), keywords.get()) >= 0;
  if (done) return gives(value);
  Py_DECREF(value);
  return raised();
}

// The int that __len__ gave: a new reference, or null with an error pending.
PyObject* checked_length(PyObject* value) noexcept {
  auto number = py::Owned<>::steal(PyNumber_Index(value));
  if (!number) return nullptr;
  const Py_ssize_t length = PyNumber_AsSsize_t(number.get(), PyExc_OverflowError);
  if (length == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (length >= 0) return number.release();
  PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
  return nullptr;
}

Settled real_Bool(Step&, const Wait& wait, PyObject* value) noexcept {
  const auto given = py::Owned<>::steal(value);
  if (wait.stage == 1 && PyBool_Check(value) == 0) {
    PyErr_Format(PyExc_TypeError, "__bool__ should return bool, returned %s", Py_TYPE(value)->tp_name);
    return raised();
  }
  const auto number = py::Owned<>::steal(wait.stage == 2 ? checked_length(value) : Py_NewRef(value));
  const int truth = number ? PyObject_IsTrue(number.get()) : -1;
  if (truth < 0) return raised();
  return gives(Py_NewRef((truth != 0) != (wait.number == 1) ? Py_True : Py_False));
}

// A null value without an error means StopIteration too, as tp_iternext says it.
bool stopped() noexcept { return PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_StopIteration) != 0; }

Settled real_ForIter(Step& step, const Wait& wait, PyObject* value) noexcept {
  if (value != nullptr) return gives(value);
  if (!stopped()) return raised();
  PyErr_Clear();
  step.drop(1);
  step.next = static_cast<int>(wait.number);
  return {nullptr, true};
}

// The pending error of a generator that was told to throw(): what the generator handles becomes its context.
Settled thrown_in(const Wait& wait) noexcept {
  if (wait.stage == kThrownIn) _PyErr_ChainStackItem(nullptr);
  return raised();
}

Settled real_Send(Step& step, const Wait& wait, PyObject* value) noexcept {
  if (value != nullptr) return gives(value);
  if (_PyGen_FetchStopIterationValue(&value) < 0) return thrown_in(wait);
  step.drop(1);
  step.next = static_cast<int>(wait.number);
  return gives(value);
}

Settled real_NamesAttribute(Step&, const Wait& wait, PyObject* value) noexcept {
  if (value != nullptr) return gives(value);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return raised();
  py::PythonError error;
  py::name_attribute(error.value(), wait.a.get(), wait.b.get());
  error.restore();
  return raised();
}

Settled real_GetAttrFallback(Step& step, const Wait& wait, PyObject* value) noexcept {
  if (value != nullptr) return gives(value);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return raised();
  PyErr_Clear();
  PyObject* arguments[] = {wait.a.get(), wait.b.get()};
  return real_NamesAttribute(step, wait, PyObject_Vectorcall(wait.c.get(), arguments, 2, nullptr));
}

Settled real_CallEx(Step&, const Wait& wait, PyObject* value) noexcept {
  const auto given = py::Owned<>::steal(value);
  const auto tuple = py::Owned<>::steal(PySequence_Tuple(value));
  return tuple ? gives(PyObject_Call(wait.a.get(), tuple.get(), wait.b.get())) : raised();
}

Settled real_CallWith(Step&, const Wait& wait, PyObject* value) noexcept {
  const auto given = py::Owned<>::steal(value);
  const Py_ssize_t count = PyTuple_GET_SIZE(wait.b.get());
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < count; ++i) values.push_back(i == wait.number ? value : PyTuple_GET_ITEM(wait.b.get(), i));
  const Py_ssize_t named = wait.c ? PyTuple_GET_SIZE(wait.c.get()) : 0;
  return gives(PyObject_Vectorcall(wait.a.get(), values.data(), static_cast<std::size_t>(count - named), wait.c.get()));
}

Settled real_Default(Step&, const Wait& wait, PyObject* value) noexcept {
  if (value != nullptr) return gives(value);
  if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(wait.a.get()) == 0) return raised();
  PyErr_Clear();
  return gives(Py_NewRef(wait.b.get()));
}

Settled real_Length(Step&, const Wait&, PyObject* value) noexcept {
  const auto given = py::Owned<>::steal(value);
  return gives(checked_length(value));
}

Settled real_Reflected(Step&, const Wait& wait, PyObject* value) noexcept {
  if (value != Py_NotImplemented) return gives(value);
  Py_DECREF(value);
  return gives(py::number_operator_after(wait.a.get(), wait.b.get(), static_cast<int>(wait.number), wait.stage));
}

// Of a generator that was told to close.
Settled real_Close(Step&, const Wait&, PyObject* value) noexcept {
  if (value != nullptr) {
    Py_DECREF(value);
    PyErr_SetString(PyExc_RuntimeError, "generator ignored GeneratorExit");
    return raised();
  }
  if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0 && PyErr_ExceptionMatches(PyExc_GeneratorExit) == 0)
    return raised();
  PyErr_Clear();
  return gives(Py_NewRef(Py_None));
}

Settled real_IterResult(Step&, const Wait&, PyObject* value) noexcept {
  if (PyIter_Check(value) != 0) return gives(value);
  PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", Py_TYPE(value)->tp_name);
  Py_DECREF(value);
  return raised();
}

Settled real_HasAttr(Step&, const Wait&, PyObject* value) noexcept {
  if (value != nullptr) return instead(value, Py_True);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return raised();
  PyErr_Clear();
  return gives(Py_NewRef(Py_False));
}

Settled real_Str(Step&, const Wait& wait, PyObject* value) noexcept {
  if (PyUnicode_Check(value) != 0) return gives(value);
  PyErr_Format(PyExc_TypeError, "%s returned non-string (type %.200s)", wait.number == 1 ? "__repr__" : "__str__",
               Py_TYPE(value)->tp_name);
  Py_DECREF(value);
  return raised();
}

Settled real_Raise(Step&, const Wait& wait, PyObject* value) noexcept {
  if (value == nullptr) return thrown_in(wait);
  if (wait.stage == kThrownIn) {
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value))), value, PyException_GetTraceback(value));
    return thrown_in(wait);
  }
  PyObject* cause = wait.b.get();
  if (PyExceptionInstance_Check(value)) {
    if (cause != nullptr) PyException_SetCause(value, cause == Py_None ? nullptr : Py_NewRef(cause));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  } else if (wait.a) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", wait.a.get(),
                 reinterpret_cast<PyObject*>(Py_TYPE(value)));
  } else {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
  }
  Py_DECREF(value);
  return raised();
}

Settled real_SetItemOn(Step&, const Wait& wait, PyObject* value) noexcept {
  if (PyObject_SetItem(wait.a.get(), wait.b.get(), value) < 0) {
    Py_DECREF(value);
    return raised();
  }
  return wait.c ? instead(value, wait.c.get()) : gives(value);
}

struct Row {
  Rule rule;  // null: only a capture can do it
  bool takes_errors;
};

#define REAL_Anywhere(name) real_##name
#define REAL_InRegion(name) nullptr
constexpr Row kRows[] = {
#define WAIT(name, takes, where) {REAL_##where(name), WaitTakes::takes == WaitTakes::Errors},
#include "frames/waits.def"
};

}  // namespace

bool settle(Step& step, const std::vector<Wait>& waits, PyObject* result) noexcept {
  for (const Wait& wait : waits) {
    const Row& row = kRows[static_cast<std::size_t>(wait.kind)];
    if (result == nullptr && !row.takes_errors) continue;
    const Settled settled = row.rule(step, wait, result);
    if (settled.nothing) return true;
    result = settled.value;
  }
  if (result == nullptr) return false;
  *step.top++ = result;
  return true;
}

}  // namespace pellucid::frames
