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

}  // namespace pellucid::codegen
