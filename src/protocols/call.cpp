#include "protocols/call.h"

#include <algorithm>

#include "frames/frame_objects.h"
#include "protocols/deferred.h"
#include "protocols/late_values.h"
#include "protocols/numbers.h"
#include "protocols/policies.h"
#include "protocols/protocols.h"
#include "protocols/steering.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "region/compiled_function.h"
#include "region/snapshot.h"

namespace pellucid::protocols {

using K = Continuation::Kind;

// The mark of pellucid.disable and torch.compiler.disable, which are plain functions.
void refuse_disabled(PyFunctionObject* function) {
  if (function->func_dict == nullptr) return;
  static PyObject* const mark = py::interned("_torchdynamo_disable").release();
  static PyObject* const message = py::interned("_torchdynamo_disable_msg").release();
  if (py::dict_get_str(function->func_dict, mark) != Py_True) return;
  std::string callee = describe(reinterpret_cast<PyObject*>(function));
  PyObject* reason = py::dict_get_str(function->func_dict, message);
  if (reason != nullptr && PyUnicode_Check(reason)) callee.append(" (").append(py::text_of(reason)).append(")");
  throw GraphBreak(Reason::UserDisabled, {{"callee", callee}});
}
namespace {

Result call_function(Interpreter& t, PyObject* function, Args args) {
  if (PyObject* own = region::disabled_by_import(reinterpret_cast<PyFunctionObject*>(function))) {
    t.region.provenance.guard_identity(function);
    return call(t, own, args);
  }
  const Handler handler = find(function);
  const bool is_operator = is_torch_op(function);
  if ((handler != nullptr || is_operator) && is_followed(t, function, args)) return t.inline_function(function, args);
  // A rule stands for the function and not for its code: another function in its place needs another graph.
  if (handler != nullptr) {
    t.region.provenance.guard_identity(function);
    return handler(t, function, args);
  }
  if (is_operator) {
    t.region.provenance.guard_identity(function);
    // torch.Tensor's Python-level methods are methods in the graph too, and keep their name.
    static PyObject* tensor_type = py::import_attr("torch", "Tensor").release();
    PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
    const bool method = args.size() > 0 && cat_of(args[0]) == Cat::Tensor &&
                        py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor_type), name) == function;
    if (method) return t.region.recorder.torch_call(graph::Op::CallMethod, function, name, args);
    return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, args);
  }
  return t.inline_function(function, args);
}

}  // namespace

Result call_ex(Interpreter& t, PyObject* callable, PyObject* positional, PyObject* kwargs) {
  auto tuple = native_elements(t, positional);
  if (!tuple) {
    // Iterating runs Python code: a polyfill makes a list first.
    return t.and_then(call_polyfill(t, region::has_python_length(t.region, positional) ? "list_of_sized" : "list_from",
                                    std::span<PyObject* const>(&positional, 1)),
                      Continuation(K::CallEx, callable, kwargs));
  }
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) values.push_back(PyTuple_GET_ITEM(tuple.get(), i));
  py::Owned<> kwnames;
  std::vector<std::pair<py::Owned<>, py::Owned<>>> named;
  if (kwargs != nullptr) {
    if (cat_of(kwargs) != Cat::Dict)
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "**kwargs"}, {"type", Py_TYPE(kwargs)->tp_name}});
    named = t.region.reads.entries(kwargs);
    std::vector<PyObject*> keys;
    for (const auto& [key, value] : named) {
      if (!PyUnicode_Check(key.get())) return t.raise(PyExc_TypeError, "keywords must be strings");
      keys.push_back(key.get());
      values.push_back(value.get());
    }
    if (!keys.empty()) kwnames = py::take(PyTuple_New(static_cast<Py_ssize_t>(keys.size())));
    for (std::size_t i = 0; kwnames && i < keys.size(); ++i)
      PyTuple_SET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i), Py_NewRef(keys[i]));
  }
  return call(t, callable, Args{values, kwnames.get()});
}
namespace {

// A call that leads to another without a frame in between (`A.__call__ = A()`) uses the C stack: CPython counts such
// calls too, and raises RecursionError when it runs them.
class CountedCall {
 public:
  explicit CountedCall(int& count) : count_(count) {
    if (count_ >= kMost) throw GraphBreak(Reason::Recursion);
    ++count_;
  }
  ~CountedCall() { --count_; }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

 private:
  static constexpr int kMost = 200;
  int& count_;
};

}  // namespace

