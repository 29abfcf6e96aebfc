// The second half of an instruction, for real.
#pragma once
#include "frames/real_step.h"
#include "frames/wait.h"

namespace pellucid::frames {

// `result` (a new reference; null: an error is pending) is what the frame inside gave. The stack of `step` then holds
// what the waiting instruction leaves on it, and `step.next` says where the frame goes on; false with an error pending
// when it raises.
bool settle(Step& step, const std::vector<Wait>& waits, PyObject* result) noexcept;

}  // namespace pellucid::frames
