// Python's copying: what objects say of themselves to copy and pickle.
#pragma once
#include "protocols/table.h"

namespace pellucid::rows {

extern const std::span<const protocols::Row> kCopyingRows;

}  // namespace pellucid::rows
