#include "backend/fx_args.h"

namespace pellucid::backend {
namespace {
using graph::Arg;

py::Owned<> sequence_of(const Arg& arg, ValueOf value_of, void* context) {
  const bool is_list = arg.kind == Arg::Kind::List;
  const auto size = static_cast<Py_ssize_t>(arg.items.size());
  auto sequence = py::take(is_list ? PyList_New(size) : PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = object_of(arg.items[static_cast<std::size_t>(i)], value_of, context).release();
    if (is_list) {
      PyList_SET_ITEM(sequence.get(), i, item);
    } else {
      PyTuple_SET_ITEM(sequence.get(), i, item);
    }
  }
  return sequence;
}

py::Owned<> dict_of(const Arg& arg, ValueOf value_of, void* context) {
  auto dict = py::take(PyDict_New());
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    auto value = object_of(arg.items[i], value_of, context);
    py::check(PyDict_SetItem(dict.get(), arg.keys[i].get(), value.get()));
  }
  return dict;
}

py::Owned<> slice_of(const Arg& arg, ValueOf value_of, void* context) {
  py::Owned<> part[3];
  for (std::size_t i = 0; i < 3 && i < arg.items.size(); ++i) part[i] = object_of(arg.items[i], value_of, context);
  return py::take(PySlice_New(part[0].get(), part[1].get(), part[2].get()));
}
}  // namespace

py::Owned<> tuple_of(py::Owned<> items, PyObject* type) {
  if (type == nullptr || type == reinterpret_cast<PyObject*>(&PyTuple_Type)) return items;
  auto make = py::Owned<>::steal(PyObject_GetAttrString(type, "_make"));  // a namedtuple
  if (make) return py::take(PyObject_CallOneArg(make.get(), items.get()));
  PyErr_Clear();
  return py::take(PyObject_CallOneArg(type, items.get()));
}

py::Owned<> object_of(const Arg& arg, ValueOf value_of, void* context) {
  switch (arg.kind) {
    case Arg::Kind::Node:
      return py::Owned<>::share(value_of(arg.node, context));
    case Arg::Kind::Constant:
      return arg.constant.copy();
    case Arg::Kind::List:
      return sequence_of(arg, value_of, context);
    case Arg::Kind::Tuple:
      return tuple_of(sequence_of(arg, value_of, context), arg.constant.get());
    case Arg::Kind::Dict:
      return dict_of(arg, value_of, context);
    case Arg::Kind::Slice:
      return slice_of(arg, value_of, context);
  }
  return {};
}

}  // namespace pellucid::backend
