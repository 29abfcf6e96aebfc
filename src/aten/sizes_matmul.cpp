#include "aten/sizes.h"

namespace pellucid::aten {

SizeTable matmul_sizes() { return {nullptr, 0}; }

}  // namespace pellucid::aten
