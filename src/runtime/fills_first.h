// Regions that can stand for one call only, because what they do takes away what they rely on: a program that makes its
// state in its first call, as optimizers do.
#pragma once
#include "region/capture.h"
#include "trace/trace.h"

namespace pellucid::runtime {

// Whether the region puts a key into a dict of which its own guards say that it is not there; or gives an object a
// tensor, list, dict or mark where its guards say that there is nothing, None, True or False. Numbers that change are
// left to what opens them. A dict that the call itself is given is left out, since the next call may bring another.
bool fills_what_it_found_empty(const region::Capture& capture);

// Whether the region ends before a backward pass, which leaves gradients where the program has asked for some and found
// none: in tensors that the graph takes. What the pass is told by is its name alone, since all that hangs on it is when
// the region is compiled.
bool finds_no_gradient_before_backward(const region::Capture& capture, const trace::BreakInfo& stop);

}  // namespace pellucid::runtime
