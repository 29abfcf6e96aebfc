#include "region/size_marks.h"

#include <algorithm>

#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::region {
namespace {

// The sizes that torch itself expects to change: the ragged one of jagged nested tensors, and what a graph with open
// sizes gives.
constexpr const char* kOfTorch = "_dynamo_propagated_dynamic_indices";

PyObject* attribute(PyObject* tensor, const char* name) {  // borrowed; null
  PyObject* dict = py::instance_dict_if_any(tensor);
  return dict == nullptr ? nullptr : py::dict_get_str(dict, py::interned(name).get());
}

bool holds(PyObject* tensor, const char* name, std::int64_t dim) {
  PyObject* dims = attribute(tensor, name);
  if (dims == nullptr || !PyAnySet_Check(dims)) return false;
  return PySet_Contains(dims, py::take(PyLong_FromLongLong(dim)).get()) == 1;
}

// A bound of a range, None where there is none.
std::int64_t bound(PyObject* range, const char* name, std::int64_t otherwise) {
  const auto value = py::take(PyObject_GetAttrString(range, name));
  return PyLong_Check(value.get()) ? PyLong_AsLongLong(value.get()) : otherwise;
}

void add_range(PyObject* tensor, std::int64_t dim, SizeMark& mark) {
  PyObject* ranges = attribute(tensor, "_dynamo_dynamic_range");
  if (ranges == nullptr) return;
  const auto all = py::take(PySequence_Tuple(ranges));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
    PyObject* range = PyTuple_GET_ITEM(all.get(), i);
    if (bound(range, "dim", -1) != dim) continue;
    mark.least = std::max(mark.least, bound(range, "min", mark.least));
    mark.most = std::min(mark.most, bound(range, "max", mark.most));
  }
}

// Of a size that nothing may be concluded from there may be one or none. The bounds are {dim: (min, max)}.
void take_any_size(PyObject* tensor, std::int64_t dim, SizeMark& mark) {
  mark.least = 0;
  PyObject* bounds = attribute(tensor, "_dynamo_unbacked_bounds");
  if (bounds == nullptr || !PyDict_Check(bounds)) return;
  PyObject* ends = PyDict_GetItemWithError(bounds, py::take(PyLong_FromLongLong(dim)).get());
  if (ends == nullptr || !PyTuple_Check(ends) || PyTuple_GET_SIZE(ends) != 2) return;
  PyObject *least = PyTuple_GET_ITEM(ends, 0), *most = PyTuple_GET_ITEM(ends, 1);
  if (PyLong_Check(least)) mark.least = std::max(mark.least, static_cast<std::int64_t>(PyLong_AsLongLong(least)));
  if (PyLong_Check(most)) mark.most = std::min(mark.most, static_cast<std::int64_t>(PyLong_AsLongLong(most)));
}

}  // namespace

bool is_size_mark(PyObject* name) {
  const std::string text = PyUnicode_Check(name) ? py::text_of(name) : std::string();
  return text.starts_with("_dynamo_") || text == "_has_dynamo_dim_marking";
}

bool has_size_marks(PyObject* tensor) noexcept {
  PyObject* dict = py::instance_dict_if_any(tensor);
  static PyObject* const mark = py::interned("_has_dynamo_dim_marking").release();
  static PyObject* const of_torch = py::interned(kOfTorch).release();
  if (dict == nullptr) return false;
  return py::dict_get_str(dict, mark) == Py_True || py::dict_get_str(dict, of_torch) != nullptr;
}

SizeMark size_mark(PyObject* tensor, std::int64_t dim) {
  SizeMark mark;
  if (holds(tensor, "_dynamo_static_indices", dim)) {
    mark.wish = SizeMark::Wish::Closed;
  } else if (holds(tensor, "_dynamo_dynamic_indices", dim)) {
    mark.wish = SizeMark::Wish::Open;
    add_range(tensor, dim, mark);
  } else if (holds(tensor, "_dynamo_strict_unbacked_indices", dim)) {
    mark.wish = SizeMark::Wish::Open;
    take_any_size(tensor, dim, mark);
  } else if (holds(tensor, "_dynamo_unbacked_indices", dim)) {
    mark.wish = SizeMark::Wish::MaybeOpen;
    take_any_size(tensor, dim, mark);
  } else if (holds(tensor, "_dynamo_weak_dynamic_indices", dim) || holds(tensor, kOfTorch, dim)) {
    mark.wish = SizeMark::Wish::MaybeOpen;
  }
  return mark;
}

}  // namespace pellucid::region
