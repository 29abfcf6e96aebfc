// Tuples from outside with numbers that change. A tuple is compared as a whole until a number in it has changed; then
// another one stands for it, with what the program goes on with for each item.
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

  // A tuple was read from there: what the program goes on with.
  py::Owned<> read(PyObject* tuple, const source::Source* source);
  // The tuple from outside that `object` stands for; else itself. Borrowed.
  PyObject* behind(PyObject* object) const;
  // Somebody looks at a tuple from outside that another one stands for: its numbers are constants.
  void settle(PyObject* tuple);
  // Later captures open what has changed of a number, or of a tuple of such, whose value is guarded.
  void note_closed(PyObject* value, PathHash path);

 private:
  Region& region_;
  std::unordered_map<PyObject*, PyObject*> behind_;     // stand-in -> the tuple from outside
  std::unordered_map<PyObject*, PyObject*> stand_ins_;  // the same, back
};

}  // namespace pellucid::region
