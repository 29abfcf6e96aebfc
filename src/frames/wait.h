// What a waiting frame makes of the result of the call inside it, beside pushing it: waits.def. The same table for the
// executor (trace/settle.cpp), which follows it, and for real frames (settle.cpp), where it happens.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

#include "py/ref.h"

namespace pellucid::frames {

enum class WaitKind : std::uint8_t {
#define WAIT(name, takes, where) name,
#include "frames/waits.def"
};

// The columns of waits.def.
enum class WaitTakes : std::uint8_t { Values, Errors };
enum class WaitWhere : std::uint8_t { Anywhere, InRegion };

// Stage of a Send or Raise in a generator that was told to throw() or close(): the exception that comes out of what it
// delegates to is thrown into it.
inline constexpr std::uint8_t kThrownIn = 1;

struct Wait {
  WaitKind kind = WaitKind::Push;
  std::uint8_t stage = 0;
  std::int64_t number = 0;
  py::Owned<> a, b, c;
};

// Whether real frames can do it.
constexpr bool can_settle(WaitKind kind) noexcept {
  constexpr WaitWhere kWhere[] = {
#define WAIT(name, takes, where) WaitWhere::where,
#include "frames/waits.def"
  };
  return kWhere[static_cast<std::size_t>(kind)] == WaitWhere::Anywhere;
}

}  // namespace pellucid::frames
