#include "aten/sizes.h"

namespace pellucid::aten {

SizeTable view_sizes() { return {nullptr, 0}; }

}  // namespace pellucid::aten
