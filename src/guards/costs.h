// What the guards of a program cost, guard by guard, measured with the values of one call. Nothing of it is there while
// nobody asks.
#pragma once
#include <vector>

#include "guards/report.h"

namespace pellucid::guards {

struct Cost {
  Description of;  // the guard; of a value that has to be read first, a guard of what is read there
  bool is_read = false;
  double nanoseconds = 0;
};

struct Costs {
  double call = 0;  // what check() takes when everything is as it was at the last call
  std::vector<Cost>
      parts;  // what is looked at then, one after the other: large parts are compared in less time together
};

// For a call whose guards hold; each part is measured as the shortest of a few rounds of so many `repeats`.
Costs costs_of(GuardProgram& program, PyObject* const* locals, PyObject* closure, int repeats);

}  // namespace pellucid::guards
