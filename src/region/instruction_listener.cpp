#include "region/instruction_listener.h"

#include "region/profile.h"
#include "source/source.h"

namespace pellucid::region {

void note_who_watches() noexcept { each_instruction = profile != nullptr || instruction_listener != nullptr; }

void note_instruction(Frame& frame) {
  if (profile != nullptr) profile->note(frame);
  if (instruction_listener == nullptr || frame.hidden) return;
  const auto held = py::Owned<>::share(instruction_listener);
  auto stack = py::take(PyList_New(0));
  for (const auto& value : frame.stack) {
    const auto text = py::str(value ? source::describe(value.get()) : "NULL");
    py::check(PyList_Append(stack.get(), text.get()));
  }
  const auto done =
      py::take(PyObject_CallFunction(held.get(), "OiOi", frame.code.object(), frame.at, stack.get(), frame.depth));
}

}  // namespace pellucid::region
