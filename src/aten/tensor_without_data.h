// Tensors that stand for those of a record (python/pellucid/_replay): real ones to whoever asks for their metadata,
// on any device, whether this machine has it or not, and without memory. An access of the data raises.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::aten {

struct LayoutWithoutData {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;  // all three in elements
  std::int64_t bytes = 0;   // of the storage
  bool is_view = false;     // as autograd sees it, of the tensor whose storage it has
};

// `dtype`: a torch.dtype, `device`: a torch.device. `shares`: a tensor whose storage it has, or None.
py::Owned<> tensor_without_data(const LayoutWithoutData& layout, PyObject* dtype, PyObject* device, PyObject* shares);

}  // namespace pellucid::aten
