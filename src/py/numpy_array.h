// The head of numpy's arrays in memory, which its ABI keeps as it is (PyArrayObject_fields of its ndarraytypes.h): a
// guard on an array runs at every call, and numpy's headers are not needed to build.
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::py {

struct NumpyArray {
  PyObject_HEAD char* data;
  int nd;
  Py_ssize_t* dimensions;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* descr;
  int flags;
};

// Whether its elements lie in memory one behind the other, in the order of C, where they may be written.
bool is_plain_memory(PyObject* array) noexcept;
// (numpy.ndarray, its dtype, whether its memory has to be plain, its sizes …): what matches_layout() compares.
Owned<> layout_of_array(PyObject* array, bool with_plain_memory = false);
bool matches_layout(PyObject* layout, PyObject* object) noexcept;
// "f4[2, 3]": of a layout, and of any object.
std::string text_of_layout(PyObject* layout);
std::string text_of_array(PyObject* layout, PyObject* object);

}  // namespace pellucid::py
