// Tensors of classes that the program derives from torch.Tensor: real ones stay what they are during capture, and those
// that a region makes are objects of the class over a fake. Torch gets a plain fake in place of either.
#pragma once
#include <Python.h>

#include <unordered_map>
#include <unordered_set>

namespace pellucid::region {

struct Region;

bool is_exact_tensor(PyObject* value) noexcept;  // of the class torch.Tensor itself
// A tensor of another class than torch's own plain ones.
bool is_subclassed(PyObject* value) noexcept;
bool is_derived(PyTypeObject* type) noexcept;  // a class of such tensors
// Whether captures know what operations on instances of such a class do: it leaves dispatch below Python to torch.
bool is_traced_subclass(PyTypeObject* type) noexcept;
// A traceable wrapper subclass: tensors around tensors, whose `__torch_dispatch__` is by contract functional and which
// say their parts by `__tensor_flatten__` (region/wrapper_subclasses.h).
bool is_wrapper_class(PyTypeObject* type) noexcept;
bool is_wrapper_subclass(PyObject* value) noexcept;  // an instance of one
// The graph gets an alias of class torch.Tensor of an instance, which is a view: autograd computes its history anew
// when its memory is written to in another way, and does not find the gradients of the instance then. A break,
// whichever of both comes first.
class WrittenInstances {
 public:
  void note_input(const void* memory, PyObject* instance);  // that requires gradients
  void note_write(const void* memory);

 private:
  void check(const void* memory) const;
  std::unordered_map<const void*, PyObject*> inputs_;
  std::unordered_set<const void*> written_;
};

// What is_traced_subclass() and is_wrapper_class() look at, guarded.
void guard_traced_subclass(Region& region, PyTypeObject* type);

}  // namespace pellucid::region
