// Whether a graph break is an error at this point of the program: the blocks of pellucid.error_on_graph_break that are
// open in this thread, innermost last. Capture opens and closes them as the program would, and puts them back at its
// end.
#pragma once
#include <cstddef>
#include <vector>

namespace pellucid::break_policy {

bool break_is_error() noexcept;
void open_block(bool error);
void close_block() noexcept;  // the innermost

class Keeper {
 public:
  Keeper();
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 private:
  std::vector<char> before_;
};

}  // namespace pellucid::break_policy
