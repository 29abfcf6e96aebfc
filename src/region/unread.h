// A live value that the program has not looked at yet. It stands in a variable for the value itself: whoever loads the
// variable reads the value, which guards it, and whoever only moves or drops it needs no guard.
#pragma once
#include <Python.h>

#include "py/ref.h"
#include "source/source.h"

namespace pellucid::region {

struct Unread {
  PyObject_HEAD PyObject* value;  // owned
  const source::Source* source;
  bool read;              // the value is guarded by now
  Py_ssize_t references;  // to the value, of the frames that were open where the region began
};

PyTypeObject* unread_type();
inline bool is_unread(PyObject* object) { return object != nullptr && Py_TYPE(object) == unread_type(); }
// Where the value is. Not in Capture::source_of, which has one object for a source: the value, once it was read.
inline const source::Source* source_of_unread(PyObject* unread) {
  return reinterpret_cast<const Unread*>(unread)->source;
}
py::Owned<> new_unread(PyObject* value, const source::Source* source, Py_ssize_t references);

}  // namespace pellucid::region
