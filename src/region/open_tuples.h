// Tuples and slices from outside with numbers that change. One is compared as a whole until a number in it has
// changed; then another one stands for it, with what the program goes on with for each item: of a slice, its start,
// stop and step.
#pragma once
#include <unordered_map>

#include "py/ref.h"
#include "region/number_history.h"
#include "source/source.h"

namespace pellucid::region {

struct Region;

class OpenTuples {
 public:
  explicit OpenTuples(Region& region) : region_(region) {}

  static bool is_one(PyObject* object) noexcept;  // a tuple or a slice
  static Py_ssize_t size(PyObject* tuple) noexcept;
  static PyObject* item(PyObject* tuple, Py_ssize_t i) noexcept;  // borrowed
  static PathHash path_of_item(PyObject* tuple, PathHash path, Py_ssize_t i) noexcept;
  // One was read from there: what the program goes on with.
  py::Owned<> read(PyObject* tuple, const source::Source* source);
  // The one from outside that `object` stands for; else itself. Borrowed.
  PyObject* behind(PyObject* object) const;
  // Somebody looks at one from outside that another one stands for: its numbers are constants.
  void settle(PyObject* tuple);
  // Later captures open what has changed of a number, or of a tuple of such, whose value is guarded.
  void note_closed(PyObject* value, PathHash path);

 private:
  Region& region_;
  std::unordered_map<PyObject*, PyObject*> behind_;     // stand-in -> the one from outside
  std::unordered_map<PyObject*, PyObject*> stand_ins_;  // the same, back
};

}  // namespace pellucid::region
