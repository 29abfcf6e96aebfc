// Python's random numbers: each call runs for real, as one step. Their Python functions are not followed to the C calls
// that draw, of which some draw until a number fits: a region would end within them once for each number.
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

#define RANDOM(n) \
  { "random.Random." n, refuse }
const Row rows[] = {
    RANDOM("betavariate"),    RANDOM("choice"),        RANDOM("choices"),   RANDOM("expovariate"),
    RANDOM("gammavariate"),   RANDOM("gauss"),         RANDOM("getstate"),  RANDOM("lognormvariate"),
    RANDOM("normalvariate"),  RANDOM("paretovariate"), RANDOM("randbytes"), RANDOM("randint"),
    RANDOM("randrange"),      RANDOM("sample"),        RANDOM("seed"),      RANDOM("setstate"),
    RANDOM("shuffle"),        RANDOM("triangular"),    RANDOM("uniform"),   RANDOM("vonmisesvariate"),
    RANDOM("weibullvariate"),
};
#undef RANDOM

}  // namespace

const std::span<const Row> kRandomRows = rows;

}  // namespace pellucid::rows
