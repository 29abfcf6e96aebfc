// Checks of the program: a branch on a tensor of which one side does nothing but raise.
//
// Which side a branch takes is known to the graph alone. Where one of them goes straight to a `raise` (an assert, a
// check of arguments), the other one is followed and the graph asserts that it is taken. When the assertion fails, the
// graph is taken back like any that raises, and the call runs again eagerly: so the exception is the program's own,
// raised after all that the program does before it.
#pragma once
#include <optional>

#include "trace/executor.h"

namespace pellucid::trace {

// The truth of `tensor` that does not raise, asserted in the graph from here on; none where the branch is no check, or
// where the graph may not assert it. The instruction of `frame` that runs is a jump to byte offset `target` when the
// truth is `when`.
std::optional<bool> asserted_truth(Executor& executor, Frame& frame, PyObject* tensor, bool when, int target);

}  // namespace pellucid::trace
