// What earlier captures of a function have seen of the numbers that it reads: a number is captured as a value first,
// and opened once it was met with another one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "source/source.h"

namespace pellucid::region {

// A path, told apart from others across captures. Two paths that share a number only make one of them open early.
using PathHash = std::uint64_t;
PathHash hash_of(const source::Source* source) noexcept;
// Of the place that one step leads to from `base`.
PathHash hash_below(PathHash base, source::Step step, std::int64_t index, PyObject* operand) noexcept;
// Of a variable: regions that begin elsewhere in the program give it another position, but the same name.
PathHash hash_of_local(PyObject* name) noexcept;
// Whether an object of the program holds what is there: an attribute, and what lies below one.
bool is_of_an_object(const source::Source* source) noexcept;

struct SeenNumber {
  std::uint64_t bits = 0;  // of the int64 or the double
  bool is_float = false;
  bool open = false;    // it has changed
  bool pinned = false;  // the program asked an open one for its value: each value has a region of its own
  // Whether a capture that meets this value keeps it open.
  bool opens_for(std::uint64_t now, bool now_float, bool opens_all) const noexcept {
    return !pinned && is_float == now_float && (open || bits != now || opens_all);
  }
};

class NumberHistory {
 public:
  const SeenNumber* find(PathHash path) const noexcept {
    const auto found = seen_.find(path);
    return found == seen_.end() ? nullptr : &found->second;
  }
  // Whether a number has changed that may be open.
  bool has_open() const noexcept {
    return std::ranges::any_of(seen_, [](const auto& known) { return known.second.open && !known.second.pinned; });
  }
  bool is_empty() const noexcept { return seen_.empty(); }
  void note(const std::vector<std::pair<PathHash, SeenNumber>>& observed) {
    for (const auto& [path, number] : observed) {
      SeenNumber& known = seen_[path];
      const bool pinned = known.pinned && known.is_float == number.is_float;
      known = number;
      known.pinned |= pinned;
    }
  }

  // What is there changes, as a region before this one knows.
  void seed(PathHash path, bool is_float) {
    const auto [known, is_new] = seen_.try_emplace(path, SeenNumber{.is_float = is_float, .open = true});
    if (!is_new && known->second.is_float == is_float) known->second.open = true;
  }
  // All that changes at the same paths. Where that region needs a value, this one may not.
  void seed(const NumberHistory& before) {
    if (&before == this) return;
    for (const auto& [path, number] : before.seen_) {
      if (number.open && !number.pinned) seed(path, number.is_float);
    }
  }

 private:
  std::unordered_map<PathHash, SeenNumber> seen_;
};

// Which numbers that change may be inputs of a graph.
enum class GraphNumbers : std::uint8_t {
  None,
  Ints,  // as torch.SymInt, of a backend that compiles for all their values
  All,
};

// How a capture treats numbers.
struct NumberPolicy {
  const NumberHistory* history = nullptr;  // null: every number is a value
  GraphNumbers graph_numbers = GraphNumbers::None;
  bool all_open = false;            // sizes are open at the first capture
  bool ints = true, floats = true;  // may be open; sizes may be in any case
  bool parameters = false;          // their sizes may be open
  bool marks_are_kept = true;       // a size that the program marked is no constant, or there is an error
  // Numbers that the graph reads of tensors, and results whose sizes depend on values, are captured.
  bool scalar_outputs = false, dynamic_output_shapes = false;
  bool long_lists = false;    // of any number of numbers that the graph reads
  bool late_items = false;    // item() of a tensor of the graph is read behind it, where no node takes the number
  bool value_checks = false;  // a branch on a tensor that only guards a `raise` is an assertion of the graph
  bool exports = false;       // the graph is to need torch alone, and has no inputs but arguments
  bool takes_coo = false;     // the backend compiles graphs with sparse inputs of this layout
  // The last capture that has room: also numbers that have not changed yet are open, of objects too.
  bool is_last = false;

  // The backend runs the graph as it was captured, and autograd of torch itself sees it run.
  bool runs_as_captured() const noexcept { return graph_numbers == GraphNumbers::All; }
  bool opens(bool is_float) const noexcept { return is_float ? floats : ints; }
};

}  // namespace pellucid::region
