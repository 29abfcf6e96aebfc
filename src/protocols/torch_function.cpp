#include "protocols/torch_function.h"

#include <structmember.h>

#include <algorithm>

#include "aten/torch_function.h"
#include "protocols/call.h"
#include "protocols/policies.h"
#include "protocols/table.h"
#include "py/cpython.h"
#include "region/jagged.h"
#include "region/objects.h"
#include "region/subclasses.h"

namespace pellucid::protocols {
namespace {

constexpr int kDeepest = 5;  // of lists and tuples in which torch looks for tensors

template <class F>
bool any_inside(Interpreter& t, PyObject* value, F&& holds, int depth = 0) {
  const Cat cat = cat_of(value);
  if (cat == Cat::Slice) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return holds(slice->start) || holds(slice->stop) || holds(slice->step);
  }
  if (cat != Cat::List && cat != Cat::Tuple) return holds(value);
  PyObject* view = t.region.shadows.readable(value);
  for (Py_ssize_t i = 0; depth < kDeepest && i < PySequence_Fast_GET_SIZE(view); ++i) {
    if (any_inside(t, PySequence_Fast_GET_ITEM(view, i), holds, depth + 1)) return true;
  }
  return false;
}

template <class F>
bool any_of(Interpreter& t, Args args, F&& holds) {
  return std::ranges::any_of(args.values, [&](PyObject* value) { return any_inside(t, value, holds); });
}

PyObject* torch_function_name() {
  static PyObject* const name = py::interned("__torch_function__").release();
  return name;
}

// ---- what torch would hand to a class: it is asked once, with a function mode that hears of the call and stops it

struct Listener {
  PyObject_HEAD PyObject* heard;  // the arguments of __torch_function__, or null
};

PyObject* hear(PyObject* self, PyObject* args) {
  PyObject* before = std::exchange(reinterpret_cast<Listener*>(self)->heard, Py_NewRef(args));
  Py_XDECREF(before);
  PyErr_SetString(PyExc_RuntimeError, "pellucid: a class answers this call");
  return nullptr;
}

void free_listener(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(reinterpret_cast<Listener*>(self)->heard);
  type->tp_free(self);
  const auto held = py::Owned<PyTypeObject>::steal(type);
}

py::Owned<> make_listener() {
  static PyMethodDef methods[] = {{"__torch_function__", hear, METH_VARARGS, nullptr}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(free_listener)}, {Py_tp_methods, methods}, {0, nullptr}};
  static PyType_Spec spec = {"pellucid.TorchFunctionListener", sizeof(Listener), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromSpec(&spec)).release());
  return py::take(PyType_GenericAlloc(type, 0));
}

// An argument as torch may look at it without running code of the program: a fake of the same class.
py::Owned<> stand_in(Interpreter& t, PyObject* value, int depth = 0) {
  static PyObject* const as_subclass =
      PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), "as_subclass");
  if (region::is_number(value)) return py::Owned<>::share(region::value_at_hand(value));
  const Cat cat = cat_of(value);
  if (cat == Cat::Tensor) {
    auto fake = t.region.recorder.lift(value);
    if (!region::is_subclassed(value) || region::is_wrapper_subclass(value)) return fake;
    if (aten::is_fake(value)) return py::Owned<>::share(value);
    PyObject* values[] = {fake.get(), reinterpret_cast<PyObject*>(Py_TYPE(value))};
    return t.region.recorder.fakes().call(as_subclass, values, 2, nullptr);
  }
  if ((cat == Cat::List || cat == Cat::Tuple) && depth < kDeepest) {
    PyObject* view = t.region.reads.touch(value);
    std::vector<py::Owned<>> items;
    bool same = true;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(view); ++i) {
      items.push_back(stand_in(t, PySequence_Fast_GET_ITEM(view, i), depth + 1));
      same = same && items.back().get() == PySequence_Fast_GET_ITEM(view, i);
    }
    if (same) return py::Owned<>::share(view);
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (std::size_t i = 0; i < items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), items[i].release());
    return cat == Cat::List ? py::take(PySequence_List(tuple.get())) : std::move(tuple);
  }
  if (cat == Cat::Slice) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return py::take(
        PySlice_New(stand_in(t, slice->start).get(), stand_in(t, slice->stop).get(), stand_in(t, slice->step).get()));
  }
  return py::Owned<>::share(t.region.shadows.readable(value));
}

