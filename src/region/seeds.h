// What a region that ends at a graph break knows of the numbers and sizes that change, for the region behind it: that
// one need not see them change before it leaves them open.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "frames/state.h"
#include "region/number_history.h"

namespace pellucid::region {

struct Region;

class Seeds {
 public:
  using Changing = frames::Shape::Changing;
  explicit Seeds(Region& region) : region_(region) {}

  // A live value, under the name that it has where the next region begins. What has the same path in both regions is
  // left out: the next one gets the whole history of this one.
  void add(PyObject* value, const std::string& name);
  // All that is open of them.
  std::vector<Changing> take();

  // The program computes with this number from outside and one that only the graph knows: what it keeps there is
  // another one at each call (`meter.total += loss.item()`), so the number is open from now on, if it may be.
  static void open(Region& region, PyObject* number);

 private:
  void add_below(PyObject* value, PathHash path, int depth);
  void add_sizes(PyObject* tensor, PathHash path);
  void add_what_was_read();

  Region& region_;
  std::vector<Changing> found_;
  std::unordered_map<const source::Source*, std::vector<PathHash>> from_outside_;  // live values: where they will be
};

}  // namespace pellucid::region
