// What asks for another capture of the same call: thrown where it is found out, caught where captures are started.
#pragma once
#include <cstdint>
#include <memory>

namespace pellucid::trace {
struct BreakInfo;
}

namespace pellucid::runtime {

// The backend could not compile for numbers that stay open; the next capture takes them as constants.
struct NotForOpenNumbers {
  bool of_graph;  // those that the graph gives, and from now on it gives none
};

// The backend could not compile what the capture has concluded from elements of tensors; the next one goes by none.
struct NotForElements {};

// The region has to end before this step: a leaf that it makes there leaves it, or what is computed of it.
struct LeafLeaves {
  std::int64_t step;
};

// A compiled graph cannot show what a tensor is that has moved to other memory (refusals.h).
struct MovedIsSeen {
  std::int64_t step;
};

// The region has to end before this step, which calls an autograd.Function.
struct FunctionIsLost {
  std::int64_t step;
};

// A compiled graph would call a hook that eager code does not call, or in another order.
struct HookNotInside {
  std::int64_t step;
};

// What comes behind that step, and why it stops the region there, asks for one that ends before it.
struct EndsBefore {
  std::int64_t step;
  std::shared_ptr<const trace::BreakInfo> stop;
};

// The program asks for the modes of torch functions, which a capture follows all or none.
struct ModesMatter {};

// The region would stand for this one call alone.
struct FillsFirst {};

// What a loop has filled has a length that has not come before (loop_lengths.h).
struct WaitsForLength {};

}  // namespace pellucid::runtime
