#include "aten/memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <utility>

#include "aten/internal.h"
#include "aten/symbolic_fake.h"

namespace pellucid::aten {

Extent extent_of(PyObject* tensor) {
  const c10::TensorImpl& impl = *impl_of(tensor);
  if (impl.layout() != c10::kStrided || !impl.has_storage() || impl.has_symbolic_sizes_strides()) return {};
  const auto bytes = static_cast<std::int64_t>(impl.itemsize());
  Extent extent;
  extent.begin = extent.end = impl.storage_offset() * bytes;
  extent.layout.assign(impl.sizes().begin(), impl.sizes().end());
  extent.layout.insert(extent.layout.end(), impl.strides().begin(), impl.strides().end());
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, size
  for (std::int64_t i = 0; i < impl.dim(); ++i) {
    if (impl.sizes()[static_cast<std::size_t>(i)] == 0) return extent;
    if (impl.sizes()[static_cast<std::size_t>(i)] > 1)
      dimensions.emplace_back(impl.strides()[static_cast<std::size_t>(i)], impl.sizes()[static_cast<std::size_t>(i)]);
  }
  // Each dimension has to step over all that lies within the smaller steps.
  std::ranges::sort(dimensions);
  std::int64_t within = 1;
  for (const auto& [stride, size] : dimensions) {
    extent.may_overlap_itself |= stride < within;
    within += stride * (size - 1);
  }
  extent.end += within * bytes;
  return extent;
}

bool has_own_memory(PyObject* tensor) noexcept {
  const c10::TensorImpl& impl = *impl_of(tensor);
  if (!impl.has_storage()) return false;
  const c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
  const c10::Allocator* own = storage.allocator();
  return own != nullptr && storage.data_ptr().get_deleter() == own->raw_deleter();
}

bool fills_memory(PyObject* tensor) noexcept {
  const c10::TensorImpl& impl = *impl_of(tensor);
  if (!impl.has_storage() || impl.layout() != c10::kStrided) return false;
  const QuietScope hints;
  auto bytes = static_cast<std::int64_t>(impl.itemsize());
  for (const std::int64_t size : impl.sizes()) bytes *= size;
  return impl.storage_offset() == 0 && bytes == static_cast<std::int64_t>(impl.unsafe_storage().nbytes());
}

Meeting meeting(const Extent& a, const Extent& b) noexcept {
  if (a.begin == a.end || b.begin == b.end || a.end <= b.begin || b.end <= a.begin) return Meeting::Apart;
  return a.begin == b.begin ? Meeting::Together : Meeting::Unclear;
}

}  // namespace pellucid::aten
