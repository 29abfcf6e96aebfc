// What emitted code calls for the random numbers of a region: one call, which draws them all from the generators that
// it is given, in the order of the program. When the graph behind it raises, and the call runs again by the
// interpreter, the generators are put back to where they were.
#pragma once
#include <memory>
#include <vector>

#include "py/random_state.h"
#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::runtime {

// The states of generators before a region drew from them.
class KeptDraws {
 public:
  void add(PyObject* generator);  // throws PythonError, like the next
  void put_back();

 private:
  std::vector<py::RandomState> of_python_;
  std::vector<std::pair<py::Owned<>, py::Owned<>>> of_numpy_;
};

// Empty: the region draws nothing.
py::Owned<> make_drawer(const region::Capture& capture);
// The graph behind it may raise: the states are kept at each call.
void keep_states(PyObject* drawer);
// The states before the last call of this drawer on this thread, once; null: they were not kept.
std::unique_ptr<KeptDraws> take_kept(PyObject* drawer);
void initialise_drawer_type(PyObject* module);

}  // namespace pellucid::runtime
