// Values that can be reached from the arguments of a call by steps which make nothing and can be taken from any object:
// what looks at one of them need not know which guards hold.
#pragma once
#include <vector>

#include "source/source.h"

namespace pellucid::guards {

using Path = std::vector<const source::Source*>;  // outermost first

// False: there is a step of another kind, or there are so many that a program of guards is as quick.
bool is_path(const source::Source* source, Path& path);
// What these steps lead to now, borrowed from its owner; null: there is no such object. Runs no Python code.
PyObject* object_at(const Path& path, std::size_t steps, PyObject* const* locals, PyObject* closure) noexcept;

}  // namespace pellucid::guards
