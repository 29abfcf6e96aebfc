// What the user says of single callables: pellucid.allow_in_graph and its like. pellucid's own switches are in one
// table; the marks that torch's functions of these names leave, on a function or in torch's tables, say the same.
#pragma once
#include <utility>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

enum class Steering : int {
  None = 0,     // captured as any other
  Disallowed,   // never in a graph: a call ends it
  Opaque,       // one node: capture does not look inside
  Forbidden,    // met by a capture it is an error
  Constant,     // called at capture, and what it gives is a constant
  Substituted,  // capture follows another function in its place
};

inline constexpr std::pair<const char*, Steering> kSteerings[] = {
    {"NONE", Steering::None},           {"DISALLOWED", Steering::Disallowed}, {"OPAQUE", Steering::Opaque},
    {"FORBIDDEN", Steering::Forbidden}, {"CONSTANT", Steering::Constant},     {"SUBSTITUTED", Steering::Substituted},
};

// Holds `callable` for the process. `substitute`: what Substituted goes by.
void steer(PyObject* callable, Steering how, PyObject* substitute);
Steering steering_of(PyObject* callable);
// The call of a callable that is steered.
Result steered_call(Interpreter& t, Steering how, PyObject* callable, Args args);

}  // namespace pellucid::protocols
