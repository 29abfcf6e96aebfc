// CPython 3.11's co_linetable: for each run of code units, the position in the source.
#pragma once
#include <string>
#include <vector>

#include "bytecode/position.h"

namespace pellucid::bytecode {

struct LineEntry {
  int units = 0;  // code units (two bytes each) that this position covers
  Position position;
};

// The same bytes that CPython's compiler writes for entries of one instruction each.
std::string emit_line_table(const std::vector<LineEntry>& entries, int first_line);

}  // namespace pellucid::bytecode
