// Calls that happen behind the graph: logging. They get tensors that exist only then, so what the region writes into a
// tensor after the call that gets it must not show.
#pragma once
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

class Deferred {
 public:
  explicit Deferred(Region& region) : region_(region) {}

  void add(PyObject* callable, PyObject* args, PyObject* kwargs);
  // The same for a callable that may look at what the region has changed: the changes up to here come first.
  void add_in_order(PyObject* callable, PyObject* args, PyObject* kwargs);
  // An operator has just written into tensors, its node is not recorded yet: copies come before it.
  void freeze_written();
  bool has_tensors() const noexcept { return !tensors_.empty(); }
  void take_calls(std::vector<Effect>& out);  // the capture ends

  py::Owned<> reorderable;  // config.reorderable_logging_functions as a tuple; empty when there are none

 private:
  void watch(PyObject* value);
  void put_frozen();

  // A tensor that a deferred call gets. When the region writes into it later, the call gets a copy made before.
  struct LateTensor {
    std::size_t call;  // index in calls_
    py::Owned<> tensor, frozen;
    std::uint32_t version;
    std::vector<std::int64_t> sizes;
  };
  Region& region_;
  std::vector<Effect> calls_;
  std::vector<LateTensor> tensors_;
};

}  // namespace pellucid::region
