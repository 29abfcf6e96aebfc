// Whether one program accepts every call that another one accepts.
#pragma once
#include "guards/program.h"

namespace pellucid::guards {

// Whether check() of `wide` is true of every call that check() of `narrow` is true of, as far as it can be told.
bool implies(const GuardProgram& narrow, const GuardProgram& wide);

// Whether some guard is about a number or a size that may be one thing or the other: others accept little more than the
// values that they were made from.
bool has_open(const GuardProgram& program) noexcept;

}  // namespace pellucid::guards
