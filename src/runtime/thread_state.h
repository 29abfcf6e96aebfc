// What this thread is doing. The process-wide count lets the hit path skip the thread-local look-up.
#pragma once
#include <atomic>

namespace pellucid::runtime {

inline std::atomic<int> compiling_threads{0};
bool thread_is_compiling() noexcept;

// Calls of compiled functions on a thread that compiles run the original function.
inline bool compiling_here() noexcept {
  return compiling_threads.load(std::memory_order_relaxed) != 0 && thread_is_compiling();
}

class CompilingScope {
 public:
  CompilingScope() noexcept;
  ~CompilingScope();
  CompilingScope(const CompilingScope&) = delete;
  CompilingScope& operator=(const CompilingScope&) = delete;
};

}  // namespace pellucid::runtime
