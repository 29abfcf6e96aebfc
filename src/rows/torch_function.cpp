// Tensors of classes that the program derives from torch.Tensor: how they are made, and what torch's own code asks of
// classes with a `__torch_function__`.
#include "aten/torch_function.h"

#include <algorithm>

#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// An object of class `cls` over what torch computes of the tensor.
Result object_of_class(Interpreter& t, PyObject* cls, Result over) {
  if (!over.is_value()) return over;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (type == aten::tensor_type()) return over;
  region::guard_traced_subclass(t.region, type);
  return Result::of(t.region.recorder.as_class(over.value.get(), type));
}

bool is_known_class(Interpreter& t, PyObject* cls) {
  if (!PyType_Check(cls) || t.region.provenance.is_made(cls)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (type == aten::tensor_type()) return true;
  return region::cat_of(type) == Cat::Tensor && region::is_derived(type) && region::is_traced_subclass(type);
}

// tensor.as_subclass(cls): another object, of the same memory, through which gradients go.
Result as_subclass(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || region::cat_of(args[0]) != Cat::Tensor || !is_known_class(t, args[1]))
    return refuse(t, f, args);
  static PyObject* const alias =
      py::take(PyObject_GetAttrString(region::torch_operator("aten", "alias").get(), "default")).release();
  PyObject* values[] = {args[0]};
  return object_of_class(t, args[1],
                         t.region.recorder.torch_call(graph::Op::CallFunction, alias, alias, Args{values, nullptr}));
}

// cls.__new__(cls, tensor) of torch.Tensor does the same. Of other arguments it makes tensors with data.
Result new_tensor(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return refuse(t, f, args);
  PyObject* values[] = {args[1], args[0]};
  return as_subclass(t, f, Args{values, nullptr});
}

// torch.Tensor._make_subclass(cls, tensor): outside of autograd.
Result make_subclass(Interpreter& t, PyObject* f, Args args) {
  PyObject* grad = args.size() == 3 ? args[2] : args.keyword("require_grad");
  const bool known = args.size() >= 2 && args.size() + args.keyword_count() == (grad == nullptr ? 2U : 3U);
  if (!known || region::cat_of(args[1]) != Cat::Tensor || !is_known_class(t, args[0])) return refuse(t, f, args);
  if (grad != nullptr && grad != Py_False) {
    if (grad != Py_True) return refuse(t, f, args);
    unsupported(Reason::LeafInGraph, {{"operation", "_make_subclass()"}});
  }
  static PyObject* const detach = PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), "detach");
  auto name = py::interned("detach");
  PyObject* values[] = {args[1]};
  return object_of_class(
      t, args[0], t.region.recorder.torch_call(graph::Op::CallMethod, detach, name.get(), Args{values, nullptr}));
}

// has_torch_function and its like. A default device that is there from the beginning is no mode here: what torch's C
// code does with it is in the graph.
bool any_has(Interpreter& t, std::span<PyObject* const> values) {
  if (protocols::asks_modes(t) && !values.empty()) return true;
  if (!aten::asks_torch_functions()) return false;
  return std::ranges::any_of(values, [&](PyObject* value) { return protocols::has_torch_function(t, value); });
}
Result has_in_sequence(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return run_native(t, f, args);
  const auto items = protocols::native_elements(t, args[0]);
  if (!items) return refuse(t, f, args);
  return Result::boolean(
      any_has(t, {PySequence_Fast_ITEMS(items.get()), static_cast<std::size_t>(Py_SIZE(items.get()))}));
}
Result has_among(Interpreter& t, PyObject* f, Args args) {
  if (args.keyword_count() != 0) return run_native(t, f, args);
  return Result::boolean(any_has(t, args.values));
}

bool is_of_tensor(Args args) {
  return args.size() >= 2 && Py_IS_TYPE(args[0], &PyGetSetDescr_Type) && region::cat_of(args[1]) == Cat::Tensor &&
         PyType_IsSubtype(aten::tensor_type(), PyDescr_TYPE(args[0]));
}

// `torch.Tensor.shape.__get__(tensor)`: the function that a class is asked about where the program reads an attribute.
Result get_of_descriptor(Interpreter& t, PyObject* f, Args args) {
  if (!is_of_tensor(args) || args.keyword_count() != 0 || args.size() > 3)
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  PyObject* name = PyDescr_NAME(args[0]);
  if (auto answer = protocols::getattr_by_torch_function(t, args[1], name)) return std::move(*answer);
  return protocols::read_of_torch(t, args[1], name);
}
Result set_of_descriptor(Interpreter& t, PyObject* f, Args args) {
  if (!is_of_tensor(args) || !only_positional(args, 3, 3))
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  PyObject* name = PyDescr_NAME(args[0]);
  if (auto answer = protocols::setattr_by_torch_function(t, args[1], name, args[2])) return std::move(*answer);
  return protocols::as_none(protocols::write_of_torch(t, args[1], name, args[2]));
}

const Row rows[] = {
    {"torch._C.TensorBase.as_subclass", as_subclass},
    {"torch._C.TensorBase._make_subclass", make_subclass},
    {"torch._C.TensorBase.__new__", new_tensor},
    {"torch._C._has_torch_function", has_in_sequence},
    {"torch._C._has_torch_function_unary", has_among},
    {"torch._C._has_torch_function_variadic", has_among},
    {"types.GetSetDescriptorType.__get__", get_of_descriptor},
    {"types.GetSetDescriptorType.__set__", set_of_descriptor},
};

}  // namespace

const std::span<const Row> kTorchFunctionRows = rows;

}  // namespace pellucid::rows
