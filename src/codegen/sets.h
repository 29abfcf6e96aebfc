// How emitted code gives a set the table that it has in the capture (py/set_table.h).
#pragma once
#include <optional>
#include <vector>

#include "codegen/walk.h"

namespace pellucid::codegen {

// Whether each element has the same hash in later calls, by C code: else there is no table to keep. `is_outside`: the
// set existed before, so that each key is guarded.
bool has_fixed_hashes(const Walker& walker, PyObject* set, bool is_outside);

// Borrowed: the elements in an order in which they give an empty set this table. Nothing: that takes more than adding
// them (some have left, the table grew at once, or pop() was called), and laid_out has to do it.
std::optional<std::vector<PyObject*>> order_of_insertion(const Walker& walker, PyObject* set, bool is_outside);

// A call that gives the set or frozenset `target` the table and the elements of `wanted`, and is its value. What
// `before` held already stays the same object.
Expr laid_out(Walker& walker, Expr target, PyObject* wanted, const std::vector<PyObject*>& before = {});

}  // namespace pellucid::codegen
