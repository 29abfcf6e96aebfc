// Iterators from outside. What an iterator gives is read ahead of where it stands (source Step::Ahead), so a region
// that takes two elements fits wherever two are left, and the iterator itself moves only when the region's effects
// happen.
#pragma once
#include <unordered_map>
#include <utility>
#include <vector>

#include "region/capture.h"
#include "region/shadows.h"

namespace pellucid::region {

struct Region;

class Iterators {
 public:
  explicit Iterators(Region& region) : region_(region) {}

  // The next element, or null at the end. Throws GraphBreak when nobody knows what advancing it does.
  py::Owned<> next(PyObject* iterator) { return next(iterator, 0); }
  py::Owned<> rest(PyObject* iterator);  // all that are left, as a tuple
  // The function and the iterators of a map or filter; of each the source is known now.
  const std::vector<py::Owned<>>& parts(PyObject* iterator);
  // A dict_keys, dict_values or dict_items from outside, over what the region reads and writes; null: not one of these.
  py::Owned<> view(PyObject* view);
  static bool is_known(PyObject* iterator);  // whether what it does is known, all the way down

  void note_walker(PyObject* container, PyObject* walker);  // an iterator or view of the container, made by the region
  void refuse_in_use(PyObject* container);                  // a break when the region walks it
  // All elements of one were taken by the instruction that runs.
  bool took_all_now() const;

  // An iterator that the region made has given all of these to the instruction that runs.
  void note_used_up(PyObject* iterator, PyObject* elements);

  // A GraphBreak leaves the frame at the start of its instruction: iterators go back to where they were then.
  void undo_unfinished();
  const std::vector<PyObject*>& in_order() const { return order_; }  // those that the region advanced
  void changes(std::vector<Effect>& out) const;

 private:
  struct State {
    std::int64_t taken = 0;
    bool ended = false;
    std::int64_t step = -1;  // the instruction that changed it last …
    std::int64_t taken_before = 0;
    bool ended_before = false;  // … and what it was before that
  };
  py::Owned<> next(PyObject* iterator, int depth);
  py::Owned<> next_of_enumerate(PyObject* iterator, int depth);
  py::Owned<> next_of_zip(PyObject* iterator, int depth);
  py::Owned<> next_of_simple(PyObject* iterator, const Source* source);
  py::Owned<> next_of_changed_list(PyObject* iterator, const Source* source, PyObject* list);
  py::Owned<> item_ahead(PyObject* iterator, std::int64_t ahead, const Shadow* changed);
  py::Owned<> part(PyObject* iterator, std::int64_t index);
  State state_of(PyObject* iterator) const;
  void note_moved(PyObject* iterator, bool ended);
  void guard_same_keys(PyObject* iterator, PyObject* dict, const Shadow& shadow);

  Region& region_;
  std::unordered_map<PyObject*, State> states_;
  std::vector<PyObject*> order_;
  std::unordered_map<PyObject*, std::vector<py::Owned<>>> parts_;
  std::vector<std::pair<PyObject*, py::Owned<>>> walkers_;
  std::vector<std::pair<PyObject*, py::Owned<>>> used_up_;  // by the instruction number used_up_at_
  std::int64_t used_up_at_ = -1;
  std::int64_t took_all_at_ = -1;  // the instruction that took all elements of one at once
  bool draining_ = false;          // C code gets all elements at once: numbers among them are plain
};

}  // namespace pellucid::region