Result call(Interpreter& t, PyObject* callable, Args args) {
  const CountedCall counted(t.calls);
  callable = t.region.numbers.plain(callable);
  if (const Steering how = steering_of(callable); how != Steering::None) return steered_call(t, how, callable, args);
  std::vector<PyObject*> room;
  if (has_number(args)) {
    if (std::optional<Result> number = number_call(t, callable, args)) return std::move(*number);
    if (std::optional<Result> late = late_call(t, callable, args)) return std::move(*late);
    if (!moves_numbers(callable)) args = plain_arguments(t, args, room);
  } else if (std::ranges::any_of(args.values, region::holds_open)) {
    if (std::optional<Result> late = late_call(t, callable, args)) return std::move(*late);
  }
  PyTypeObject* type = Py_TYPE(callable);
  if (t.region.deferred.reorderable && is_reorderable(t, callable, args.size() > 0 ? args[0] : nullptr))
    return reorder(t, callable, args);
  if (type == &PyFunction_Type) return call_function(t, callable, args);
  if (type == &PyMethod_Type) {
    auto function = native_attribute(t, callable, region::names().dunder_func);
    auto self = native_attribute(t, callable, region::names().__self__);
    std::vector<PyObject*> values{self.value.get()};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call(t, function.value.get(), Args{values, args.kwnames});
  }
  if (PyType_Check(callable)) return call_type(t, callable, args);
  if (cat_of(type) == Cat::Builtin) return call_native(t, callable, args);
  if (const auto original = region::original_of_compiled(callable); original.function != nullptr) {
    // Another compiled function in its place may stand for another function.
    native_attribute(t, callable, region::names()._torchdynamo_orig_callable);
    native_attribute(t, callable, region::names()._fullgraph);
    if (!original.fullgraph) return call(t, original.function, args);
    std::vector<PyObject*> values{original.function};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call_polyfill(t, "call_without_breaks", Args{values, args.kwnames});
  }
  if (auto handler = find(callable)) {
    t.region.provenance.guard_identity(callable);
    return handler(t, callable, args);
  }
  if (auto handler = find(reinterpret_cast<PyObject*>(type))) {
    // Rules for instances of a type: functools.partial, lru_cache wrappers, torch operators. The type row is told by
    // the callable's identity.
    if (is_instance_rule(type)) return handler(t, callable, args);
  }
  if (is_torch_op(callable)) {
    t.region.provenance.guard_identity(callable);
    if (auto answer = by_torch_function(t, callable, args)) return std::move(*answer);
    return t.region.recorder.torch_call(graph::Op::CallFunction, callable, callable, args);
  }
  PyObject* method = t.region.lookups.type_lookup(type, region::names().__call__);
  if (method != nullptr && PyFunction_Check(method)) {
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    Result result = call(t, method, Args{values, args.kwnames});
    if (result.did == Result::Did::Pushed) t.note_module(callable);
    return result;
  }
  if (method == nullptr) {
    return t.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not callable");
  }
  if (Py_IS_TYPE(method, &PyWrapperDescr_Type)) {
    if (const Handler handler = find(method)) {
      std::vector<PyObject*> values{callable};
      values.insert(values.end(), args.values.begin(), args.values.end());
      return handler(t, method, Args{values, args.kwnames});
    }
  } else {
    Result bound = bind(t, method, callable, reinterpret_cast<PyObject*>(type));
    if (bound.is_value()) return call(t, bound.value.get(), args);
  }
  // Asking a class of the program for its name would run its code.
  const bool is_of_c = !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
  unsupported(Reason::UntracedCallable,
              {{"callee", is_of_c ? describe(callable) : std::string("an instance of ") + type->tp_name}});
}
namespace {

void hide(PyCodeObject* code) {
  frames::hide_code(code);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* inner = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(inner)) hide(reinterpret_cast<PyCodeObject*>(inner));
  }
}

// What polyfills import from elsewhere is a function like any other: the program may call it too.
bool is_ours(PyObject* function) {
  PyObject* package = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "__package__");
  return package != nullptr && PyUnicode_Check(package) && PyUnicode_CompareWithASCIIString(package, "pellucid") == 0;
}

PyObject* polyfill(const char* name) {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    module = py::module_named("pellucid.polyfills");
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(PyModule_GetDict(module), &position, &key, &value)) {
      if (PyFunction_Check(value) && is_ours(value)) hide(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(value)));
    }
  }
  PyObject* function = PyDict_GetItemString(PyModule_GetDict(module), name);
  if (function == nullptr) throw GraphBreak(Reason::Internal, {{"detail", std::string("no polyfill ") + name}});
  return function;
}

}  // namespace

Result call_polyfill(Interpreter& t, const char* name, std::span<PyObject* const> args) {
  return t.inline_function(polyfill(name), Args{args, nullptr});
}

Result call_polyfill(Interpreter& t, const char* name, Args args) { return t.inline_function(polyfill(name), args); }

Result as_none(Result result) {
  if (result.did == Result::Did::Pushed) {  // Python code does it, whose own result was to be dropped
    result.frame->then.last() = Continuation(Continuation::Kind::Replace, Py_None);
    return result;
  }
  return result.did == Result::Did::Raised ? std::move(result) : Result::none();
}

Result call1(Interpreter& t, PyObject* callable, PyObject* a) { return call(t, callable, Args{{&a, 1}, nullptr}); }

Result call2(Interpreter& t, PyObject* callable, PyObject* a, PyObject* b) {
  PyObject* values[] = {a, b};
  return call(t, callable, Args{values, nullptr});
}

Result call3(Interpreter& t, PyObject* callable, PyObject* a, PyObject* b, PyObject* c) {
  PyObject* values[] = {a, b, c};
  return call(t, callable, Args{values, nullptr});
}

}  // namespace pellucid::protocols
