// What an object runs when it goes.
#pragma once
#include <Python.h>

#include <span>
#include <vector>

namespace pellucid::frames {

// Which of the objects that `root` holds go with it: those that nobody else holds, or, while a capture holds copies and
// so their number of references says nothing, all.
enum class Referrers { Counted, All };

// Whether code of the program runs when `root` goes: a __del__ or what a C type does instead (a file is closed), the
// `finally` of a suspended generator, the callback of a weak reference; its own or that of what goes with it. With
// Referrers::All true also for what holds more objects than can be looked at. `generators`: those that have a
// `finally` to run go there and count for nothing. Runs no Python code.
bool runs_when_dropped(PyObject* root, Referrers referrers, std::vector<PyObject*>* generators = nullptr) noexcept;

// The same when a reference to each of these goes, generators aside: what they hold together goes with the last of
// them.
bool run_when_dropped_together(std::span<PyObject* const> values) noexcept;

}  // namespace pellucid::frames
