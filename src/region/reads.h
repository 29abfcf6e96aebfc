// Guarded reads of builtin containers: what a region asks of one from outside, and what stays true for it in later
// calls.
#pragma once
#include <unordered_set>
#include <vector>

#include "region/capture.h"
#include "region/result.h"
#include "region/shadows.h"

namespace pellucid::region {

struct Region;

// What deep_touch found below a value.
struct Contents {
  bool tensor = false;    // a tensor, real or fake
  bool user = false;      // an object that may run Python code in C-level operations, or a generator of the region
  bool shadowed = false;  // a container that has a shadow, below the top
  bool is_plain() const noexcept { return !tensor && !user && !shadowed; }
};

// C code looks into a container that the region made or copied: numbers in it give way to their values.
void make_plain(Region& region, PyObject* container);

class Reads {
 public:
  explicit Reads(Region& region) : region_(region) {}

  // Guards length or keys and registers every element; returns what C code may look at (Shadows::readable).
  PyObject* touch(PyObject* container);
  Contents deep_touch(PyObject* value);  // touches everything below; what is there
  // touch() of a container from outside of which `copy` is one; it gets what the program goes on with for each element.
  void read_all(PyObject* container, PyObject* copy);
  // What touch() of a dict reads, with what the program goes on with for each value.
  std::vector<std::pair<py::Owned<>, py::Owned<>>> entries(PyObject* dict);
  std::int64_t length_of(PyObject* container);  // guarded; -1 when the kind has no C-level length

  // No __missing__; guarded presence; the value is empty when absent.
  Result dict_get(PyObject* dict, PyObject* key, bool* found);
  bool dict_contains(PyObject* dict, PyObject* key);
  void guard_presence(PyObject* dict, PyObject* key);  // whether the dict had the key before the region
  // What the dict has under the key, unguarded; null: nothing. A key of Python code in its way is a break.
  PyObject* stored(PyObject* dict, PyObject* key) const;
  PyObject* sequence_item(PyObject* sequence, Py_ssize_t index);  // list, tuple or deque, in range; borrowed

  bool hashable_natively(PyObject* key);       // hashing and comparing runs no Python code
  bool same(PyObject* left, PyObject* right);  // `is`, guarded
  // Keys that are found by identity: which object `key`, or a part of it, is.
  void guard_key(PyObject* container, PyObject* key, bool part = false);
  const std::vector<PyObject*>& keys() const { return keys_; }

 private:
  void touch_keys(PyObject* dict, const Source* source);
  void touch_dict(PyObject* dict, const Source* source, const Shadow* shadow);
  Contents contents_of(PyObject* value, int depth, std::unordered_set<PyObject*>& seen);
  bool is_known_key(PyObject* key);
  py::Owned<> part_of_method(PyObject* method, PyObject* name);

  Region& region_;
  std::unordered_set<PyObject*> touched_;
  std::vector<PyObject*> keys_;  // objects from outside that C code told apart by identity
};

}  // namespace pellucid::region
