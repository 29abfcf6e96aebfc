// What a region assumed about the world, one row per assumption. Capture adds guards to a GuardSet while it
// runs; GuardProgram turns the finished set into one flat native program. Check and explanation are the same code.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
  // there already. Gives the one that was added, which stays where it is until the next one is; null: there was one.
  Guard* add(Guard guard);
  const std::vector<Guard>& all() const noexcept { return guards_; }
  std::size_t size() const noexcept { return guards_.size(); }
  std::vector<Guard> release();

 private:
  // A hash table with open addressing, since a capture asks for most guards several times: nothing is allocated for
  // one of them, and growing needs no guard's hash anew.
  struct Place {
    std::uint32_t hash = 0;
    std::uint32_t number = 0;  // 1 + index of the guard; 0: the place is free
  };
  Place& place_of(const Guard& guard, std::uint32_t hash) noexcept;  // where an equal one is, or the free place for it
  void grow();

  std::vector<Guard> guards_;
  std::vector<Place> places_;  // a power of two of them, at most half of them taken
};

}  // namespace pellucid::guards
