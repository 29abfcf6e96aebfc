// What the program has said about the sizes of a tensor: pellucid.mark_dynamic, torch._dynamo.mark_dynamic and their
// like leave attributes on it.
#pragma once
#include <Python.h>

#include <cstdint>
#include <limits>

namespace pellucid::region {

struct SizeMark {
  enum class Wish : std::uint8_t {
    None,
    Open,  // from the first capture on; a region that needs one size alone is an error
    MaybeOpen,
    Closed,  // a constant of every region
  } wish = Wish::None;
  std::int64_t least = 2, most = std::numeric_limits<std::int64_t>::max();  // of an open size

  bool wants_open(std::int64_t size) const noexcept {
    return (wish == Wish::Open || wish == Wish::MaybeOpen) && least <= size && size <= most;
  }
};

// Whether an attribute of this name is one.
bool is_size_mark(PyObject* name);
bool has_size_marks(PyObject* tensor) noexcept;
SizeMark size_mark(PyObject* tensor, std::int64_t dim);

}  // namespace pellucid::region
