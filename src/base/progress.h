// One line on the terminal while something takes long: what the process compiles, and for how long. A thread of its own
// writes it, which needs neither Python nor its lock, so it goes on while a backend or a capture holds that.
//
// It is for people: only on a terminal (standard error), only in the foreground, not while somebody reads a line from
// the terminal (a debugger), and it is gone when the work is done.
#pragma once
#include <string>

namespace pellucid::progress {

// Whether there is somebody to tell: standard error is a terminal that can erase a line.
bool has_reader() noexcept;

// The line goes for a moment: something else is written to the terminal.
void hide() noexcept;

// Something that may take long, of this thread, while it is alive. Those inside of it are told in its place.
class Work {
 public:
  explicit Work(std::string what);  // they begin and end under one lock of the callers, Python's
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  const int process_;
};

}  // namespace pellucid::progress