struct Heard {
  py::Owned<> function, types, args, kwargs;  // kwargs: empty where torch gives none
};

// Empty function: torch asks nobody.
Heard listen(Interpreter& t, PyObject* callable, Args args, Args named) {
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values;
  std::vector<std::pair<PyObject*, std::uint32_t>> versions;
  for (PyObject* value : args.values) {
    held.push_back(stand_in(t, value));
    values.push_back(held.back().get());
    region::each_tensor(values.back(),
                        [&](PyObject* tensor) { versions.emplace_back(tensor, aten::version_of(tensor)); });
  }
  const auto listener = make_listener();
  const auto& heard = reinterpret_cast<Listener*>(listener.get())->heard;
  t.region.doing = "calls torch";
  try {
    (void)t.region.recorder.fakes().call(callable, values.data(), args.size(), args.kwnames, listener.get());
  } catch (const py::PythonError&) {
    if (heard == nullptr) return {};  // the call does not fit, which it will say again
  }
  const auto not_known = [&] { unsupported(Reason::UntracedCallable, {{"callee", describe(callable)}}); };
  const auto is_written = [](const auto& tensor) { return aten::version_of(tensor.first) != tensor.second; };
  if (std::ranges::any_of(versions, is_written)) not_known();
  if (heard == nullptr) return {};
  const Py_ssize_t count = PyTuple_GET_SIZE(heard);
  if (count < 3 || count > 4) not_known();
  Heard call{py::Owned<>::share(PyTuple_GET_ITEM(heard, 0)), py::Owned<>::share(PyTuple_GET_ITEM(heard, 1)), {}, {}};
  if (!PyTuple_Check(call.types.get())) return {};
  if (PyTuple_GET_SIZE(call.types.get()) == 0 && !asks_modes(t)) return {};
  // The arguments as the program has them, provided that torch hands on what it was given.
  PyObject* given = PyTuple_GET_ITEM(heard, 2);
  if (!PyTuple_CheckExact(given) || static_cast<std::size_t>(PyTuple_GET_SIZE(given)) != named.size()) not_known();
  call.args = py::take(PyTuple_New(PyTuple_GET_SIZE(given)));
  std::size_t from = 0;
  for (std::size_t i = 0; i < named.size(); ++i) {
    while (args[from] != named[i]) ++from;
    if (PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i)) != values[from++]) not_known();
    PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(named[i]));
  }
  PyObject* keywords = count == 4 ? PyTuple_GET_ITEM(heard, 3) : nullptr;
  const std::size_t keyword_count = keywords != nullptr && PyDict_CheckExact(keywords) ? PyDict_GET_SIZE(keywords) : 0;
  if (keyword_count != args.keyword_count()) not_known();
  if (keywords != nullptr) call.kwargs = keywords == Py_None ? py::Owned<>::share(keywords) : py::take(PyDict_New());
  for (std::size_t i = 0; i < keyword_count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(args.kwnames, static_cast<Py_ssize_t>(i));
    if (PyDict_GetItemWithError(keywords, name) != values[args.size() + i]) not_known();
    py::check(PyDict_SetItem(call.kwargs.get(), name, args[args.size() + i]));
  }
  return call;
}

// Binary methods of torch give NotImplemented for a TypeError, whoever raised it.
bool hides_type_errors(PyObject* callable) {
  static PyObject* const hiding = py::import_attr("pellucid.polyfills_torch_function", "HIDE_TYPE_ERRORS").release();
  const int found = PySet_Contains(hiding, callable);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

// The innermost mode is asked by a plain method, and about what the program calls: what code of ours calls in place of
// torch's own, it would not see.
void check_mode(Interpreter& t, PyObject* callable) {
  PyObject* mode = t.region.function_modes.innermost();
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(mode), torch_function_name());
  if (method == nullptr || !PyFunction_Check(method))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__torch_function__"}, {"type", Py_TYPE(mode)->tp_name}});
  if (t.region.top != nullptr && t.region.top->hidden)
    unsupported(Reason::TorchFunctionMode, {{"callee", describe(callable)}});
}

