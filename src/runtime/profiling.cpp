#include "runtime/profiling.h"

#include <string>

#include "py/ref.h"
#include "region/profile.h"

namespace pellucid::runtime {
namespace {

using region::Profile;

PyObject* start(PyObject*, PyObject*) {
  if (region::profile != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a profile of compiling is being recorded already");
    return nullptr;
  }
  return py::enter([] {
    region::start_profile();
    return py::Owned<>::share(Py_None);
  });
}

// (index of the place around it or -1, kind, name, file, line)
py::Owned<> as_tuple(const Profile::Place& place) {
  switch (place.kind) {
    case Profile::Kind::Phase:
      return py::take(Py_BuildValue("(isssi)", place.parent, "phase", place.phase.c_str(), "", 0));
    case Profile::Kind::Function:
      return py::take(Py_BuildValue("(isOOi)", place.parent, "function", place.code->co_qualname,
                                    place.code->co_filename, place.code->co_firstlineno));
    case Profile::Kind::Line:
      break;
  }
  return py::take(Py_BuildValue("(isssi)", place.parent, "line", "", "", place.line));
}

PyObject* stop(PyObject*, PyObject*) {
  return py::enter([] {
    const auto recorded = region::stop_profile();
    auto places = py::take(PyList_New(0)), moments = py::take(PyList_New(0));
    if (recorded) {
      for (const auto& place : recorded->places()) py::check(PyList_Append(places.get(), as_tuple(place).get()));
      for (const auto& [nanoseconds, thread, place] : recorded->moments()) {
        auto moment = py::take(Py_BuildValue("(Lii)", static_cast<long long>(nanoseconds), thread, place));
        py::check(PyList_Append(moments.get(), moment.get()));
      }
    }
    return py::take(PyTuple_Pack(2, places.get(), moments.get()));
  });
}

PyMethodDef kFunctions[] = {
    {"start_profile", start, METH_NOARGS, "From here on the time of compiling is recorded by line of the program."},
    {"stop_profile", stop, METH_NOARGS, "Ends that. Gives the places and the moments at which a thread came to one."},
    {},
};

}  // namespace

void add_profiling(PyObject* module) { py::check(PyModule_AddFunctions(module, kFunctions)); }

}  // namespace pellucid::runtime
