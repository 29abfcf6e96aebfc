#include "region/subclasses.h"

#include "aten/aten.h"
#include "aten/torch_function.h"
#include "py/cpython.h"
#include "region/region.h"
#include "region/types.h"

namespace pellucid::region {
namespace {

struct Names {
  PyObject* dispatch = py::interned("__torch_dispatch__").release();
  PyObject* flatten = py::interned("__tensor_flatten__").release();
  PyObject* unflatten = py::interned("__tensor_unflatten__").release();
  PyObject* getattribute = py::interned("__getattribute__").release();
  PyObject* finalizer = py::interned("__del__").release();
};
const Names& own_names() {
  static const Names names;
  return names;
}

}  // namespace

bool is_exact_tensor(PyObject* value) noexcept { return Py_IS_TYPE(value, aten::tensor_type()); }

bool is_subclassed(PyObject* value) noexcept { return cat_of(value) == Cat::Tensor && !aten::is_plain_tensor(value); }

bool is_derived(PyTypeObject* type) noexcept {
  return cat_of(type) == Cat::Tensor && !aten::is_plain_tensor_type(type);
}

bool is_traced_subclass(PyTypeObject* type) noexcept {
  const Names& names = own_names();
  const auto is_of_tensor = [&](PyObject* name) {
    return py::type_lookup(type, name) == py::type_lookup(aten::tensor_type(), name);
  };
  return is_of_tensor(names.dispatch) && is_of_tensor(names.getattribute) &&
         py::type_lookup(type, names.flatten) == nullptr && py::type_lookup(type, names.finalizer) == nullptr;
}

bool is_wrapper_class(PyTypeObject* type) noexcept {
  const Names& names = own_names();
  const auto lacks = [&](PyObject* name) {
    PyObject* found = py::type_lookup(type, name);
    return found == nullptr || found == py::type_lookup(aten::tensor_type(), name);
  };
  return is_derived(type) && !lacks(names.dispatch) && !lacks(names.flatten) && !lacks(names.unflatten) &&
         lacks(names.getattribute) && lacks(names.finalizer);
}

bool is_wrapper_subclass(PyObject* value) noexcept { return is_wrapper_class(Py_TYPE(value)); }

void guard_traced_subclass(Region& region, PyTypeObject* type) {
  const Names& names = own_names();
  for (PyObject* name : {names.dispatch, names.getattribute, names.flatten, names.unflatten, names.finalizer})
    region.lookups.type_lookup(type, name);
}

void WrittenInstances::note_input(const void* memory, PyObject* instance) {
  inputs_.emplace(memory, instance);
  check(memory);
}

void WrittenInstances::note_write(const void* memory) {
  written_.insert(memory);
  check(memory);
}

void WrittenInstances::check(const void* memory) const {
  const auto found = inputs_.find(memory);
  if (found == inputs_.end() || !written_.contains(memory)) return;
  const std::string name = Py_TYPE(found->second)->tp_name;
  unsupported(Reason::UnsupportedMutation, {{"target", "a tensor of class " + name + " that requires gradients"}});
}

}  // namespace pellucid::region
