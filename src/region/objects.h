// Objects of Python as several files of this room look at them and make them.
#pragma once
#include "py/ref.h"
#include "region/types.h"
#include "symbolic/value.h"

namespace pellucid::region {

inline py::Owned<> object_of(const symbolic::Value& value) {
  switch (value.type) {
    case symbolic::Type::Int:
      return py::take(PyLong_FromLongLong(value.i));
    case symbolic::Type::Float:
      return py::take(PyFloat_FromDouble(value.f));
    default:
      return py::Owned<>::share(value.is_true() ? Py_True : Py_False);
  }
}

// A container of the same kind as `like` with these items.
py::Owned<> rebuilt(PyObject* like, py::Owned<> tuple);

// Each tensor below a value, in order.
template <class F>
void each_tensor(PyObject* value, F&& visit, int depth = 0) {
  if (depth > 50) return;
  switch (cat_of(value)) {
    case Cat::Tensor:
      visit(value);
      return;
    case Cat::List:
    case Cat::Tuple:
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
        each_tensor(PySequence_Fast_GET_ITEM(value, i), visit, depth + 1);
      return;
    case Cat::Dict: {
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(value, &position, &key, &item)) each_tensor(item, visit, depth + 1);
      return;
    }
    default:
      return;
  }
}

}  // namespace pellucid::region
