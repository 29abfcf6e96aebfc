// Views that an autograd.Function gives, in a graph that a backend on top of AOTAutograd compiles.
#pragma once

#include <cstdint>

#include "region/capture.h"

namespace pellucid::runtime {

bool calls_function(const graph::Node& node);  // `apply` of an autograd.Function

// The step of the first call of an autograd.Function whose gradients AOTAutograd would leave out; -1: there is none. It
// computes results of a graph that share memory anew, as views of what they share it with, and knows of no function
// there.
std::int64_t first_lost_function(const region::Capture& capture);

}  // namespace pellucid::runtime
