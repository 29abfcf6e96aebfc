// How torch's distributed tensors lie on a mesh of processes.
#pragma once
#include <Python.h>

namespace pellucid::aten {

// torch.distributed.tensor's Shard, Replicate, Partial: objects that never change, and that C code alone compares.
bool is_placement_type(PyTypeObject* type) noexcept;
// A process group, a mesh of processes: torch gives it to operators as it is, and it never changes.
bool is_opaque_type(PyTypeObject* type) noexcept;

}  // namespace pellucid::aten
