#include "protocols/steering.h"

#include <unordered_map>

#include "base/break_policy.h"
#include "protocols/call.h"
#include "protocols/policies.h"
#include "protocols/table.h"
#include "py/cpython.h"

namespace pellucid::protocols {
namespace {

struct Steered {
  py::Owned<> callable, substitute;
  Steering how = Steering::None;
};

// By identity. Kept to the end of the process, as the switches are.
std::unordered_map<PyObject*, Steered>& table() {
  static auto* const steered = new std::unordered_map<PyObject*, Steered>;
  return *steered;
}

bool is_marked(PyObject* callable, PyObject* name) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(callable)->func_dict;
  return dict != nullptr && py::dict_get_str(dict, name) == Py_True;
}

// trace_rules keeps sets of ids, which are empty but for what was asked for.
bool is_in_table_of_torch(PyObject* rules, const char* name, PyObject* id) {
  auto table = py::Owned<>::steal(PyObject_GetAttrString(rules, name));
  auto ids = table ? py::Owned<>::steal(PyObject_GetAttrString(table.get(), "function_ids")) : py::Owned<>();
  if (!ids) PyErr_Clear();
  return ids && PySet_Check(ids.get()) && PySet_Contains(ids.get(), id) == 1;
}

// The tables of torch._dynamo, when the program has imported it: nothing imports it for their sake.
Steering steering_by_torch(PyObject* callable) {
  static PyObject* const name = py::interned("torch._dynamo.trace_rules").release();
  PyObject* rules = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  if (rules == nullptr) return Steering::None;
  auto id = py::take(PyLong_FromVoidPtr(callable));
  if (is_in_table_of_torch(rules, "_disallowed_callable_ids", id.get())) return Steering::Disallowed;
  if (!PyFunction_Check(callable)) return Steering::None;
  if (is_in_table_of_torch(rules, "_allowed_callable_ids", id.get()) ||
      is_in_table_of_torch(rules, "_nonstrict_trace_callable_ids", id.get()))
    return Steering::Opaque;
  return Steering::None;
}

}  // namespace

void steer(PyObject* callable, Steering how, PyObject* substitute) {
  // Without a switch of ours torch's marks count, so one that is undone stays in the table only to overrule such a
  // mark.
  table().erase(callable);
  if (how == Steering::None && steering_of(callable) == Steering::None) return;
  table().insert_or_assign(callable, Steered{py::Owned<>::share(callable), py::Owned<>::share(substitute), how});
}

Steering steering_of(PyObject* callable) {
  const auto own = table().find(callable);
  if (own != table().end()) return own->second.how;
  if (PyFunction_Check(callable)) {
    static PyObject* const constant = py::interned("_dynamo_marked_constant").release();
    static PyObject* const forbidden = py::interned("_dynamo_forbidden").release();
    if (is_marked(callable, forbidden)) return Steering::Forbidden;
    if (is_marked(callable, constant)) return Steering::Constant;
  }
  return steering_by_torch(callable);
}

Result steered_call(Interpreter& t, Steering how, PyObject* callable, Args args) {
  t.region.provenance.guard_identity(callable);
  switch (how) {
    case Steering::Opaque:
      return t.region.recorder.torch_call(graph::Op::CallFunction, callable, callable, args);
    case Steering::Constant:
      return pure(t, callable, args);
    case Steering::Substituted:
      return call(t, table().at(callable).substitute.get(), args);
    case Steering::Forbidden:
      break_policy::open_block(true);  // also where breaks are allowed; the end of the capture closes it
      throw GraphBreak(Reason::ForbiddenInGraph, {{"callee", describe(callable)}});
    default:
      throw GraphBreak(Reason::DisallowedInGraph, {{"callee", describe(callable)}});
  }
}

}  // namespace pellucid::protocols
