// f-strings with tensors in them, as arguments of functions that config.reorderable_logging_functions names: their text
// is made when the call happens, behind the graph.
#pragma once
#include "trace/executor.h"

namespace pellucid::trace {

// FORMAT_VALUE of a tensor: pushes a text that is made later, when it can go nowhere but into such a call. False: not
// so.
bool format_later(Executor& executor, Frame& frame, PyObject* tensor, int conversion, PyObject* spec, int consumed);
// BUILD_STRING of `count` parts, one of them such a text. False: none is.
bool join_later(Executor& executor, Frame& frame, int count);

}  // namespace pellucid::trace
