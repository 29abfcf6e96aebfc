// The order in which the elements of a set go into a new one so that it is iterated as this one is. Where an element
// lies depends on those that were there before it, so iteration order is not always such an order.
#pragma once
#include <vector>

#include "py/ref.h"

namespace pellucid::codegen {

// Borrowed. Empty: the set is not, and there is none that was found (elements were taken out of it since).
std::vector<PyObject*> order_of_insertion(PyObject* set);

// For a set whose table grew at once, as only a copy has it: what to copy. Null: an order_of_insertion will
// do, or nothing does.
py::Owned<> constant_twin(PyObject* set);

// Whether a set that was `before` became `after` by an update with all of `added` at once: its table grows otherwise
// then than when they come one by one.
bool added_at_once(PyObject* before, PyObject* after, const std::vector<PyObject*>& added);

}  // namespace pellucid::codegen
