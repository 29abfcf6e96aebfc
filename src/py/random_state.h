// The state of a generator of the module `random`: kept, and put back. random.getstate() makes
// 625 integers, setstate() reads as many; a capture does both around each backend, so here the state is copied as the
// bytes it is.
#pragma once
#include <Python.h>

#include <array>
#include <cstdint>

#include "py/ref.h"

namespace pellucid::py {

class RandomState {
 public:
  RandomState();  // of the generator behind the functions; keeps the state there is now; throws PythonError
  explicit RandomState(PyObject* generator);  // of any generator whose class is random.Random itself
  void restore();                             // throws PythonError

  // What stands behind the head of a generator of the C module `_random` (CPython 3.11 to 3.13).
  struct State {
    std::int32_t index;
    std::array<std::uint32_t, 624> words;
  };

 private:
  Owned<> generator_;
  Owned<> gauss_next_;  // the second of a pair of numbers that gauss() made, or None
  State state_{};
  Owned<> public_;  // what getstate() gave: in place of both where the layout is another one
};

}  // namespace pellucid::py
