// Graphs inside of the graph: opened and closed while a region is recorded, then called by an operator.
#pragma once
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::region {

struct Region;

// Whether it writes to what it is given.
bool writes_operands(const graph::Body& body);

class BodyRecorder {
 public:
  explicit BodyRecorder(Region& region) : region_(region) {}

  // The body gets what is recorded until it is closed. `first`: tensors that it is given, in this order, whether it
  // uses them or not.
  graph::Body& open(const char* kind, std::span<PyObject* const> first);
  graph::Node* close();
  void discard();
  // The call of an operator on bodies: `target` gets them and what they use. Tensors below `result` are those that it
  // gives; others of the bodies are when they are used.
  graph::Node* call(PyObject* target, py::Owned<> plain, graph::Node* body, PyObject* options, PyObject* result);
  graph::Node* here(PyObject* tensor) const;  // its node, in the graph that is recorded now; it has one

  // New fakes like the first `count` of `likes`, each as `how` says (pellucid._bodies.fresh). They need gradients when
  // any of `likes` does.
  py::Owned<> fresh(PyObject* how, std::size_t count, std::span<PyObject* const> likes);
  // A fake that only the open body has: its operator makes it, `how` of `like` says what it is like.
  py::Owned<> own_input(PyObject* like, PyObject* how, bool requires_grad);
  // What the open body gives. Null, or why no operator may call it at all or more than once.
  const char* set_outputs(std::span<PyObject* const> tensors);
  // Torch's operators refuse tensors that share memory: a second one in these arguments becomes a copy.
  void copy_aliases(std::vector<graph::Arg>& args);
  // A number by which the program's code holds a complete body.
  std::size_t keep(graph::Node* given);
  graph::Node* kept(std::size_t number) const { return kept_.at(number); }
  // The call of an operator on complete bodies, with these arguments. Gives what `result`, which it gives, is to the
  // program.
  py::Owned<> call(PyObject* target, py::Owned<> plain, std::span<graph::Node* const> bodies,
                   std::vector<graph::Arg> args, const py::Owned<>& result);

  // An operator in the open body wrote to a tensor, which had this node before.
  void note_written(PyObject* tensor, graph::Node* before);
  // The step before which an autograd.Function may be a node; -1: everywhere.
  std::int64_t function_views_before = -1;

 private:
  void take_back_names();
  graph::Node* call_node(PyObject* target, py::Owned<> plain, std::span<graph::Node* const> bodies,
                         std::vector<graph::Arg> args, std::vector<std::pair<py::Owned<>, graph::Arg>> keywords);

  Region& region_;
  void copy_alias(graph::Arg& arg, std::unordered_set<const void*>& met);

  std::vector<graph::Node*> kept_;
  // Of each open body: tensors from outside of it that it has written, and their nodes before.
  std::vector<std::vector<std::pair<PyObject*, graph::Node*>>> renamed_;
};

}  // namespace pellucid::region
