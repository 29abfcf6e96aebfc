// The modes of torch functions as the program has them. Capture asks them as torch does, in frames like any other, so
// the graph has what they call; the thread itself has none meanwhile (aten/function_modes.h).
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::region {

struct Region;

class FunctionModes {
 public:
  explicit FunctionModes(Region& region) : region_(region) {}

  // Those that are active where the region begins: from here on capture asks them.
  void follow(std::vector<py::Owned<>> modes);
  // The program enters and leaves modes, or looks at them. A break where those at the beginning are not followed, and
  // there are some: capture begins again and follows them.
  void push(PyObject* mode);
  py::Owned<> pop();  // empty: there is none
  const std::vector<py::Owned<>>& stack();

  // Whether torch would ask one now.
  bool are_asked() const;
  PyObject* innermost() const { return stack_.back().get(); }

  void leave_changes();  // the capture ends: those that are others than before are entered and left behind the graph

  bool are_asked_for = false;  // and not followed

 private:
  void must_follow();

  Region& region_;
  std::vector<py::Owned<>> stack_;
  bool followed_ = false;
  std::size_t before_ = 0;  // how many there were
  std::size_t kept_ = 0;    // of those, how many were there all the time
};

}  // namespace pellucid::region
