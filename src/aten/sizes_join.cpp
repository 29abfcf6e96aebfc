#include "aten/sizes.h"

namespace pellucid::aten {

SizeTable join_sizes() { return {nullptr, 0}; }

}  // namespace pellucid::aten
