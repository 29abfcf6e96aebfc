// The guards that tell the calls of one program from those of others. Where several programs are tried, most fail, and
// on the same few guards each time: these are asked first, of the values themselves, which takes a fraction of a check
// and leaves the latches of the program alone.
#pragma once
#include <vector>

#include "guards/path.h"
#include "guards/program.h"

namespace pellucid::guards {

class Tells {
 public:
  // This guard of the program (its number) has failed.
  void add(const GuardProgram& program, std::size_t guard);
  // Another program is told apart by these: so is this one, where it has a guard of its own about the same value.
  void add_as_in(const GuardProgram& program, const Tells& others, const GuardProgram& other);
  // False: check() would be false too. It looks at a value or two.
  bool may_hold(const GuardProgram& program, PyObject* const* locals, PyObject* closure) const noexcept;

 private:
  friend class Discriminant;

  struct Tell {
    std::uint32_t check = 0;
    std::vector<Path> paths;  // of the program's own sources: one; of a CONDITION those of its numbers
    bool holds(const Check& check, const GuardProgram::Frame& frame) const noexcept;
  };
  static bool is_about(const GuardProgram& program, std::uint32_t check, const Tell& tell);
  void add_check(const GuardProgram& program, std::uint32_t check);

  static constexpr std::size_t kMost = 4;
  std::vector<Tell> tells_;
};

}  // namespace pellucid::guards
