// The contents of a container as they are now, held. For loops over a container from outside whose body may make Python
// objects: that may start the collector, and a finaliser (or a thread that it lets run) may change the container.
// Taking the snapshot runs no Python code.
#pragma once
#include <Python.h>

#include <utility>
#include <vector>

#include "py/ref.h"

namespace pellucid::objects {

inline std::vector<py::Owned<>> items_now(PyObject* list_or_tuple) {
  std::vector<py::Owned<>> items;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(list_or_tuple);
  items.reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) items.push_back(py::Owned<>::share(PySequence_Fast_GET_ITEM(list_or_tuple, i)));
  return items;
}

inline std::vector<std::pair<py::Owned<>, py::Owned<>>> entries_now(PyObject* dict) {
  std::vector<std::pair<py::Owned<>, py::Owned<>>> entries;
  entries.reserve(static_cast<std::size_t>(PyDict_GET_SIZE(dict)));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) != 0)
    entries.emplace_back(py::Owned<>::share(key), py::Owned<>::share(value));
  return entries;
}

}  // namespace pellucid::objects
