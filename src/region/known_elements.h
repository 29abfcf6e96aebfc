// The elements of tensors that a capture may go by. They are known where they follow from small tensors of integers or
// truths from outside, whose elements are guarded then, and from what the program itself gives: a mask, the sizes of
// images, buffers with strides. Values first, as with numbers: once such a tensor is met with other elements, no later
// capture of the function goes by elements.
#pragma once
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "py/ref.h"
#include "symbolic/space.h"

namespace pellucid::region {

struct Capture;
struct Region;

// The tensor with data that a fake stands for; what it follows from is guarded from now on. Empty: nobody knows it.
py::Owned<> known_elements(Region& region, PyObject* fake);

// What a function gives whose tensors are all known so, as a new fake: one that asks for elements on its way, of
// tensors that no node gives. `values`: those of the keywords follow the `nargs` others. Empty: it gives no new tensor
// then.
py::Owned<> known_result(Region& region, PyObject* function, const std::vector<PyObject*>& values, std::size_t nargs,
                         PyObject* kwnames);

// (fake, its element as a number)
using KnownItems = std::vector<std::pair<py::Owned<>, py::Owned<>>>;

// The arguments of a call of torch as the program could have written them: with elements in the place of the tensors
// that torch has taken as numbers. `fakes`: what torch got for `args`, of which those before `first` stay. Empty: it
// has taken others too, or one of them is given twice.
std::vector<py::Owned<>> with_items(std::span<PyObject* const> args, const std::vector<PyObject*>& fakes,
                                    std::size_t first, const KnownItems& known);

// A backend that traces the graph itself knows no elements, and may need them where the capture has gone by some.
bool has_gone_by_elements(const Capture& capture);
// No later capture of the function goes by elements.
void stop_going_by_elements(Capture& capture);

// Whether numbers that the graph could give are constants in this capture, where they can be known.
bool goes_by_elements(const Region& region);
// The region ends where it needs the value of an expression: where the tensors can be known that its symbols are read
// of, it is captured again, and goes by their elements.
void wish_for_elements(Region& region, const symbolic::Expr* expr);
// The region ends where an operator does not take what only the graph knows: so too, where any of it can be known.
void wish_for_elements(Region& region);

}  // namespace pellucid::region
