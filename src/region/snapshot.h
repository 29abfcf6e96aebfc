// The contents of a container as they are now, held. For loops over a container from outside whose body may make Python
// objects: that may start the collector, and a finaliser (or a thread that it lets run) may change the container.
// Taking the snapshot runs no Python code.
#pragma once
#include <Python.h>

#include <utility>
#include <vector>

#include "py/ref.h"

namespace pellucid::region {

inline std::vector<py::Owned<>> items_now(PyObject* list_or_tuple) {
  std::vector<py::Owned<>> items;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(list_or_tuple);
  items.reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) items.push_back(py::Owned<>::share(PySequence_Fast_GET_ITEM(list_or_tuple, i)));
  return items;
}

// The elements of a set or deque, the keys of a dict: not what an `__iter__` of a subclass would give.
inline py::Owned<> elements_now(PyObject* container) {
  PyTypeObject* builtin = Py_TYPE(container);
  while ((builtin->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) builtin = builtin->tp_base;
  auto list = py::take(PyList_New(0));
  const auto iterator = py::take(builtin->tp_iter(container));
  while (auto item = py::Owned<>::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get())))
    py::check(PyList_Append(list.get(), item.get()));
  if (PyErr_Occurred() != nullptr) py::throw_pending();
  return list;
}

// In the order of iteration, which is not that of the storage for an OrderedDict.
inline std::vector<std::pair<py::Owned<>, py::Owned<>>> entries_now(PyObject* dict) {
  std::vector<std::pair<py::Owned<>, py::Owned<>>> entries;
  entries.reserve(static_cast<std::size_t>(PyDict_GET_SIZE(dict)));
  if (PyODict_Check(dict)) {
    const auto keys = elements_now(dict);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      if (PyObject* value = PyDict_GetItemWithError(dict, key); value != nullptr)
        entries.emplace_back(py::Owned<>::share(key), py::Owned<>::share(value));
    }
    if (PyErr_Occurred() != nullptr) py::throw_pending();
    return entries;
  }
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) != 0)
    entries.emplace_back(py::Owned<>::share(key), py::Owned<>::share(value));
  return entries;
}

// Adds what a dict holds in its storage. PyDict_Update would ask a subclass that iterates in its own way.
inline void add_entries(PyObject* target, PyObject* dict) {
  if (PyDict_CheckExact(dict) || PyODict_CheckExact(dict)) {
    py::check(PyDict_Update(target, dict));  // of an OrderedDict in its order
    return;
  }
  for (const auto& [key, value] : entries_now(dict)) py::check(PyDict_SetItem(target, key.get(), value.get()));
}

inline py::Owned<> copy_of_dict(PyObject* dict) {
  if (PyDict_CheckExact(dict)) return py::take(PyDict_Copy(dict));
  auto copy = py::take(PyDict_New());
  add_entries(copy.get(), dict);
  return copy;
}

}  // namespace pellucid::region
