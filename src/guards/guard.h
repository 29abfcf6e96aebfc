// What a region assumed about the world, one row per assumption. Capture adds guards to a GuardSet while it
// runs; GuardProgram turns the finished set into one flat native program. Check and explanation are the same code.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/aten.h"
#include "guards/condition.h"
#include "py/ref.h"
#include "source/source.h"

namespace pellucid::guards {

using source::Source;

struct Foresight;

enum class Kind : std::uint8_t {
#define GUARD(kind, ...) kind,
#include "guards/guards.def"
};

inline constexpr std::size_t kKinds = 0
#define GUARD(kind, ...) +1
#include "guards/guards.def"
    ;
std::string_view name_of(Kind kind) noexcept;

// Where in the user's program the assumption was made.
struct Why {
  py::Owned<PyCodeObject> code;  // may be empty for ambient guards
  int offset = -1;               // byte offset of the instruction in `code`
  std::string operation;         // "reads attribute 'training'"
};

struct Guard {
  Kind kind;
  const Source* source = nullptr;              // null for ambient guards
  py::Owned<> operand;                         // payload object (type, constant, key, tuple of keys, …), by kind
  std::int64_t number = 0;                     // payload number (length, 0/1 for absent/present), by kind
  std::unique_ptr<aten::TensorSpec> tensor;    // TENSOR_MATCH
  std::unique_ptr<aten::GlobalState> state;    // GLOBAL_STATE; null: the state when the program is compiled
  const Source* other = nullptr;               // IS / IS_NOT
  std::shared_ptr<const Condition> condition;  // CONDITION
  std::shared_ptr<const Foresight> foresight;  // FORESEEN
  Why why;
};

class GuardSet {
 public:
  // Adds unless an equal guard (same kind, source, number, other, and operand: by identity, tuples item by item) is
  // there already. Returns whether it was added.
  bool add(Guard guard);
  const std::vector<Guard>& all() const noexcept { return guards_; }
  std::size_t size() const noexcept { return guards_.size(); }
  std::vector<Guard> release();

 private:
  struct Key {
    Kind kind;
    const Source* source;
    PyObject* operand;
    std::int64_t number;
    const Source* other;
    bool operator==(const Key& that) const noexcept;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const noexcept;
  };
  static Key key_of(const Guard& guard) noexcept;
  std::vector<Guard> guards_;
  std::unordered_map<Key, std::size_t, Hash> keys_;  // -> index of the guard that owns the operand
};

}  // namespace pellucid::guards
