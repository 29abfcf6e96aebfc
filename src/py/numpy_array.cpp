#include "py/numpy_array.h"

namespace pellucid::py {
namespace {

constexpr Py_ssize_t kFirstSize = 3;
constexpr int kPlain = 0x0001 | 0x0100 | 0x0400;  // NPY_ARRAY_C_CONTIGUOUS, _ALIGNED, _WRITEABLE

constexpr Py_ssize_t kLeastOpen = 2;

const NumpyArray* as_array(PyObject* object) noexcept { return reinterpret_cast<const NumpyArray*>(object); }

// numpy.ndarray; null while nobody has imported numpy.
PyTypeObject* array_type() noexcept {
  static PyTypeObject* known = nullptr;
  if (known == nullptr) {
    PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    auto type = Owned<>::steal(numpy == nullptr ? nullptr : PyObject_GetAttrString(numpy, "ndarray"));
    if (!type) PyErr_Clear();
    if (type && PyType_Check(type.get())) known = reinterpret_cast<PyTypeObject*>(type.release());
  }
  return known;
}

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
    PyObject* size = PyTuple_GET_ITEM(layout, kFirstSize + dim);
    if (size == Py_None ? array->dimensions[dim] < kLeastOpen : PyLong_AsSsize_t(size) != array->dimensions[dim])
      return false;
  }
  return true;
}

void open_size(PyObject* layout, std::int64_t dim) noexcept {
  PyObject* closed = PyTuple_GET_ITEM(layout, kFirstSize + dim);
  PyTuple_SET_ITEM(layout, kFirstSize + dim, Py_NewRef(Py_None));
  Py_DECREF(closed);
}

bool size_in_layout(PyObject* layout, std::int64_t dim, std::int64_t* out) noexcept {
  if (dim < 0 || kFirstSize + dim >= PyTuple_GET_SIZE(layout)) return false;
  PyObject* size = PyTuple_GET_ITEM(layout, kFirstSize + dim);
  if (size == Py_None) return false;
  *out = PyLong_AsSsize_t(size);
  return true;
}

bool layout_implies(PyObject* narrow, PyObject* wide) noexcept {
  const Py_ssize_t count = PyTuple_GET_SIZE(narrow);
  if (count != PyTuple_GET_SIZE(wide)) return false;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    if (PyTuple_GET_ITEM(narrow, i) != PyTuple_GET_ITEM(wide, i)) return false;
  }
  if (PyTuple_GET_ITEM(wide, 2) == Py_True && PyTuple_GET_ITEM(narrow, 2) != Py_True) return false;
  for (std::int64_t dim = 0; kFirstSize + dim < count; ++dim) {
    std::int64_t own = 0, asked = 0;
    const bool is_one = size_in_layout(narrow, dim, &own), asks_one = size_in_layout(wide, dim, &asked);
    if (asks_one ? !is_one || own != asked : is_one && own < kLeastOpen) return false;
  }
  return true;
}

bool size_of_array(PyObject* object, std::int64_t dim, std::int64_t* out) noexcept {
  if (Py_TYPE(object) != array_type() || dim < 0 || dim >= as_array(object)->nd) return false;
  *out = as_array(object)->dimensions[dim];
  return true;
}

int dimensions_of(PyObject* array) noexcept { return as_array(array)->nd; }

std::string text_of_layout(PyObject* layout) {
  auto name = Owned<>::steal(PyObject_GetAttrString(PyTuple_GET_ITEM(layout, 1), "name"));
  if (!name) PyErr_Clear();
  std::string text = (name ? text_of(name.get()) : std::string("array")) + "[";
  for (Py_ssize_t i = kFirstSize; i < PyTuple_GET_SIZE(layout); ++i) {
    PyObject* size = PyTuple_GET_ITEM(layout, i);
    const auto said = take(size == Py_None ? PyUnicode_FromString("*") : PyObject_Str(size));
    text.append(i == kFirstSize ? "" : ", ").append(text_of(said.get()));
  }
  return text + "]";
}

std::string text_of_array(PyObject* layout, PyObject* object) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != PyTuple_GET_ITEM(layout, 0))
    return std::string("type ") + Py_TYPE(object)->tp_name;
  return text_of_layout(layout_of_array(object).get());
}

}  // namespace pellucid::py
