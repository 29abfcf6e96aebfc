// What a row of guards.def says of its kind: how a program lays the guard out and holds its operand.
#pragma once
#include <array>

#include "guards/guard.h"

namespace pellucid::guards {

enum class Place : std::uint8_t {
  Value,       // with the value, in full each time that the value is another one
  Dict,        // what the dict's version proves
  DictOrder,   // the same, and the order of its keys, which the version of an OrderedDict does not prove
  Attributes,  // what the version of the value's instance dict proves
  Type,        // what the type's version proves
  Pair,        // between the sources `source` and `other`
  Sources,     // between all sources that the operand names
  Late,        // when all others hold: how much it looks at depends on the values
  Ambient,     // of the thread or the process: it has no source
};

enum class Keeps : std::uint8_t {
  Watched,   // held, or by weak reference when it is a user's instance
  Held,      // for good
  Key,       // a key of a dict: held, or by weak reference when it is an instance that is found by identity
  Keys,      // a tuple of these
  Parts,     // a tuple: its items, held
  Members,   // the elements of a set as a tuple, held
  Found,     // (name, found): the first held, the second watched
  AbcToken,  // the function that tells it
  Count,     // only how many there are
};

enum class Stable : std::uint8_t {
  Never,
  Always,      // once true of an object, true of it for good: proved with the pointer
  StaticType,  // of objects whose type is static
  Immutable,   // of tuples and frozensets
};

enum class HotCheck : std::uint8_t { Type, Size, Tensor, Function, Check };

struct Traits {
  Place place;
  int rank;
  Keeps keeps;
  Stable stable;
  HotCheck hot;
};

inline constexpr std::array<Traits, kKinds> kTraits = {{
#define GUARD(kind, place, rank, keeps, stable, hot, payload, meaning) \
  {Place::place, rank, Keeps::keeps, Stable::stable, HotCheck::hot},
#include "guards/guards.def"
}};
constexpr const Traits& traits(Kind kind) noexcept { return kTraits[static_cast<std::size_t>(kind)]; }

}  // namespace pellucid::guards
