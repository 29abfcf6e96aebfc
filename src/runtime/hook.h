// The frame hook (PEP 523). When a compiled function has to run eagerly, the Python functions that it calls and that
// are given tensors are compiled on their own. The hook is installed only while some thread runs such a call; on every
// other thread frames pass through it to whatever hook was there before.
#pragma once
#include <Python.h>

#include <atomic>
#include <string>
#include <vector>

#include "py/eval_frame.h"
#include "runtime/cache.h"

namespace pellucid::runtime {

// While alive, this thread's calls go through the hook. Caches of inner functions are kept by `root`, which the caller
// holds. `outer` is called next: its own frame is left alone.
class InnerFunctions {
 public:
  InnerFunctions(Cache& root, PyFunctionObject* outer) noexcept;
  ~InnerFunctions();
  InnerFunctions(const InnerFunctions&) = delete;
  InnerFunctions& operator=(const InnerFunctions&) = delete;

 private:
  bool installed_ = false;
  Cache* root_before_ = nullptr;
  PyFunctionObject* expected_before_ = nullptr;
  std::size_t hooks_before_ = 0;
};

// Whether the program has entered hooks of its own for saved tensors (torch.autograd.graph.saved_tensors_hooks) since
// there were `before` of them, and a compiled graph would not call them as eager code does: what it saves is chosen by
// its compiler. Those of torch itself (checkpoint(), save_on_cpu()) give back the values that they are given.
bool has_entered_saved_hooks(const Cache& root, std::size_t before) noexcept;

extern std::atomic<int> hook_users;

// While alive, frames of this thread are not compiled: emitted code and backends run inside.
class HookPause {
 public:
  HookPause() noexcept {
    if (hook_users.load(std::memory_order_relaxed) != 0) pause();
  }
  ~HookPause() {
    if (paused_ != nullptr) resume();
  }
  HookPause(const HookPause&) = delete;
  HookPause& operator=(const HookPause&) = delete;

 private:
  void pause() noexcept;
  void resume() noexcept;
  Cache* paused_ = nullptr;
};

// Evaluates a frame as if our hook were not there.
PyObject* evaluate_as_before(PyThreadState* tstate, py::InterpreterFrame* frame, int throwing);

// Code below these directories (but not in site-packages below them) is not compiled on its own. Set once, at import.
void set_skipped_directories(std::vector<std::string> directories);
void initialise_hook();

bool hook_is_installed() noexcept;  // for tests: ours is the function that the interpreter calls

}  // namespace pellucid::runtime
