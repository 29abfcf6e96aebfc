// The generator object of a generator function that the region called: it owns the suspended symbolic frame. It exists
// only during capture; C code that tries to iterate it gets a TypeError, because only the executor can resume it.
#pragma once
#include <Python.h>

#include <memory>
#include <vector>

#include "py/ref.h"
#include "region/frame.h"

namespace pellucid::region {

struct TracedGenerator {
  PyObject_HEAD Frame* frame;  // owned; null while it runs and once it is finished
  PyFunctionObject* function;  // owned; null in a twin
  bool running;
  bool started;
  bool is_polyfill;       // the body is a polyfill: to the program it is a map, a zip …
  bool is_twin;           // stands for a generator from outside, which lives on
  const Frame* loop;      // the frame whose loop went over it last …
  std::size_t loop_slot;  // … with it in this place of its stack
  bool in_block;          // suspended inside a try or with block; the code's tables may be gone when it dies
};

// Bodies of generators that died while suspended inside a try or with block: the executor runs their `finally` next.
std::vector<std::unique_ptr<Frame>>& abandoned();

// While one exists, an executor runs that will look at abandoned(). Bodies that die at any other time just go: after
// the capture their code runs no more, and at the end of the process nobody may be left to let them go.
class Gathering {
 public:
  Gathering() noexcept;
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;
};

PyTypeObject* generator_type();
inline bool is_generator(PyObject* object) { return Py_TYPE(object) == generator_type(); }
// One that stands for a builtin iterator.
inline bool is_polyfill(PyObject* object) {
  return is_generator(object) && reinterpret_cast<TracedGenerator*>(object)->is_polyfill;
}
py::Owned<> new_generator(std::unique_ptr<Frame> frame);

}  // namespace pellucid::region
