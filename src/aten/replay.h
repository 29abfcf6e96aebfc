// Operators on single elements in the CPU's memory, as they ran on fakes: they may be run ahead of a graph on the real
// tensors, so that what a program decides by their result is known before it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "aten/aten.h"
#include "symbolic/value.h"

namespace pellucid::aten {

// What ran on fakes for one node of a graph.
class RanOnFakes;

// Since the last call of take_facts(), which comes behind this. Null: nothing that could be run ahead.
std::shared_ptr<const RanOnFakes> take_operators();
// A tensor with data that a constructor made of constants, and the fake that stands for it.
std::shared_ptr<const RanOnFakes> made_of_constants(PyObject* fake, PyObject* real);

// A node of the graph, in the order of the program.
struct Happened {
  const RanOnFakes* ran = nullptr;  // null: it is not known what the node does
  const std::vector<HeldStorage>* written = nullptr;
  bool takes_numbers = false;        // that may be others at the next call
  std::vector<PyObject*> may_write;  // fakes, to which it writes perhaps without saying so
};

// One number, computed of a few tensors from outside.
class Replay {
 public:
  // The value of `fake`, of one element, behind all of this. Nothing: it is not known to be computed by a short chain
  // of operators that only compute, of fakes among `inputs`.
  struct Made {
    std::shared_ptr<const Replay> replay;
    std::vector<std::size_t> inputs;  // which of the inputs run() takes
    std::size_t operators = 0;
  };
  static std::optional<Made> of(PyObject* fake, std::span<const Happened> happened, std::span<PyObject* const> inputs);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Changes none of these, runs no Python code and keeps the GIL. Nothing: they are others than those of the capture,
  // or an operator raises.
  std::optional<symbolic::Value> run(std::span<PyObject* const> inputs) const noexcept;

 private:
  Replay();
  struct Data;
  std::unique_ptr<Data> data_;
};

// Whether none of these tensors shares memory with one of the others, but for itself.
bool are_apart(std::span<PyObject* const> tensors, std::span<PyObject* const> others) noexcept;

}  // namespace pellucid::aten
