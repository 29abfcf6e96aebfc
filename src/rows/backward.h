// Backward passes that end a region.
#pragma once
#include <string>

#include "rows/rows.h"

namespace pellucid::rows {

[[noreturn]] inline void refuse_pass(const char* why) {
  unsupported(Reason::UntracedCallable, {{"callee", std::string("a backward pass ") + why}});
}

// Hooks of tensors that the region has registered are registered behind the graph, too late for a pass in it.
inline void refuse_pass_after_hooks(const Interpreter& t) {
  if (t.region.deferred.has_hooks()) refuse_pass("where a hook has just been registered");
}

}  // namespace pellucid::rows
