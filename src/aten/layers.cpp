#include "aten/layers.h"

#include <ATen/FuncTorchTLS.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/aten.h"
#include "aten/internal.h"

namespace pellucid::aten {
namespace {

// The C++ headers of functorch need a library that torch does not ship: its functions for Python are asked.
PyObject* functorch(const char* name) { return py::import_attr("torch._C._functorch", name).release(); }

constexpr c10::DispatchKeySet kWrapperKeys{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::BatchedNestedTensor,
                                           c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize};

bool is_dual_level_open() noexcept { return static_cast<bool>(torch::autograd::ForwardADLevel::try_get_by_idx(0)); }

}  // namespace

bool is_wrapper(PyObject* tensor) noexcept { return impl_of(tensor)->key_set().has_any(kWrapperKeys); }

bool is_functional(PyObject* tensor) noexcept {
  bool found = false;
  each_layer(tensor, [&](PyObject* layer) { found |= impl_of(layer)->key_set().has(c10::DispatchKey::Functionalize); });
  return found;
}

py::Owned<> one_layer_below(PyObject* wrapper) noexcept {
  static PyObject* const get = functorch("get_unwrapped");
  auto below = py::Owned<>::steal(PyObject_CallOneArg(get, wrapper));
  if (!below) PyErr_Clear();
  return below;
}

py::Owned<> innermost(PyObject* tensor) noexcept {
  auto layer = py::Owned<>::share(tensor);
  while (layer && is_wrapper(layer.get())) layer = one_layer_below(layer.get());
  return layer;
}

Levels Levels::now() noexcept {
  static PyObject* const get_depth = functorch("get_dynamic_layer_stack_depth");
  static PyObject* const get_flag = functorch("get_inplace_requires_grad_allowed");
  Levels levels;
  levels.dual = is_dual_level_open();
  // Where functorch has never run on this thread, the rest is as it begins.
  if (at::functorch::functorchTLSAccessor() == nullptr) return levels;
  if (in_function_transform()) {
    const auto depth = py::Owned<>::steal(PyObject_CallNoArgs(get_depth));
    const std::size_t known = depth ? PyLong_AsSize_t(depth.get()) : 0;
    levels.depth = PyErr_Occurred() == nullptr ? known : 0;
    PyErr_Clear();
  }
  const auto flag = py::Owned<>::steal(PyObject_CallNoArgs(get_flag));
  if (!flag) PyErr_Clear();
  levels.inplace_requires_grad = flag.get() == Py_True;
  return levels;
}

bool is_below_transform() noexcept { return in_function_transform() || is_dual_level_open(); }

namespace {

LevelKind kind_of(PyObject* interpreter) noexcept {
  static PyObject* const types = functorch("TransformType");
  static PyObject* const vmap = py::take(PyObject_GetAttrString(types, "Vmap")).release();
  static PyObject* const grad = py::take(PyObject_GetAttrString(types, "Grad")).release();
  static PyObject* const jvp = py::take(PyObject_GetAttrString(types, "Jvp")).release();
  const auto key = py::Owned<>::steal(PyObject_CallMethod(interpreter, "key", nullptr));
  const auto is = [&](PyObject* type) { return key && PyObject_RichCompareBool(key.get(), type, Py_EQ) == 1; };
  if (is(vmap)) return LevelKind::Vmap;
  if (is(grad)) return LevelKind::Grad;
  return is(jvp) ? LevelKind::Jvp : LevelKind::Other;
}

}  // namespace

LevelKinds level_kinds() noexcept {
  static PyObject* const get_stack = functorch("get_interpreter_stack");
  LevelKinds found{.forward = is_dual_level_open(), .one_forward = is_dual_level_open()};
  if (!in_function_transform()) return found;
  const auto stack = py::Owned<>::steal(PyObject_CallNoArgs(get_stack));
  const bool is_known = stack && PyList_CheckExact(stack.get()) != 0;
  if (!is_known) found.others = true, found.innermost = LevelKind::Other;
  int jvps = 0;
  for (Py_ssize_t i = 0; is_known && i < PyList_GET_SIZE(stack.get()); ++i) {
    found.innermost = kind_of(PyList_GET_ITEM(stack.get(), i));
    found.vmap |= found.innermost == LevelKind::Vmap, found.grad |= found.innermost == LevelKind::Grad;
    jvps += found.innermost == LevelKind::Jvp ? 1 : 0, found.others |= found.innermost == LevelKind::Other;
  }
  PyErr_Clear();
  found.forward |= jvps > 0;
  found.one_forward = found.forward && jvps <= 1 && !found.grad && !found.others;
  return found;
}

py::Owned<> tangent_of(PyObject* tensor) noexcept {
  if (!is_dual_level_open()) return {};
  const c10::AutoFwGradMode enabled(true);  // which says whether it is asked for now
  using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  const at::TensorBase known(Impl::reclaim_copy(const_cast<c10::TensorImpl*>(impl_of(tensor))));
  const c10::AutogradMetaInterface* meta = known.unsafeGetTensorImpl()->autograd_meta();
  if (meta == nullptr) return {};
  const at::Tensor& tangent = meta->fw_grad(0, known);  // a view asks its base
  return tangent.defined() ? py::Owned<>::steal(new_object_of(tangent)) : py::Owned<>();
}

bool is_of_innermost_level(PyObject* tensor) noexcept {
  static PyObject* const get_level = functorch("maybe_get_level");
  static PyObject* const get_depth = functorch("get_dynamic_layer_stack_depth");
  if (!is_wrapper(tensor)) return false;
  const auto level = py::Owned<>::steal(PyObject_CallOneArg(get_level, tensor));
  const auto depth = py::Owned<>::steal(PyObject_CallNoArgs(get_depth));
  const bool is_innermost = level && depth && PyObject_RichCompareBool(level.get(), depth.get(), Py_EQ) == 1;
  PyErr_Clear();
  return is_innermost;
}

void Levels::restore() const {
  static PyObject* const pop = functorch("pop_dynamic_layer_stack_and_undo_to_depth");
  static PyObject* const set_flag = functorch("set_inplace_requires_grad_allowed");
  const Levels found = now();
  if (found == *this) return;
  if (found.dual && !dual) torch::autograd::ForwardADLevel::release_idx(0);
  if (found.depth > depth) {
    const auto to = py::take(PyLong_FromSize_t(depth));
    const auto done = py::take(PyObject_CallOneArg(pop, to.get()));
  }
  const auto done = py::take(PyObject_CallOneArg(set_flag, inplace_requires_grad ? Py_True : Py_False));
}

}  // namespace pellucid::aten
