#include "objects/tracer.h"

namespace pellucid::objects {
namespace {
Names table;
}
const Names& names() { return table; }

void initialise_objects() {
#define NAME(n) table.n = PyUnicode_InternFromString(#n);
#define NAME_AS(n, text) table.n = PyUnicode_InternFromString(text);
#include "objects/names.def"
  initialise_types();
}
}  // namespace pellucid::objects
