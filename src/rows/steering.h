// Switches for single callables, for the rooms that do not see protocols.
#pragma once
#include "py/ref.h"

namespace pellucid::rows {

void steer(PyObject* callable, int how, PyObject* substitute);  // `how`: a protocols::Steering
int steering_of(PyObject* callable);
py::Owned<> steerings();           // {"NONE": 0, …}: all that there are
bool is_leaf(PyObject* callable);  // an operation of torch, which is one node of a graph

}  // namespace pellucid::rows
