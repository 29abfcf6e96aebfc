// Lists that a loop fills for as long as the elements of tensors say (`while order.numel() > 0: chosen.append(…)`) have
// another length at each call. What the program makes of such a list behind the loop is good for one length, and each
// one may be the last of its kind: a region is made for a length that comes a second time.
#pragma once
#include <Python.h>

#include <cstdint>
#include <unordered_set>

#include "frames/state.h"
#include "region/capture.h"
#include "region/number_history.h"

namespace pellucid::runtime {

// Of one program: where it holds such lists.
class FilledLists {
 public:
  // A region that begins with these open frames. When it is a turn of such a loop, the lists that are longer behind it
  // are remembered.
  void note_turn(const frames::State& begin, const region::Capture& capture);
  bool contains(const region::Source* source) const { return paths_.contains(region::hash_of(source)); }
  bool empty() const noexcept { return paths_.empty(); }
  void clear() noexcept { paths_.clear(); }

 private:
  std::unordered_set<region::PathHash> paths_;
};

// Of one place behind a graph break: the lengths that it has met.
class MetLengths {
 public:
  // Whether the region asks for the length of a list in `filled` that has not come here before. From now on it has.
  bool meets_new(const FilledLists& filled, const region::Capture& capture);
  // What length a call has is known when it is captured. Where none has come again for many captures the next calls are
  // not captured any more, each time twice as many. Counts the call.
  bool passes_over() noexcept { return left_ > 0 && left_-- > 0; }
  void clear() noexcept { *this = {}; }

 private:
  static constexpr std::size_t kMost = 256;
  static constexpr int kPatience = 8, kMostDoublings = 20;
  std::unordered_set<std::uint64_t> met_;
  int new_ones_ = 0;  // since one came again
  std::int64_t left_ = 0;
};

}  // namespace pellucid::runtime
