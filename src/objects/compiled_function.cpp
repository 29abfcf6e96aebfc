#include "objects/compiled_function.h"

namespace pellucid::objects {
OriginalOf original_of_compiled_hook = nullptr;
}
