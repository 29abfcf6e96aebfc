#include "py/numpy_array.h"

namespace pellucid::py {
namespace {

constexpr Py_ssize_t kFirstSize = 3;
constexpr int kPlain = 0x0001 | 0x0100 | 0x0400;  // NPY_ARRAY_C_CONTIGUOUS, _ALIGNED, _WRITEABLE

const NumpyArray* as_array(PyObject* object) noexcept { return reinterpret_cast<const NumpyArray*>(object); }

}  // namespace

bool is_plain_memory(PyObject* array) noexcept { return (as_array(array)->flags & kPlain) == kPlain; }

Owned<> layout_of_array(PyObject* object, bool with_plain_memory) {
  const NumpyArray* array = as_array(object);
  auto layout = take(PyTuple_New(kFirstSize + array->nd));
  PyTuple_SET_ITEM(layout.get(), 0, Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(object))));
  PyTuple_SET_ITEM(layout.get(), 1, Py_NewRef(array->descr));
  PyTuple_SET_ITEM(layout.get(), 2, Py_NewRef(with_plain_memory && is_plain_memory(object) ? Py_True : Py_False));
  for (int dim = 0; dim < array->nd; ++dim)
    PyTuple_SET_ITEM(layout.get(), kFirstSize + dim, take(PyLong_FromSsize_t(array->dimensions[dim])).release());
  return layout;
}

bool matches_layout(PyObject* layout, PyObject* object) noexcept {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != PyTuple_GET_ITEM(layout, 0)) return false;
  const NumpyArray* array = as_array(object);
  if (array->descr != PyTuple_GET_ITEM(layout, 1) || kFirstSize + array->nd != PyTuple_GET_SIZE(layout)) return false;
  if (PyTuple_GET_ITEM(layout, 2) == Py_True && !is_plain_memory(object)) return false;
  for (int dim = 0; dim < array->nd; ++dim) {
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(layout, kFirstSize + dim)) != array->dimensions[dim]) return false;
  }
  return true;
}

std::string text_of_layout(PyObject* layout) {
  auto name = Owned<>::steal(PyObject_GetAttrString(PyTuple_GET_ITEM(layout, 1), "name"));
  if (!name) PyErr_Clear();
  std::string text = (name ? text_of(name.get()) : std::string("array")) + "[";
  for (Py_ssize_t i = kFirstSize; i < PyTuple_GET_SIZE(layout); ++i) {
    const auto size = take(PyObject_Str(PyTuple_GET_ITEM(layout, i)));
    text.append(i == kFirstSize ? "" : ", ").append(text_of(size.get()));
  }
  return text + "]";
}

std::string text_of_array(PyObject* layout, PyObject* object) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != PyTuple_GET_ITEM(layout, 0))
    return std::string("type ") + Py_TYPE(object)->tp_name;
  return text_of_layout(layout_of_array(object).get());
}

}  // namespace pellucid::py
