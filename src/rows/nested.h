// Jagged nested tensors that a region makes.
#pragma once
#include "protocols/table.h"

namespace pellucid::rows {

extern const std::span<const protocols::Row> kNestedRows;

}  // namespace pellucid::rows
