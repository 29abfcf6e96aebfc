#include "protocols/policies.h"

#include <algorithm>

#include "protocols/table.h"
#include "region/process.h"

namespace pellucid::protocols {

namespace {

bool holds_number(PyObject* value, int depth = 0) {
  if (region::is_number(value)) return !region::as_number(value)->settled;
  constexpr int kDeepest = 100;
  if (depth > kDeepest) return true;  // it may hold itself
  if (PyDict_Check(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (holds_number(item, depth + 1)) return true;
    }
  }
  for (Py_ssize_t i = 0; (PyTuple_Check(value) || PyList_Check(value)) && i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (holds_number(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

}  // namespace

Result run_native(Interpreter& t, PyObject* callable, Args args) {
  auto value = py::Owned<>::steal(PyObject_Vectorcall(callable, args.values.data(), args.size(), args.kwnames));
  if (value) {
    region::note_call(t.region, callable, args.values.data(), args.values.size(), value.get());
    return Result::of(std::move(value));
  }
  const py::PythonError error;
  // C code that asks for an exact int says of a stand-in for one what it would not say of the int.
  if (std::ranges::any_of(args.values, [](PyObject* argument) { return holds_number(argument); }))
    unsupported(Reason::UntracedCallable, {{"callee", describe(callable) + " of a number that changes"}});
  return t.raise_pending(error);
}

Result walker_of(Interpreter& t, PyObject* f, PyObject* argument, PyObject* container) {
  PyObject* values[] = {argument};
  Result walker = run_native(t, f, Args{values, nullptr});
  if (container != nullptr && walker.is_value()) t.region.iterators.note_walker(container, walker.value.get());
  return walker;
}

Result pure(Interpreter& t, PyObject* callable, Args args) {
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) {
    value = t.region.shadows.original(value);
    const Contents inside = t.region.reads.deep_touch(value);
    if (!inside.is_plain() || t.region.capture->region_ids.contains(value)) {
      unsupported(Reason::UntracedCallable, {{"callee", describe(callable) + " of a " + Py_TYPE(value)->tp_name}});
    }
    values.push_back(t.region.shadows.readable(value));
  }
  return run_native(t, callable, Args{values, args.kwnames});
}

Result shallow(Interpreter& t, PyObject* callable, Args args) {
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) {
    value = t.region.shadows.original(value);
    t.region.reads.touch(value);
    values.push_back(t.region.shadows.readable(value));
  }
  return run_native(t, callable, Args{values, args.kwnames});
}
namespace {

Result run_on(PyObject* self, Interpreter& t, PyObject* callable, Args args) {
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  values[0] = self;
  return run_native(t, callable, Args{values, args.kwnames});
}

}  // namespace

Result mutates_self(Interpreter& t, PyObject* callable, Args args) {
  return run_on(t.region.shadows.writable(t.region.shadows.original(args[0])), t, callable, args);
}

Result adds_to_self(Interpreter& t, PyObject* callable, Args args) {
  return run_on(t.region.shadows.growable(t.region.shadows.original(args[0])), t, callable, args);
}

Result nothing(Interpreter&, PyObject*, Args) { return Result::none(); }

Result refuse(Interpreter&, PyObject* callable, Args) {
  unsupported(Reason::SideEffect, {{"callee", describe(callable)}});
}

Result runs_as_it_is(Interpreter&, PyObject* callable, Args) {
  unsupported(Reason::RunsAsItIs, {{"callee", describe(callable)}});
}

}  // namespace pellucid::protocols
