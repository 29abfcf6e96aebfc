// Ints that are no polynomials of their operands: canonical where exact arithmetic allows it. Null as in Nodes::make,
// and for a divisor or an exponent whose hint Python would raise for. What has to be true at other values (a divisor
// other than 0) is the caller's to record: these simplify as if it were.
#pragma once
#include "symbolic/nodes.h"

namespace pellucid::symbolic {

const Expr* sum_of(Nodes& nodes, const Expr* a, const Expr* b, std::int64_t times_b = 1);
const Expr* product_of(Nodes& nodes, const Expr* a, const Expr* b);
const Expr* floor_division(Nodes& nodes, const Expr* a, const Expr* b);
const Expr* remainder(Nodes& nodes, const Expr* a, const Expr* b);
const Expr* power(Nodes& nodes, const Expr* base, const Expr* exponent);
const Expr* extremum(Nodes& nodes, Op min_or_max, const Expr* a, const Expr* b);

}  // namespace pellucid::symbolic
