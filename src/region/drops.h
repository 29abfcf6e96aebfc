// What the region lets go of: objects from outside that it writes over or takes out of a container, and live values
// that nobody holds at its end. They die when the region's effects are done, so what runs code of the program then must
// be let go of in real frames.
#pragma once
#include <unordered_set>
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Frame;
struct Region;

class Drops {
 public:
  explicit Drops(Region& region) : region_(region) {}

  // A break when its end would run code of the program: the guards of a set keep its elements alive.
  void refuse_to_hold(PyObject* value);

  // A value that is alive where the region begins, of which the frames have so many references.
  void note_live(PyObject* value, const Source* source, Py_ssize_t references);
  // What the live values hold together runs code when all of them go.
  void note_runs_together(bool runs) { run_together_ = runs; }
  // At the end of the region, by the frame that returns or the result.
  void note_kept(PyObject* value) { kept_.insert(value); }
  // Something from outside was let go of that may have been the last to hold `object`.
  bool may_have_held(PyObject* object) const;

  // What is written over or taken out: a break when that would run code of the program, else guards that it does not.
  void guard_drop_of_entry(const Source* dict, PyObject* key, PyObject* before);  // null: there is none
  void guard_drop_of_slot(PyObject* object, PyObject* slot, PyObject* before);
  void guard_drop_of_contents(PyObject* cell);
  void guard_drop_of_walked(PyObject* iterator);  // one that comes to its end
  void guard_drop_of_item(PyObject* item);        // of a container that was touched: where it came from is known
  void guard_drop_of_item_at(PyObject* list, PyObject* index);
  void guard_drop_of_items(PyObject* container);

  // A generator that the region knows, alone or in containers: suspended in a block.
  bool would_run(PyObject* value, int depth = 0) const;
  // The region ends and gives `result`: a break when a generator from outside that is suspended inside a block would
  // run the program's code now. `taken`: the values that were alive where the region began.
  void refuse_lost(PyObject* result, const std::vector<PyObject*>& taken);

 private:
  struct Live {
    PyObject* value;
    const Source* source;
    Py_ssize_t references;
    bool runs;                          // code of the program when it goes …
    std::vector<PyObject*> generators;  // … or these do, in their `finally`; they may come to their end before
  };
  bool may_drop(PyObject* value);
  void guard_drop_of_live(const Live& live);
  void guard_unread(const Frame& last);
  void refuse_lost_contents();
  template <class Values>
  bool would_run_with(PyCodeObject* code, int at, const Values& values, int depth) const;

  Region& region_;
  std::unordered_set<PyObject*> drained_;  // containers out of which something may have been taken
  std::unordered_set<PyObject*> kept_;
  std::vector<Live> live_;
  bool any_ = false, any_tensor_ = false;  // tensor: a plain one, which holds no object of Python but its base
  bool run_together_ = false;
};

}  // namespace pellucid::region
