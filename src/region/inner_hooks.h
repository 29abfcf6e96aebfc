// Hooks of tensors that the graph of a compiler computes (pellucid/_inner_hooks.py): in the graph the tensor passes
// through an operator whose backward calls them. They are hung on it behind the graph, as all hooks are.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::region {

struct Capture;
struct Region;

class InnerHooks {
 public:
  explicit InnerHooks(Region& region) : region_(region) {}

  bool allowed = true;  // false: a region of before could not have them (runtime/refusals.h)

  // The tensor passes through the operator from here on. Gives what the hooks are hung on, as register_hook of that
  // module takes it: the key and the inputs that the tensor is computed of. Empty: it has uses that would not pass
  // there, or shares its memory, or the hook can reach tensors of the region, which would keep it alive, and it them.
  py::Owned<> key_for(PyObject* tensor, PyObject* hook);

 private:
  bool can_pass(PyObject* tensor) const;
  bool is_from_elsewhere(PyObject* hook) const;
  py::Owned<> inputs_of(PyObject* fake) const;

  struct Hooked {
    py::Owned<> tensor, key;
  };
  Region& region_;
  std::vector<Hooked> hooked_;
};

// Whether every backward pass that comes to the graph calls its hooks, and in the order of eager code: each result that
// has gradients is computed of each hooked tensor, and of two of these one of the other.
bool calls_hooks_as_eager(const Capture& capture);

}  // namespace pellucid::region
