#include "region/compiled_function.h"

namespace pellucid::region {
OriginalOf original_of_compiled_hook = nullptr;
}
