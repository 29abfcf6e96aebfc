// Whoever runs the frames of a region, as the protocols see it: they read and write through the region, and leave to it
// what pushes a frame, resumes a generator or raises.
#pragma once
#include <string>

#include "base/reasons.h"
#include "region/generator.h"
#include "region/names.h"
#include "region/region.h"
#include "region/result.h"
#include "region/types.h"

namespace pellucid::protocols {

using region::Args;
using region::Cat;
using region::cat_of;
using region::Contents;
using region::Continuation;
using region::Frame;
using region::is_atom;
using region::is_exact_builtin;
using region::is_generator;
using region::is_mutable_class;
using region::is_polyfill;
using region::Kind;
using region::Result;
using region::Source;

class Interpreter {
 public:
  Interpreter(PyFunctionObject* function, PyCodeObject* code) : region(function, code) {}
  virtual ~Interpreter() = default;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // What `next` makes of the outcome of an operation, which never says itself what becomes of it: at once of a value or
  // a raised exception; behind all that waits already when a frame was pushed; nothing when there is nothing to push.
  virtual Result and_then(Result result, Continuation next) = 0;
  // Calls a Python function: pushes its frame.
  virtual Result inline_function(PyObject* function, Args args) = 0;
  // The newest frame is the call of this object, an nn.Module perhaps.
  virtual void note_module(PyObject* module) = 0;

  // Generators of the region. `value`: what `yield` gives.
  virtual Result resume(PyObject* generator, PyObject* value) = 0;
  virtual Result throw_into(PyObject* generator, py::Owned<> instance) = 0;
  virtual Result close(PyObject* generator) = 0;
  // A generator that existed before goes on in the region as its twin; null: not one, or it cannot be read.
  virtual PyObject* twin_of_generator(PyObject* generator) = 0;
  virtual PyObject* topmost_handled() = 0;  // the exception that the region handles; borrowed or null

  // The program raises. Its context is what is being handled.
  Result raise(py::Owned<> instance);
  Result raise(PyObject* type, const std::string& message);
  Result raise_name_error(PyObject* name, const std::string& message);
  Result raise_pending(const py::PythonError& error);  // an exception of a C function that ran for real

  py::Owned<> exception;  // set while Raised travels
  region::Region region;
  int calls = 0;  // calls of `call` from within `call`
};

}  // namespace pellucid::protocols
