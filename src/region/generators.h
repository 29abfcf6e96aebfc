// Generators from outside that go on in the region: each has a twin, a TracedGenerator in the same state, and is
// brought to the state of its twin when the region's effects happen.
#pragma once
#include <unordered_map>
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

class Generators {
 public:
  explicit Generators(Region& region) : region_(region) {}

  PyObject* twin_of(PyObject* generator) const;  // borrowed; null: the region did nothing with it
  PyObject* note_twin(PyObject* generator, py::Owned<> twin);
  const std::vector<PyObject*>& in_order() const { return order_; }
  void changes(std::vector<Effect>& out) const;

 private:
  Region& region_;
  std::unordered_map<PyObject*, py::Owned<>> twins_;
  std::vector<PyObject*> order_;
};

}  // namespace pellucid::region
