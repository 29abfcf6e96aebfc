// Sparse and quantised tensors in a graph that a backend compiles. One that runs graphs as they were captured takes all
// of them.
#pragma once
#include <Python.h>

#include <unordered_set>
#include <vector>

#include "aten/aten.h"

namespace pellucid::region {

struct Region;

class SparseInputs {
 public:
  explicit SparseInputs(Region& region) : region_(region) {}

  // Ends the region where the backend does not take such an input.
  void check(PyObject* tensor);
  // A call of torch comes, in the state of torch that it has.
  void check_call() const;
  // The call has run on fakes.
  void check_operators(PyObject* target) const;
  // What is written to an input may be a part of a sparse one, of which a compiler that takes writes out of the graph
  // knows nothing.
  void note_writes(const std::vector<aten::HeldStorage>& written);

 private:
  void check_writes() const;

  Region& region_;
  bool has_any_ = false;
  std::unordered_set<const void*> written_;  // of all tensors: which of them are inputs matters beside a sparse one
};

}  // namespace pellucid::region
