// The namespace of a native forward: each object once, under a readable name.
#pragma once
#include <string>
#include <unordered_map>

#include "graph/names.h"
#include "py/ref.h"

namespace pellucid::backend {

class ForwardGlobals {
 public:
  ForwardGlobals();
  PyObject* add(PyObject* object, const std::string& hint);  // the name, borrowed
  PyObject* dict() const noexcept { return dict_.get(); }

 private:
  py::Owned<> dict_;
  graph::Namespace names_;
  std::unordered_map<PyObject*, py::Owned<>> name_of_;  // the dict holds the objects
};

// May lie in co_consts: an immutable value without references to anything else.
bool is_code_constant(PyObject* value);

}  // namespace pellucid::backend
