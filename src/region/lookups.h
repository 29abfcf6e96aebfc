// Guarded look-ups of attributes: in classes as CPython's _PyType_Lookup, in the dicts of instances.
#pragma once
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
  Region& region_;
  std::unordered_set<const Source*> looked_up_;  // (type, name) pairs with a TYPE_LOOKUP guard
};

// Whether dict(x), d.update(x) and {**x} take what lies in the storage of `x` (dict_merge in dictobject.c): a subclass
// that iterates in its own way is asked for its keys() and items.
bool merges_as_dict(Region& region, PyObject* object);
// Whether list(x) and the like run Python code to learn how many elements there may be.
bool has_python_length(Region& region, PyObject* object);

}  // namespace pellucid::region
