#include "region/late_items.h"

#include <algorithm>
#include <unordered_map>

#include "aten/layers.h"
#include "region/number.h"
#include "region/region.h"
#include "region/subclasses.h"
#include "region/torch_module.h"

namespace pellucid::region {
namespace {

PyObject* of_tensor_base(const char* name) {
  return py::take(PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), name)).release();
}

// By dtype: a number that stands for any that item() gives of such a tensor, of which nobody sees more than the type.
// Each int is one of 64 bits.
PyObject* stand_in(PyObject* dtype) {
  static const auto* const numbers = [] {
    auto* made = new std::unordered_map<PyObject*, PyObject*>();
    const auto add = [&](const char* name, PyObject* number) {
      made->emplace(py::import_attr("torch", name).release(), number);
    };
    for (const char* name : {"float16", "bfloat16", "float32", "float64"}) add(name, PyFloat_FromDouble(1.5));
    for (const char* name : {"uint8", "int8", "int16", "int32", "int64"}) add(name, PyLong_FromLong(3));
    add("bool", Py_True);
    return made;
  }();
  const auto found = numbers->find(dtype);
  return found == numbers->end() ? nullptr : found->second;
}

PyObject* stand_in_of(PyObject* tensor) {
  const auto dtype = py::take(PyObject_GetAttrString(tensor, "dtype"));
  return stand_in(dtype.get());
}

// The late number of a tensor in a value, or null.
PyObject* number_in(PyObject* value, int depth = 0) {
  constexpr int kDeepest = 50;
  if (is_number(value)) return as_number(value)->of_tensor ? value : nullptr;
  if (depth > kDeepest) return nullptr;
  if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (PyObject* found = number_in(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return found;
    }
  } else if (PyDict_Check(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item) != 0) {
      if (PyObject* found = number_in(item, depth + 1)) return found;
    }
  } else if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) {
      if (PyObject* found = number_in(part, depth + 1)) return found;
    }
  }
  return nullptr;
}

// The tensor whose number it is, or the first of those that it is computed of.
PyObject* tensor_of(PyObject* number) {
  PyObject* arguments = as_number(number)->arguments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, i);
    if (PyTuple_CheckExact(argument)) argument = number_in(argument);
    if (argument == nullptr || (is_number(argument) && !as_number(argument)->of_tensor)) continue;
    if (is_number(argument)) return tensor_of(argument);
    if (aten::is_tensor(argument)) return argument;
  }
  return nullptr;
}

}  // namespace

bool LateItems::may_read(PyObject* tensor) const {
  // What code of torch computes with is a number of the graph.
  if (!region_.numbers.policy.late_items || asks_to_compute(region_.top)) return false;
  if (region_.capture->bodies->is_open() || aten::is_below_transform()) return false;
  return cat_of(tensor) == Cat::Tensor && aten::is_plain_tensor(tensor) && !is_subclassed(tensor) &&
         aten::layout_kind(tensor) == aten::Layout::Strided && stand_in_of(tensor) != nullptr;
}

bool LateItems::may_read_as(PyObject* type, PyObject* tensor) const {
  if (!may_read(tensor)) return false;
  PyObject* const number = stand_in_of(tensor);
  const bool to_float = type == reinterpret_cast<PyObject*>(&PyFloat_Type) && !PyBool_Check(number);
  return to_float || type == reinterpret_cast<PyObject*>(Py_TYPE(number));
}

py::Owned<> LateItems::read(PyObject* tensor) {
  static PyObject* const detach = of_tensor_base("detach");
  static PyObject* const detach_name = py::interned("detach").release();
  static PyObject* const item = of_tensor_base("item");
  if (!may_read(tensor)) return {};
  PyObject* values[] = {tensor};
  // Whatever becomes of the tensor itself, this one is what it is now, but for its memory.
  Result detached = region_.recorder.torch_call(graph::Op::CallMethod, detach, detach_name, Args{values, nullptr});
  if (!detached.is_value()) return {};
  auto arguments = py::take(PyTuple_Pack(1, detached.value.get()));
  auto number = region_.numbers.computed(item, std::move(arguments), py::Owned<>::share(stand_in_of(tensor)), nullptr);
  as_number(number.get())->of_tensor = true;
  read_.push_back(std::move(detached.value));
  return number;
}

void LateItems::keep(const std::vector<aten::HeldStorage>& written) {
  const auto is_written = [&](const py::Owned<>& tensor) {
    const void* storage = aten::meta_of(tensor.get()).storage;
    return std::ranges::any_of(written, [&](const aten::HeldStorage& held) { return held.get() == storage; });
  };
  std::erase_if(read_, [&](const py::Owned<>& tensor) {
    if (!is_written(tensor)) return false;
    graph::Node*& known = region_.capture->node_of.at(tensor.get());
    std::vector<graph::Arg> args;
    args.push_back(graph::Arg::of(known));
    graph::Node* copy = region_.capture->graph.call(graph::Op::CallMethod, py::str("clone"), std::move(args), {},
                                                    aten::fake_like(tensor.get()));
    copy->where = known->where;
    copy->step = region_.steps;
    known = copy;
    return true;
  });
}

void LateItems::refuse_in_graph(PyObject* value) {
  PyObject* const number = read_.empty() ? nullptr : number_in(value);
  if (number == nullptr) return;
  region_.ends_before = region_.steps;
  refuse(number);
}

void LateItems::refuse(PyObject* number) {
  const graph::Node* node = region_.recorder.node_of(tensor_of(number));
  std::string words = node == nullptr || node->where == nullptr ? "" : words_of_call(*node->where);
  if (words.empty()) words = "Tensor.item()";
  unsupported(Reason::DataDependent,
              {{"operation", "a use of the value of " + words + ", which is read behind the graph,"}});
}

}  // namespace pellucid::region
