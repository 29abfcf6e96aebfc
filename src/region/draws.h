// Random numbers of Python and numpy that a region draws. The calls that draw them are made again at each call of the
// region, all of them before the graph and in the order of the program, from the very generators. Capture leaves these
// as they are: it draws from copies, and goes on with numbers of which nobody knows the value.
#pragma once
#include <unordered_map>
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

class Draws {
 public:
  explicit Draws(Region& region) : region_(region) {}

  // function(generator, *arguments), for a generator from outside: what stands for the number that it gives at each
  // call, in a Result; nothing where no region can draw that.
  py::Owned<> draw(PyObject* generator, PyObject* function, py::Owned<> arguments);

  // Where the float lies that is as large as a drawn int, for graphs that take no ints.
  const Source* as_float(const Source* number);

  // Whether all that the graph calls so far is code of torch: nothing of the program, which may draw numbers and write
  // to what it likes.
  bool calls_only_torch();

 private:
  const Source* next_source();

  Region& region_;
  std::unordered_map<const Source*, const Source*> floats_;
  std::size_t looked_at_ = 0;  // nodes of the graph, which only grows
  bool calls_program_ = false;
  std::unordered_map<PyObject*, py::Owned<>> copies_;  // of the generators, which have drawn what the region has
};

// The generators that emitted code loads, each once.
std::vector<const Source*> generators_of(const Capture& capture);

}  // namespace pellucid::region
