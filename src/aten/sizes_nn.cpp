#include "aten/sizes.h"

namespace pellucid::aten {

SizeTable nn_sizes() { return {nullptr, 0}; }

}  // namespace pellucid::aten
