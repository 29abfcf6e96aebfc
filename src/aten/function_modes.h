// Torch function modes (torch.overrides.TorchFunctionMode): objects of the program that torch asks before each of its
// functions. Capture asks them itself, so neither what it does nor the region that it makes may be seen by them.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::aten {

// Whether torch asks modes: no DisableTorchFunction block is open.
bool asks_function_modes() noexcept;
// torch.set_default_device and `with torch.device(...)` are function modes, too.
bool is_device_context(PyObject* mode) noexcept;

// The modes of the program in this thread, the innermost last; also of one whose modes are aside.
std::vector<py::Owned<>> function_modes();
PyObject* function_mode_at(std::int64_t i) noexcept;  // borrowed; null: there are not so many
// The same without those that are away while a region runs: what guards compare.
std::int64_t shown_function_modes() noexcept;
PyObject* shown_function_mode(std::int64_t i) noexcept;

// Takes all modes of this thread away for a while.
class FunctionModesAside {
 public:
  // The state of torch is as if they were there: a capture says what it found. Where a region runs, they are away.
  enum class State : std::uint8_t { ShowsThem, HidesThem };
  explicit FunctionModesAside(State state);
  ~FunctionModesAside();
  FunctionModesAside(const FunctionModesAside&) = delete;
  FunctionModesAside& operator=(const FunctionModesAside&) = delete;

  std::vector<py::Owned<>> modes;
  const State state;

 private:
  FunctionModesAside* const outer_;
};

// What a region calls that enters or leaves modes: (mode) and (how many). Where modes are aside, of these.
py::Owned<> enter_function_mode();
py::Owned<> leave_function_modes();

// For the time of one read of C code by a path: nobody is asked.
class NoTorchFunctions {
 public:
  NoTorchFunctions() noexcept;
  ~NoTorchFunctions();
  NoTorchFunctions(const NoTorchFunctions&) = delete;
  NoTorchFunctions& operator=(const NoTorchFunctions&) = delete;

 private:
  int before_;
};

}  // namespace pellucid::aten
