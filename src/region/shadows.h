// Containers and cells from outside that the region writes to. The object itself stays as it is until the region's
// effects happen; what capture reads and writes is a private copy, its shadow.
#pragma once
#include <unordered_map>
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

struct Shadow {
  py::Owned<> object;   // the copy that capture reads and writes
  py::Owned<> written;  // dicts: {key: key} that the region wrote or deleted (reading them needs no guard)
  py::Owned<> added;    // of a list that only grows: a list of what it gets; there is no copy, and no guard
  bool changed = false;
  bool is_read = false;  // of a dict: all that it holds is what the program goes on with
  bool wrote(PyObject* key) const { return written && PyDict_Contains(written.get(), key) == 1; }
};

class Shadows {
 public:
  explicit Shadows(Region& region) : region_(region) {}

  const Shadow* find(PyObject* container);                 // null: it has none
  const Shadow* find_as_it_is(PyObject* container) const;  // the same; of a list that only grows without a copy
  bool is_shadowed(PyObject* container) const { return find_as_it_is(container) != nullptr; }
  // The shadow when there is one, else the object: what C code may look at once its contents were touched.
  PyObject* readable(PyObject* container);
  // The object that a shadow stands for, else the object.
  PyObject* original(PyObject* maybe_shadow) const;
  // What a live view or iterator may hold: later writes of the region show in it.
  PyObject* view_of(PyObject* container);
  // What a write goes to: the shadow, once everything in it was touched; of a fresh object itself.
  PyObject* writable(PyObject* container);
  PyObject* growable(PyObject* container);  // the same for what takes nothing out
  // list.append: nobody looks at what the list holds, nor at its length.
  void append(PyObject* list, PyObject* item);

  void dict_set(PyObject* dict, PyObject* key, PyObject* value);  // value null deletes (key must be there)
  PyObject* cell_get(PyObject* cell);                             // borrowed or null when empty
  PyObject* cell_at_hand(PyObject* cell) const;                   // the same, without a guard: for looking at it
  void cell_set(PyObject* cell, PyObject* value);                 // null empties

  // `stand_in`, made by capture, means `object` where it leaves the region.
  void note_stand_in(PyObject* stand_in, PyObject* object) { shadowed_by_.emplace(stand_in, object); }
  // At the end of the capture, which takes it: stand-in -> the object that existed before.
  std::unordered_map<PyObject*, PyObject*> take_stand_ins();

  const std::vector<PyObject*>& in_order() const { return order_; }  // those that have a shadow
  // `as_copies`: the region goes on changing them.
  void changes_of_containers(std::vector<Effect>& out, bool as_copies) const;
  void changes_of_cells(std::vector<Effect>& out) const;

 private:
  Shadow& shadow_of(PyObject* container, bool touch_all);
  void complete(PyObject* list, Shadow& shadow);
  void guard_replay(PyObject* dict, const Shadow& shadow, PyObject* key, PyObject* value, bool again);

  Region& region_;
  std::unordered_map<PyObject*, Shadow> shadows_;
  std::vector<PyObject*> order_;
  std::unordered_map<PyObject*, PyObject*> shadowed_by_;    // shadow -> original
  std::unordered_map<PyObject*, py::Owned<>> cell_values_;  // outside cells that were written: value or empty
};

}  // namespace pellucid::region
