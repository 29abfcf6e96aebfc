// What item() of a tensor of the graph gives where the backend does not get such numbers, and the program only returns,
// stores or prints them: a late value (number.h). The graph gives the tensor, detached, and the emitted code reads its
// number behind the graph: so it may be NaN or infinite, and nothing is asserted.
//
// Who looks at one ends the region there. A node that would take one is part of the next region, which has the number
// as an input.
#pragma once
#include <vector>

#include "aten/aten.h"
#include "py/ref.h"

namespace pellucid::region {

struct Region;

class LateItems {
 public:
  explicit LateItems(Region& region) : region_(region) {}

  bool may_read(PyObject* tensor) const;
  // Whether float() or int() of what is read never raises.
  bool may_read_as(PyObject* type, PyObject* tensor) const;
  // What item() of this tensor of one element gives; empty: it may not be read.
  py::Owned<> read(PyObject* tensor);
  // A node that writes this memory comes next: what is read of it behind the graph is copied before that.
  void keep(const std::vector<aten::HeldStorage>& written);
  // A node would take the value: where there is such a number in it, the region ends before this step of the program.
  void refuse_in_graph(PyObject* value);
  // Somebody looks at such a number.
  [[noreturn]] void refuse(PyObject* number);

 private:
  Region& region_;
  std::vector<py::Owned<>> read_;  // tensors of the graph that the emitted code reads
};

}  // namespace pellucid::region
