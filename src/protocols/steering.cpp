#include "protocols/steering.h"

#include <unordered_map>
#include <unordered_set>

#include "base/break_policy.h"
#include "protocols/call.h"
#include "protocols/policies.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "region/objects.h"
#include "region/subclasses.h"

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

// The sets of ids that torch._dynamo keeps for what was asked for, once the program has imported it: nothing imports it
// for their sake.
class TablesOfTorch {
 public:
  enum Table : std::size_t { Disallowed, Allowed, Nonstrict, Polyfilled, kCount };

  bool are_there() {
    static PyObject* const module = py::interned("torch._dynamo.trace_rules").release();
    static constexpr const char* kNames[kCount] = {"_disallowed_callable_ids", "_allowed_callable_ids",
                                                   "_nonstrict_trace_callable_ids", "_polyfilled_function_ids"};
    if (found_) return true;
    PyObject* rules = PyDict_GetItemWithError(PyImport_GetModuleDict(), module);
    if (rules == nullptr || PyObject_HasAttrString(rules, kNames[Nonstrict]) == 0) return false;  // or is under way
    for (std::size_t i = 0; i < kCount; ++i) {
      tables_[i] = py::Owned<>::steal(PyObject_GetAttrString(rules, kNames[i]));
      if (!tables_[i]) PyErr_Clear();
    }
    return found_ = true;
  }

  // Nobody has asked for this one since the sets changed last. Most callables are such, and are called often.
  bool is_in_none(PyObject* callable) {
    bool same = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      const Py_ssize_t size = size_of(i);
      same = same && size == sizes_[i];
      sizes_[i] = size;
    }
    if (!same) in_none_.clear();
    return in_none_.contains(callable);
  }
  void note_in_none(PyObject* callable) { in_none_.insert(callable); }

  bool is_in(Table table, PyObject* callable) {
    return size_of(table) > 0 && PySet_Contains(sets_[table].get(), py::take(PyLong_FromVoidPtr(callable)).get()) == 1;
  }

 private:
  // torch makes a set when it needs it, and keeps it then.
  Py_ssize_t size_of(std::size_t table) {
    static PyObject* const name = py::interned("function_ids").release();
    if (!sets_[table] && tables_[table]) {
      auto ids = py::Owned<>::steal(PyObject_GetAttr(tables_[table].get(), name));
      if (!ids) PyErr_Clear();
      if (ids && PySet_Check(ids.get())) sets_[table] = std::move(ids);
    }
    return sets_[table] ? PySet_GET_SIZE(sets_[table].get()) : 0;
  }

  bool found_ = false;
  py::Owned<> tables_[kCount], sets_[kCount];
  Py_ssize_t sizes_[kCount] = {};
  std::unordered_set<PyObject*> in_none_;
};

TablesOfTorch& tables_of_torch() {
  static auto* const tables = new TablesOfTorch;
  return *tables;
}

// What torch.compiler.substitute_in_graph was given for this callable, if anything: by the program or its libraries.
// torch's own are left alone, since captures know those functions themselves.
py::Owned<> substitute_by_torch(PyObject* callable) {
  static PyObject* const mark = py::interned("__torch_dynamo_polyfill__").release();
  static constexpr std::string_view kOwn = "torch._dynamo.";
  if (!tables_of_torch().is_in(TablesOfTorch::Polyfilled, callable)) return {};
  static PyObject* const home_of_all = py::interned("torch._dynamo.variables.functions").release();
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), home_of_all);
  if (module == nullptr) return {};  // torch imports it for the first one
  const auto owner = py::take(PyObject_GetAttrString(module, "PolyfilledFunctionVariable"));
  const auto handlers = py::take(PyObject_CallMethod(owner.get(), "_get_polyfill_handlers", nullptr));
  auto handler = py::Owned<>::steal(PyObject_GetItem(handlers.get(), callable));
  auto substitute = handler ? py::Owned<>::steal(PyObject_GetAttr(handler.get(), mark)) : py::Owned<>();
  if (!substitute) PyErr_Clear();
  if (!substitute || !PyFunction_Check(substitute.get())) return {};
  const std::string home = py::text_of(reinterpret_cast<PyFunctionObject*>(substitute.get())->func_module);
  return std::string_view(home).starts_with(kOwn) ? py::Owned<>() : std::move(substitute);
}

Steering steering_by_torch(PyObject* callable) {
  using Table = TablesOfTorch::Table;
  TablesOfTorch* const tables = &tables_of_torch();
  if (!tables->are_there() || tables->is_in_none(callable)) return Steering::None;
  const bool is_function = PyFunction_Check(callable);
  // A function of torch that has a rule (graph_break) says itself what it is for.
  const bool has_rule = is_function && find(callable) != nullptr;
  if (!has_rule && tables->is_in(Table::Disallowed, callable)) return Steering::Disallowed;
  if (!has_rule && is_function &&
      (tables->is_in(Table::Allowed, callable) || tables->is_in(Table::Nonstrict, callable)))
    return Steering::Opaque;
  if (substitute_by_torch(callable)) return Steering::Substituted;
  tables->note_in_none(callable);
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

namespace {

// The function gets what the graph has: plain tensors.
void refuse_subclasses(PyObject* callable, Args args) {
  for (PyObject* value : args.values) {
    region::each_tensor(value, [&](PyObject* tensor) {
      if (region::is_subclassed(tensor))
        unsupported(Reason::UntracedCallable,
                    {{"callee", describe(callable) + " of a tensor of class " + Py_TYPE(tensor)->tp_name}});
    });
  }
}

}  // namespace

Result steered_call(Interpreter& t, Steering how, PyObject* callable, Args args) {
  t.region.provenance.guard_identity(callable);
  switch (how) {
    case Steering::Opaque:
      refuse_subclasses(callable, args);
      refuse_asked(t, callable);
      return t.region.recorder.torch_call(graph::Op::CallFunction, callable, callable, args);
    case Steering::Constant:
      t.region.capture->of_this_process =
          "it calls what is assumed to be constant";  // which is a promise for one process
      return pure(t, callable, args);
    case Steering::Substituted: {
      const auto own = table().find(callable);
      const auto substitute = own == table().end() ? substitute_by_torch(callable) : own->second.substitute.copy();
      t.region.provenance.keep(substitute.get());
      return call(t, substitute.get(), args);
    }
    case Steering::Forbidden:
      break_policy::open_block(true);  // also where breaks are allowed; the end of the capture closes it
      throw GraphBreak(Reason::ForbiddenInGraph, {{"callee", describe(callable)}});
    default:
      throw GraphBreak(Reason::DisallowedInGraph, {{"callee", describe(callable)}});
  }
}

}  // namespace pellucid::protocols
