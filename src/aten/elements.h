// What tensors hold, for captures that go by it: elements as bytes, and calls of torch on tensors with data while the
// thread is in a capture.
#pragma once
#include <memory>

#include "py/ref.h"

namespace pellucid::aten {

// The elements of a contiguous tensor of integers or truths on the CPU, as bytes; empty: it is of another kind.
py::Owned<> elements_of(PyObject* tensor);
bool has_elements(PyObject* tensor, PyObject* bytes) noexcept;  // false too: it is of another kind

// While one lives, torch computes with tensors that have data as it does outside of captures, and without gradients.
class WithData {
 public:
  WithData();
  ~WithData();
  WithData(const WithData&) = delete;
  WithData& operator=(const WithData&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pellucid::aten
