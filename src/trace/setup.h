// The tables that a capture needs, filled once in a process by whoever comes first.
#pragma once

namespace pellucid::trace {

// What is known of types and names alone: the rest imports modules.
void initialise_types_once();

}  // namespace pellucid::trace
