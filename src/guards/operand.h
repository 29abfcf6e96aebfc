// What a check compares, of a guard's operand: the one place that says which part of the operand each kind needs.
#pragma once
#include "guards/check.h"
#include "guards/equality.h"
#include "guards/traits.h"

namespace pellucid::guards {

// `keeper` takes what the check needs, by its trait, and gives what it is from then on: keep, keep_or_watch, keep_key.
template <class Keeper>
void take_operand(Check& check, const Guard& guard, Keeper& keeper) {
  PyObject* operand = guard.operand.get();
  const auto items = [&](auto&& take) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); ++i)
      check.items.push_back(take(PyTuple_GET_ITEM(operand, i)));
  };
  switch (traits(guard.kind).keeps) {
    case Keeps::Watched:
      check.operand = keeper.keep_or_watch(operand);
      return;
    case Keeps::Held:
      check.operand = keeper.keep(operand);
      return;
    case Keeps::Key:
      check.operand = keeper.keep_key(operand);
      return;
    case Keeps::Keys:
      return items([&](PyObject* key) { return keeper.keep_key(key); });
    case Keeps::Parts:
      return items([&](PyObject* part) { return keeper.keep(part); });
    case Keeps::Members: {
      auto members = py::Owned<>::steal(members_of(operand));
      if (!members) py::throw_pending();
      check.operand = keeper.keep(members.get());
      return;
    }
    case Keeps::Found:
      check.operand = keeper.keep(PyTuple_GET_ITEM(operand, 0));
      if (PyTuple_GET_SIZE(operand) > 1) check.found = keeper.keep_or_watch(PyTuple_GET_ITEM(operand, 1));
      return;
    case Keeps::AbcToken:
      check.operand = keeper.keep(py::import_attr("_abc", "get_cache_token").get());
      return;
    case Keeps::Count:
      check.number = PyTuple_GET_SIZE(operand);
      return;
  }
}

}  // namespace pellucid::guards
