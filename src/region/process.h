// What another process may see otherwise: addresses of objects, and the hashes of texts and of objects, by which sets
// are ordered. A capture that has looked at such a thing holds in its own process alone (Capture::of_this_process).
#pragma once
#include <Python.h>

#include "py/ref.h"

namespace pellucid::region {

struct Region;

// hash(key) is the same in every process: numbers, and tuples and frozensets of them.
bool has_hash_of_every_process(PyObject* key);
// A set or frozenset of more than one element, whose order is that of the hashes of this process.
bool has_order_of_this_process(PyObject* container);

// The program looks at the order of a container, which may be a set. Other containers keep the order of their making.
void note_order(Region& region, PyObject* container);
// The elements of a set or frozenset are looked at one by one, for something that does not depend on their order.
class LooksAtNoOrder {
 public:
  LooksAtNoOrder(Region& region, PyObject* container);
  ~LooksAtNoOrder();
  LooksAtNoOrder(const LooksAtNoOrder&) = delete;
  LooksAtNoOrder& operator=(const LooksAtNoOrder&) = delete;

 private:
  Region& region_;
  const char* before_;
  py::Owned<> container_;
};

// A C function is called with these arguments and has given `result`: it may have looked at orders, hashes, addresses.
void note_call(Region& region, PyObject* callable, PyObject* const* args, std::size_t count, PyObject* result);

}  // namespace pellucid::region
