// One op of the hot program: program.h.
#pragma once
#include <Python.h>

#include <cstdint>

namespace pellucid::guards {

enum class Op : std::uint8_t {
  LoadLocal,
  LoadItem,
  LoadClosure,
  LoadCell,
  LoadStep,
  Group,
  CheckedGroup,
  Attributes,
  TypeTag,
  Type,
  Size,
  DictSize,
  Tensor,
  Function,
  Check
};

struct Hot {
  PyObject* value = nullptr;  // what the op looks at (Load*: the parent's value)
  // Child pointer, version, tag, type, length, TensorSpec*, Check*; 0 in Load*, Group*: not proved.
  std::uint64_t payload = 0;
  std::uint32_t skip = 0;  // Load*, Group*: where to go on after a full walk
  std::uint32_t node = 0;
  std::int32_t index = 0;  // LoadLocal, LoadItem
  Op op = Op::Check;
  std::uint8_t level = 0;  // ops of lower levels prove what this one may look into
  static constexpr std::uint8_t kRestless = 3;
  std::uint8_t moves = 0;   // of Load*, Group*, TypeTag: how often it was latched anew, up to kRestless
  bool is_certain = false;  // proved by them is also what kind of object that is
};

}  // namespace pellucid::guards
