// Guarded look-ups of attributes: in classes as CPython's _PyType_Lookup, in the dicts of instances.
#pragma once
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

class Lookups {
 public:
  explicit Lookups(Region& region) : region_(region) {}

  PyObject* type_lookup(PyTypeObject* type, PyObject* name);  // along the MRO; borrowed or null
  PyObject* type_lookup(PyTypeObject* type, const char* name);
  // The same from the `first` class of the MRO on, each class's own dict guarded: as super() looks up, and in classes
  // that the region makes or changes.
  PyObject* mro_lookup(PyTypeObject* type, Py_ssize_t first, PyObject* name);
  // Where a class looks things up: assigning __bases__ of it or of a base gives it another __mro__.
  void guard_mro(PyTypeObject* type);
  PyObject* instance_get(PyObject* object, PyObject* name);  // an entry of the instance dict; borrowed or null

 private:
  struct Key {
    PyTypeObject* type;
    PyObject* name;  // interned
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };

  Region& region_;
  std::unordered_map<Key, PyObject*, Hash> in_types_;  // what a TYPE_LOOKUP guard says is found: borrowed from it
  std::unordered_set<const Source*> in_dicts_;         // entries of classes' own dicts that are guarded
};

// Whether dict(x), d.update(x) and {**x} take what lies in the storage of `x` (dict_merge in dictobject.c): a subclass
// that iterates in its own way is asked for its keys() and items.
bool merges_as_dict(Region& region, PyObject* object);
// Whether a list or tuple, or one inside it, is of a class that has Python code give its length, items or iterator. C
// code that asks the object meets what this code gives; C code that takes the memory of the list does not.
bool is_read_in_python(Region& region, PyObject* object, int depth = 0);
// Whether the class gives one of these as Python code. Classes of C code cannot.
bool has_python_method(Region& region, PyTypeObject* type, std::initializer_list<const char*> names);
// Whether list(x) and the like run Python code to learn how many elements there may be.
bool has_python_length(Region& region, PyObject* object);

}  // namespace pellucid::region
