// Calls that happen behind the graph: logging. They get tensors that exist only then, so what the region writes into a
// tensor after the call that gets it must not show.
#pragma once
#include <unordered_set>
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
  // A call on objects of the program, not on copies: it reads no tensor that they hold.
  void add_on_objects(PyObject* callable, PyObject* args);
  // A hook of autograd is registered: on the tensors as they are, whatever is written to them later.
  void add_hook(PyObject* callable, PyObject* args, PyObject* kwargs);
  void note_hooked(PyObject* tensor);  // what is written to it later may not show to its hook
  bool is_hooked(PyObject* tensor) const;
  bool has_hooks() const noexcept { return !hooked_.empty(); }
  std::unordered_set<PyObject*> late_handles;  // of the region, whose attributes are known behind the graph

  // An operator has just written into tensors, its node is not recorded yet: copies come before it.
  void freeze_written();
  // The calls that have been asked for, and those of them behind the first `count` taken back: another one is to do
  // what they do. How many.
  std::size_t count() const noexcept { return calls_.size(); }
  std::int64_t take_back(std::size_t count);
  bool has_tensors() const noexcept { return !tensors_.empty(); }
  // Whether one of the calls may see which tensors require gradients.
  bool may_see_flags() const noexcept { return has_tensors() || looks_at_changes_; }
  void take_calls(std::vector<Effect>& out);  // the capture ends

  py::Owned<> reorderable;  // config.reorderable_logging_functions as a tuple; empty when there are none

 private:
  void append(PyObject* callable, PyObject* args, PyObject* kwargs);
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
  bool looks_at_changes_ = false;
  std::vector<std::pair<py::Owned<>, std::uint32_t>> hooked_;  // and their versions then
};

}  // namespace pellucid::region
