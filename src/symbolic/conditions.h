// Conditions in a canonical form. Of Ints it is `polynomial <= number`, `number <= polynomial`, `polynomial == number`
// or `polynomial != number`, where the polynomial has no constant, no common factor, and a first coefficient above 0:
// so what is known of n < m also tells n + 1 <= m.
#pragma once
#include <cstdint>
#include <vector>

#include "symbolic/nodes.h"

namespace pellucid::symbolic {

// Int or Float on either side; never null.
const Expr* comparison(Nodes& nodes, Comparison comparison, const Expr* a, const Expr* b);
// Never null. Of floats, what is not less need not be greater.
const Expr* negation(Nodes& nodes, const Expr* condition);
// That a number is what its hint is; never null.
const Expr* is_its_hint(Nodes& nodes, const Expr* number);
// Null where they would be too large.
const Expr* conjunction(Nodes& nodes, const Expr* a, const Expr* b);
const Expr* disjunction(Nodes& nodes, const Expr* a, const Expr* b);
// Adds the numbers of the symbols in it that are not there yet.
void collect_symbols(const Expr* expr, std::vector<std::uint32_t>& out);

}  // namespace pellucid::symbolic
