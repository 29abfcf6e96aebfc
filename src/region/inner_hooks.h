// Hooks of tensors that the graph of a compiler computes (pellucid/_inner_hooks.py): in the graph the tensor passes
// through an operator whose backward calls them. They are hung on it behind the graph, as all hooks are.
#pragma once
#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::region {

struct Capture;
struct Region;

class InnerHooks {
 public:
  explicit InnerHooks(Region& region) : region_(region) {}

  // The steps of hooks that a capture of before could not have there (runtime/refusals.h).
  std::vector<std::int64_t> behind;
  bool allowed() const;  // now

  // The tensor passes through the operator from here on. Gives what the hooks are hung on, as register_hook of that
  // module takes it: the key, the inputs that it is computed of, and None (tell_results). Empty: it has uses that would
  // not pass there, or shares its memory, or the hook can reach tensors of the region, which would keep it alive, and
  // it them.
  py::Owned<> key_for(PyObject* tensor, PyObject* hook);
  // The inputs or the outputs of a module pass through such an operator, which gives new tensors of those with
  // gradients. Empty: it may not be.
  py::Owned<> pass_all(PyObject* tensors);
  // What the hooks of a module are hung on, for the first tensor that pass_all has given. Empty: it gave no such one.
  py::Owned<> key_of_passed(PyObject* tensor) const;

 private:
  py::Owned<> new_key() const;
  py::Owned<> with_inputs(PyObject* key, PyObject* fake) const;
  bool can_pass(PyObject* tensor) const;
  bool is_from_elsewhere(PyObject* hook) const;
  py::Owned<> inputs_of(PyObject* fake) const;

  struct Hooked {
    py::Owned<> tensor, key;
  };
  Region& region_;
  std::vector<Hooked> hooked_, passed_;
};

// The step of a hook that a backward pass through the graph would call in another order than eager code, or that the
// graph shows in another way; -1: there is none. A hooked tensor is none of the results, and of two of them one is
// computed of the other.
std::int64_t first_not_as_eager(const Capture& capture);

// Where not each result that has gradients is computed of a hooked tensor, the calls that hang its hooks get those that
// are: a pass that comes to the others alone calls no hook.
void tell_results(Capture& capture);

}  // namespace pellucid::region
