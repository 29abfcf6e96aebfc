#include "runtime/thread_state.h"

namespace pellucid::runtime {
namespace {
thread_local int depth = 0;
}

bool thread_is_compiling() noexcept { return depth != 0; }

CompilingScope::CompilingScope() noexcept {
  ++depth;
  compiling_threads.fetch_add(1, std::memory_order_relaxed);
}

CompilingScope::~CompilingScope() {
  compiling_threads.fetch_sub(1, std::memory_order_relaxed);
  --depth;
}

}  // namespace pellucid::runtime
