// Statements and expressions as Python text.
#pragma once
#include <string>

#include "decompile/tree.h"

namespace pellucid::decompile {

struct Printed {
  bool good = false;
  std::string text;       // whole lines
  std::string why;        // when it is not good
  bool may_warn = false;  // the compiler warns of something like `"a" is x`
};

// `one_line`: texts of documentation stand on one line, so that the text may be indented by its reader.
// `spread`: operands of `and` and `or` stand on lines of their own.
Printed print(const Body& body, int depth, bool one_line, bool spread);

}  // namespace pellucid::decompile
