// Where the elements of a tensor lie in its storage.
#pragma once
#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::aten {

struct Extent {
  std::int64_t begin = 0, end = 0;   // in bytes; the same when there is no element
  bool may_overlap_itself = false;   // two elements may lie at one place
  std::vector<std::int64_t> layout;  // sizes and strides
  bool operator==(const Extent&) const = default;
};

// Of a tensor that is not strided: nothing.
Extent extent_of(PyObject* tensor);

// Whether torch allocated the memory: memory of others (numpy, a buffer) is kept alive by an object of theirs.
bool has_own_memory(PyObject* tensor) noexcept;

// Whether the elements begin where the memory does, and are as many as it has room for. Of open sizes those of now.
bool fills_memory(PyObject* tensor) noexcept;

// How the memory of two tensors of one storage meets, as far as extents tell.
enum class Meeting : std::uint8_t { Apart, Together, Unclear };
Meeting meeting(const Extent& a, const Extent& b) noexcept;

}  // namespace pellucid::aten
