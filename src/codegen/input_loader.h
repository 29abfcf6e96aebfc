// A C function that loads all inputs of a graph at once: `__inputs_0(self, x)` gives them as a tuple. Used where
// emitted bytecode would walk a deep tree of modules (150 parameters of a GPT-2: 20 us of bytecode, 5 here). Reads
// exactly what the sources say, runs no user code, and raises RuntimeError when a step does not exist any more.
#pragma once
#include <string>
#include <vector>

#include "py/ref.h"
#include "source/source.h"

namespace pellucid::codegen {

struct InputLoader {
  py::Owned<> function;                      // the callable
  std::vector<const source::Source*> roots;  // its arguments: the arguments and cells of the region that it starts from
};

InputLoader make_input_loader(const std::vector<const source::Source*>& inputs);

// Inputs that somebody has just read (the guards did): while this lives, the next call of `loader` on this thread takes
// them. A call in between, by a signal handler say, has its own.
class ReadyInputs {
 public:
  ReadyInputs(PyObject* loader, py::Owned<> inputs) noexcept;
  ~ReadyInputs();
  ReadyInputs(const ReadyInputs&) = delete;
  ReadyInputs& operator=(const ReadyInputs&) = delete;

 private:
  PyObject* outer_loader_;
  py::Owned<> outer_inputs_;
};

}  // namespace pellucid::codegen
