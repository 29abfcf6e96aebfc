// CPython's own iterators from the inside: what comes next, without advancing them. Reading never runs Python code,
// never starts the collector, and never raises; it gives null or -1 for iterators that are not known here, and where
// advancing would raise ("changed size during iteration").
#pragma once
#include <Python.h>

#include <cstdint>

#include "py/ref.h"

namespace pellucid::py {

enum class IteratorKind : std::uint8_t {
  Unknown,
  List,
  ListReverse,
  Tuple,
  Text,  // of str
  Bytes,
  Range,
  LongRange,
  DictKeys,
  DictValues,
  DictItems,
  Set,
  Deque,
  Count,      // itertools.count of exact ints
  Enumerate,  // from here on: made of other iterators
  Zip,
  Map,
  Filter,
};
void initialise_iterators();  // before any other; until then all kinds are unknown
IteratorKind iterator_kind(PyTypeObject* type) noexcept;
inline IteratorKind iterator_kind(PyObject* object) noexcept { return iterator_kind(Py_TYPE(object)); }
inline bool is_compound(IteratorKind kind) noexcept { return kind >= IteratorKind::Enumerate; }

// The dict of a dict_keys, dict_values or dict_items, which count as part 0; null: not such a view. Borrowed.
PyObject* dict_of_view(PyObject* view) noexcept;
PyObject* dict_walked_by(PyObject* view) noexcept;  // the same of the views of an OrderedDict too, which are subclasses

// What it holds: the list, dict, set or deque it walks (0); of enumerate its iterator and the next number (0, 1); of
// zip its iterators; of map and filter the function (0) and the iterators. Null when there is no such part (any more).
// Borrowed; `fresh` has the reference when the part is made by reading it.
PyObject* iterator_part(PyObject* iterator, std::int64_t index, Owned<>& fresh) noexcept;
// How many parts (of enumerate 3 when it counts with big ints); of a zip(strict=True) negative, less one.
std::int64_t iterator_shape(PyObject* iterator) noexcept;
// Element number `ahead` from the current position, 0 being the next. Of dict items the key, or the value.
PyObject* iterator_ahead(PyObject* iterator, std::int64_t ahead, bool value, Owned<>& fresh) noexcept;
// How many elements are left, but not more than `most`; -1: advancing would raise, or nobody knows.
std::int64_t iterator_left(PyObject* iterator, std::int64_t most) noexcept;
// Position of a list iterator; -1 when it has come to its end.
std::int64_t iterator_position(PyObject* iterator) noexcept;
// How often the deque was changed in a way that ends its iterators; setting an item does not.
std::size_t deque_changes(PyObject* deque) noexcept;
// How many elements a fresh iterator of this dict, set or deque would have given to be where this one is; -1: it can
// not be told.
std::int64_t iterator_taken(PyObject* iterator) noexcept;

// Makes an iterator of a dict or set begin anew, over what the container holds now.
void rewind_iterator(PyObject* iterator) noexcept;
// Takes `count` elements, and when `ends` meets the end. A list iterator does so without looking at the list, which may
// have changed since; an enumerate goes on counting while its iterator stays. False: an exception is pending.
bool advance_iterator(PyObject* iterator, std::int64_t count, bool ends) noexcept;

}  // namespace pellucid::py