// `named`: the arguments that torch names to the classes, in their order among all.
std::optional<Result> answer(Interpreter& t, PyObject* callable, Args args, Args named) {
  const bool by_mode = asks_modes(t);
  if (!by_mode) {
    if (!aten::asks_torch_functions()) return std::nullopt;
    if (!any_has_torch_function(t, args)) return std::nullopt;
  }
  const Heard heard = listen(t, callable, args, named);
  if (!heard.function) return std::nullopt;
  t.region.provenance.note_constant(heard.function.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(heard.types.get()); ++i)
    t.region.provenance.note_constant(PyTuple_GET_ITEM(heard.types.get(), i));
  std::vector<PyObject*> values{heard.function.get(), heard.types.get(), heard.args.get()};
  if (heard.kwargs) values.push_back(heard.kwargs.get());
  const bool hides = hides_type_errors(callable);
  if (by_mode) {
    check_mode(t, callable);
    return call_polyfill(t, hides ? "ask_mode_or_not_implemented" : "ask_mode", values);
  }
  return call_polyfill(t, hides ? "ask_classes_or_not_implemented" : "ask_classes", values);
}

PyObject* builtin(const char* name) { return py::import_attr("builtins", name).release(); }

}  // namespace

bool asks_modes(const Interpreter& t) { return t.region.function_modes.are_asked(); }

void refuse_asked(const Interpreter& t, PyObject* callable) {
  if (asks_modes(t)) unsupported(Reason::TorchFunctionMode, {{"callee", describe(callable)}});
}

bool is_answered(const Interpreter& t, PyObject* value) {
  return region::is_subclassed(value) || (cat_of(value) == Cat::Tensor && asks_modes(t));
}

bool has_torch_function(Interpreter& t, PyObject* value) {
  static PyObject* const disabled = py::import_attr("torch._C", "_disabled_torch_function_impl").release();
  const Cat cat = cat_of(value);
  if (cat == Cat::Tensor ? aten::is_plain_tensor(value) : cat != Cat::Instance) return false;
  PyTypeObject* type = Py_TYPE(value);
  PyObject* found = t.region.lookups.type_lookup(type, torch_function_name());
  if (found == nullptr || found == disabled) return false;
  if (region::is_jagged_class(type)) return false;  // torch's own code, which torch asks on fakes
  // Of other makes than classmethods torch warns, or hands the object itself on.
  if (!Py_IS_TYPE(found, &PyClassMethod_Type))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__torch_function__"}, {"type", type->tp_name}});
  return true;
}

bool any_has_torch_function(Interpreter& t, Args args) {
  return any_of(t, args, [&](PyObject* value) { return has_torch_function(t, value); });
}

std::optional<Result> by_torch_function(Interpreter& t, PyObject* callable, Args args) {
  return answer(t, callable, args, Args{args.positional(), nullptr});
}

std::optional<Result> getattr_by_torch_function(Interpreter& t, PyObject* tensor, PyObject* name) {
  static PyObject* const get = builtin("getattr");
  PyObject* values[] = {tensor, name};
  return answer(t, get, Args{values, nullptr}, Args{{values, 1}, nullptr});
}

std::optional<Result> setattr_by_torch_function(Interpreter& t, PyObject* tensor, PyObject* name, PyObject* value) {
  static PyObject* const set = builtin("setattr");
  PyObject* values[] = {tensor, name, value};
  PyObject* named[] = {tensor, value};
  return answer(t, set, Args{values, nullptr}, Args{named, nullptr});
}

bool is_followed(Interpreter& t, PyObject* function, Args args) {
  const auto has_say = [&](PyObject* value) {
    return (region::is_subclassed(value) && !region::is_wrapper_subclass(value)) || has_torch_function(t, value);
  };
  const bool by_mode = asks_modes(t);
  if (!by_mode && !any_of(t, args, has_say)) return false;
  if (find(function) == nullptr) return true;
  if (!by_mode && !aten::asks_torch_functions()) return false;
  // A function with a rule asks the classes, and modes, by one of these.
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    if (py::text_of(PyTuple_GET_ITEM(code->co_names, i)).starts_with("has_torch_function")) return true;
  }
  return false;
}

}  // namespace pellucid::protocols
