#include "region/names.h"

#include "region/types.h"

namespace pellucid::region {
namespace {
Names table;
}
const Names& names() { return table; }

void initialise() {
#define NAME(n) table.n = PyUnicode_InternFromString(#n);
#define NAME_AS(n, text) table.n = PyUnicode_InternFromString(text);
#include "region/names.def"
  initialise_types();
}
}  // namespace pellucid::region
