// Which operators raise on the values of their tensors: the one place that knows. An operator that is not named here,
// and computes no element by itself, may raise.
#pragma once
#include <cstdint>
#include <string>

namespace pellucid::aten {

enum class Raises : std::uint8_t {
  Never,
  IntegersOnCpu,  // division of integers by zero
  OnCpu,          // an index out of range; accelerators answer with an assertion that ends the process's context
  Anywhere,
};

// `name`: "add_.Tensor". `elementwise`: the schema or torch's own tags say that it computes each element
// by itself, or no element at all.
Raises raises_of(const std::string& name, bool elementwise);

// The dtypes that an operator which never raises on values surely takes on the CPU, by the widest among its tensors.
struct DtypesTaken {
  bool bools = false;
  bool integers = false;
  bool floats = true;
  bool complexes = false;
  bool any_mixture = false;  // floating dtypes that differ; tensors without elements
};
DtypesTaken dtypes_taken(const std::string& name, bool is_view, bool elementwise);

// Whether the operator ("copy_", "scatter_.src") writes without reading what it writes.
bool overwrites_only(const std::string& name);

}  // namespace pellucid::aten
