#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result Interpreter::raise(py::Owned<> instance) {
  if (region.iterators.took_all_now()) {  // the program itself may have stopped half way through that iterator
    unsupported(Reason::OutsideIterator, {{"type", "iterator from outside of the region that raises"}});
  }
  exception = std::move(instance);
  return Result::raised();
}

Result Interpreter::raise(PyObject* type, const std::string& message) {
  auto text = py::str(message);
  return raise(py::take(PyObject_CallOneArg(type, text.get())));
}

Result Interpreter::raise_name_error(PyObject* name, const std::string& message) {
  raise(PyExc_NameError, message);
  py::check(PyObject_SetAttrString(exception.get(), "name", name));
  return Result::raised();
}

Result Interpreter::raise_pending(const py::PythonError& error) {
  region.unbacked.rethrow();  // C code was refused a number, and has made an exception of that
  PyObject* value = error.value();
  if (PyErr_GivenExceptionMatches(value, PyExc_KeyboardInterrupt)) throw error;
  if (PyErr_GivenExceptionMatches(value, PyExc_MemoryError))  // ours or the program's: a real run will tell
    throw GraphBreak(Reason::ExceptionEscapes, {{"exception", py::repr_of(value)}});
  return raise(py::Owned<>::share(value));
}

}  // namespace pellucid::protocols
