// The head of numpy's arrays in memory, which its ABI keeps as it is (PyArrayObject_fields of its ndarraytypes.h): a
// guard on an array runs at every call, and numpy's headers are not needed to build.
#pragma once
#include <Python.h>

#include <cstdint>

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
// (numpy.ndarray, its dtype, whether its memory has to be plain, its sizes …): what matches_layout() compares. An open
// size is None, and may be any of at least 2.
Owned<> layout_of_array(PyObject* array, bool with_plain_memory = false);
void open_size(PyObject* layout, std::int64_t dim) noexcept;  // of one that nobody else has yet
// False: it is open, or there is no such dimension.
bool size_in_layout(PyObject* layout, std::int64_t dim, std::int64_t* out) noexcept;
// Whether all arrays that match `narrow` match `wide`.
bool layout_implies(PyObject* narrow, PyObject* wide) noexcept;
// Of any object; false: it is no numpy.ndarray of so many dimensions.
bool size_of_array(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept;
int dimensions_of(PyObject* array) noexcept;
bool matches_layout(PyObject* layout, PyObject* object) noexcept;
// "f4[2, 3]": of a layout, and of any object.
std::string text_of_layout(PyObject* layout);
std::string text_of_array(PyObject* layout, PyObject* object);

}  // namespace pellucid::py
