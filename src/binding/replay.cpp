// What python/pellucid/_replay needs from the core.
#include "binding/replay.h"

#include "aten/tensor_without_data.h"
#include "py/ref.h"

namespace nb = nanobind;

namespace pellucid::binding {
namespace {

PyObject* tensor_without_data(PyObject*, PyObject* arguments) {
  PyObject *sizes = nullptr, *strides = nullptr, *dtype = nullptr, *device = nullptr, *shares = nullptr;
  long long offset = 0, bytes = 0;
  int is_view = 0;
  if (PyArg_ParseTuple(arguments, "O!O!LLOOOp:_tensor_without_data", &PyTuple_Type, &sizes, &PyTuple_Type, &strides,
                       &offset, &bytes, &dtype, &device, &shares, &is_view) == 0)
    return nullptr;
  return py::enter([&] {
    const auto numbers = [](PyObject* tuple) {
      std::vector<std::int64_t> values;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        values.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
        if (values.back() == -1 && PyErr_Occurred() != nullptr) py::throw_pending();
      }
      return values;
    };
    return aten::tensor_without_data({numbers(sizes), numbers(strides), offset, bytes, is_view != 0}, dtype, device,
                                     shares);
  });
}

PyMethodDef kFunctions[] = {
    {"_tensor_without_data", tensor_without_data, METH_VARARGS,
     "(sizes, strides, offset, bytes, dtype, device, tensor whose storage it has or None, whether it is a view of "
     "that): no memory."},
    {},
};

}  // namespace

void add_replay(nb::module_& core) {
  if (PyModule_AddFunctions(core.ptr(), kFunctions) < 0) nb::raise_python_error();
}

}  // namespace pellucid::binding
