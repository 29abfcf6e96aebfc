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

// The sets of ids that torch._dynamo keeps for what was asked for.
struct TablesOfTorch {
  py::Owned<> disallowed, allowed, nonstrict;
};

py::Owned<> attribute_or_none(PyObject* rules, const char* name) {
  auto found = py::Owned<>::steal(PyObject_GetAttrString(rules, name));
  if (!found) PyErr_Clear();
  return found;
}

// Null: the program has not imported it, and nothing imports it for its tables' sake.
const TablesOfTorch* tables_of_torch() {
  static const TablesOfTorch* known = nullptr;
  static PyObject* const name = py::interned("torch._dynamo.trace_rules").release();
  if (known != nullptr) return known;
  PyObject* rules = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  if (rules == nullptr || !PyObject_HasAttrString(rules, "_nonstrict_trace_callable_ids")) return nullptr;
  known = new TablesOfTorch{attribute_or_none(rules, "_disallowed_callable_ids"),
                            attribute_or_none(rules, "_allowed_callable_ids"),
                            attribute_or_none(rules, "_nonstrict_trace_callable_ids")};
  return known;
}

bool is_in(const py::Owned<>& table, PyObject* callable) {
  static PyObject* const name = py::interned("function_ids").release();
  if (!table) return false;
  const auto ids = py::Owned<>::steal(PyObject_GetAttr(table.get(), name));
  if (!ids) PyErr_Clear();
  if (!ids || !PySet_Check(ids.get()) || PySet_GET_SIZE(ids.get()) == 0) return false;
  return PySet_Contains(ids.get(), py::take(PyLong_FromVoidPtr(callable)).get()) == 1;
}

Steering steering_by_torch(PyObject* callable) {
  const TablesOfTorch* tables = tables_of_torch();
  const bool is_function = PyFunction_Check(callable);
  // A function of torch that has a rule (graph_break) says itself what it is for.
  if (tables == nullptr || (is_function && find(callable) != nullptr)) return Steering::None;
  if (is_in(tables->disallowed, callable)) return Steering::Disallowed;
  if (!is_function) return Steering::None;
  return is_in(tables->allowed, callable) || is_in(tables->nonstrict, callable) ? Steering::Opaque : Steering::None;
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
