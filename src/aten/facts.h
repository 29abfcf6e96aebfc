// What operators.def says of torch's operators: what their schemas and tags do not tell.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace pellucid::aten {

// On the values of its tensors.
enum class Raises : std::uint8_t {
  Never,
  IntegersOnCpu,  // division of integers by zero
  OnCpu,          // an index out of range; accelerators answer with an assertion that ends the process's context
  Anywhere,
};

// The dtypes that its CPU kernel takes. It refuses others in words that no shape rule has ('"softmax" not implemented
// for 'Long'').
enum class Dtypes : std::uint8_t {
  Every,
  Integers,  // and floating ones
  IntegersAndBools,
  OnlyIntegers,
};

enum class Fact : std::uint8_t {
  Overwrites = 1,         // writes without reading what it writes
  Scatters = 2,           // reads what it does not write element by element: refuses any overlap with what it writes
  MixesDevices = 4,       // copies between devices are what it is for, or its indices may live on the CPU
  Reshapes = 8,           // gives what it writes in place another shape
  CpuDecomposes = 16,     // the kernel of the CPU is written in other operators, so it runs on fakes as it is
  DispatchesByHand = 32,  // composite in name only: it dispatches to kernels of one device, below autograd
};

struct Facts {
  std::optional<Raises> raises;
  std::optional<Dtypes> dtypes;
  unsigned flags = 0;
  bool has(Fact fact) const noexcept { return (flags & static_cast<unsigned>(fact)) != 0; }
};

// `name`: "add_.Tensor", of an operator of torch's own.
Facts facts_of(std::string_view name);

// `elementwise`: the schema or torch's own tags say that it computes each element by itself, or no element at all.
Raises raises_of(const Facts& facts, bool elementwise);

// The dtypes that an operator which never raises on values surely takes on the CPU, by the widest among its tensors.
struct DtypesTaken {
  bool bools = false;
  bool integers = false;
  bool floats = true;
  bool complexes = false;
  bool any_mixture = false;  // floating dtypes that differ; tensors without elements
};
DtypesTaken dtypes_taken(const Facts& facts, bool is_view, bool elementwise);

}  // namespace pellucid::aten
