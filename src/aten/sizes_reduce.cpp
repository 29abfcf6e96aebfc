#include "aten/sizes.h"

namespace pellucid::aten {

SizeTable reduce_sizes() { return {nullptr, 0}; }

}  // namespace pellucid::aten
