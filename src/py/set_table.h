// The hash table of a set as it is: where an element goes, and so the order of iteration, depends on what was there
// before, on elements that have left, and on when the table grew.
#pragma once
#include <span>
#include <string>

#include "py/ref.h"

namespace pellucid::py {

// What a table is described by: one of these characters per slot.
inline constexpr char kEmptySlot = '.', kElementSlot = 'x', kLeftSlot = '-';  // kLeftSlot: its element was taken out
// For lay_out: the element that an equal one of the set before it is laid out goes there, not the one that is given.
inline constexpr char kKeptSlot = 'o';

std::string table_of(PyObject* set);
bool has_table(PyObject* set, std::string_view table) noexcept;
bool has_same_table(PyObject* a, PyObject* b) noexcept;  // with the very same elements

// Where set.pop() begins to look: a slot, modulo their number.
Py_ssize_t finger_of(PyObject* set) noexcept;

// A set (not of a subclass) with the same elements in the same slots.
Owned<> copy_with_table(PyObject* set, Py_ssize_t finger);

// Gives a set or frozenset this table, with these elements in it from the first slot to the last. Where their hashes
// do not fit the slots, the elements are added one after another. `finger` -1: as it was.
void lay_out(PyObject* set, std::span<PyObject* const> elements, std::string_view table, Py_ssize_t finger);

}  // namespace pellucid::py
