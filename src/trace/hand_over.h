// From the frames of a capture to real ones, and back: a region ends where its open frames can go on as CPython's.
#pragma once
#include <cstdint>
#include <vector>

#include "frames/state.h"

namespace pellucid::trace {

class Executor;

// Whether open_frames may succeed.
bool can_hand_over(const Executor& ex);
// The open frames, each at the start of its instruction, with the values of the capture. False when they cannot be
// handed over.
bool open_frames(Executor& ex, frames::State& state);
// Outcome::earlier. `in_level`: of torch.func; the region cannot end before it is closed.
std::vector<std::int64_t> earlier_stops(const Executor& ex, bool in_level);
// Of these the steps that led to levels: what is left of a level may be what cannot leave the region.
std::vector<std::int64_t> before_levels(const Executor& ex);

}  // namespace pellucid::trace
