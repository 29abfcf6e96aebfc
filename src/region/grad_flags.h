// `requires_grad` of leaves that the region did not make. The tensors keep theirs until the region's effects happen.
// Their fakes have what the program has set, so that autograd of torch itself says what follows from it; in the graph
// an alias of the leaf outside of autograd stands for it while the flag is another one than at the beginning.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/aten.h"
#include "region/capture.h"

namespace pellucid::region {

struct Region;

class GradFlags {
 public:
  explicit GradFlags(Region& region) : region_(region) {}

  // Why the region cannot go on with another flag of this tensor; empty: it can.
  std::string obstacle(PyObject* tensor) const;
  void set(PyObject* tensor, bool on);
  // The graph has an alias in place of the tensor now.
  bool is_aliased(PyObject* tensor) const;

  // Of the fakes that a function of torch is given, before and behind its call: a break where what it does would not
  // come to the tensor itself.
  void check_given(PyObject* fake) const;
  void check_done(PyObject* fake) const;

  // Runs something for which the leaves require gradients, as what was computed of them before remembers.
  void while_on(const std::vector<PyObject*>& leaves, const std::function<void()>& run);
  // Tensors that were used before their flag changed last: what a node of autograd keeps of such a leaf requires
  // gradients or not as the leaf does now, and the graph has one of its two tensors there.
  std::vector<PyObject*> used_before_change() const;

  void changes(std::vector<Effect>& out) const;
  void finish();  // the fakes are as at the beginning again: they tell of the inputs of the graph

 private:
  struct Flag {
    py::Owned<> tensor;
    bool before, now;
    graph::Node *own, *alias;  // what gives the tensor, and the alias, now
    aten::Meta layout;         // of the alias
    std::size_t changed_at;    // how many nodes there were when the flag changed last
  };
  Flag& flag_of(PyObject* tensor, PyObject* fake);
  void make_alias(Flag& flag, PyObject* fake);
  void put(Flag& flag, PyObject* fake, bool on);
  const Flag* behind(PyObject* fake, PyObject** leaf) const;

  Region& region_;
  std::unordered_map<PyObject*, Flag> flags_;  // by fake
  std::vector<PyObject*> order_;
};

}  // namespace pellucid::region
