// The GIL, for code that torch runs without it.
#pragma once
#include <Python.h>

namespace pellucid::py {

// Held while one lives, whoever held it before.
class Gil {
 public:
  Gil() noexcept : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace pellucid::py
