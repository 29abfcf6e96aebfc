// Calls of every form: which callable is inlined, which has a rule, which is a torch operation.
#include "frames/frame_objects.h"
#include "handlers/deferred.h"
#include "objects/compiled_function.h"
#include "objects/snapshot.h"
#include "py/cpython311.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using handlers::describe;
using objects::names;

namespace {

// The bound locals of a call, as CPython binds them. False: the call does not fit (CPython then words the TypeError).
bool bind_arguments(PyFunctionObject* function, PyCodeObject* code, Args args, std::vector<py::Owned<>>& fast,
                    objects::Tracer& tracer) {
  const int argc = code->co_argcount, posonly = code->co_posonlyargcount, kwonly = code->co_kwonlyargcount;
  const bool has_varargs = (code->co_flags & CO_VARARGS) != 0, has_varkw = (code->co_flags & CO_VARKEYWORDS) != 0;
  const int total = argc + kwonly;
  const auto given = static_cast<int>(args.size());
  const int filled = std::min(given, argc);
  for (int i = 0; i < filled; ++i) fast[i] = py::Owned<>::share(args[i]);
  if (has_varargs) {
    auto rest = py::take(PyTuple_New(std::max(0, given - argc)));
    for (int i = argc; i < given; ++i) PyTuple_SET_ITEM(rest.get(), i - argc, Py_NewRef(args[i]));
    fast[total] = std::move(rest);
  } else if (given > argc) {
    return false;
  }
  py::Owned<> varkw;
  if (has_varkw) varkw = py::take(PyDict_New());
  for (std::size_t k = 0; k < args.keyword_count(); ++k) {
    PyObject* name = PyTuple_GET_ITEM(args.kwnames, k);
    PyObject* value = args.values[args.size() + k];
    int slot = -1;
    for (int i = posonly; i < total; ++i) {
      PyObject* candidate = PyTuple_GET_ITEM(code->co_localsplusnames, i);
      if (candidate == name || PyUnicode_Compare(candidate, name) == 0) {
        slot = i;
        break;
      }
    }
    if (slot >= 0) {
      if (fast[slot]) return false;
      fast[slot] = py::Owned<>::share(value);
    } else if (has_varkw) {
      if (PyDict_Contains(varkw.get(), name)) return false;
      py::check(PyDict_SetItem(varkw.get(), name, value));
    } else {
      return false;
    }
  }
  if (has_varkw) fast[total + has_varargs] = std::move(varkw);
  PyObject* defaults = function->func_defaults;
  const int default_count = defaults == nullptr ? 0 : static_cast<int>(PyTuple_GET_SIZE(defaults));
  for (int i = 0; i < argc; ++i) {
    if (fast[i]) continue;
    if (i < argc - default_count) return false;
    fast[i] = py::Owned<>::share(PyTuple_GET_ITEM(defaults, i - (argc - default_count)));
  }
  for (int i = argc; i < total; ++i) {
    if (fast[i]) continue;
    PyObject* kwdefaults = function->func_kwdefaults;
    if (kwdefaults == nullptr) return false;
    bool found = false;
    Result value = tracer.dict_get(kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, i), &found);
    if (!found) return false;
    fast[i] = std::move(value.value);
  }
  return true;
}

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

}  // namespace

// The newest frame is the call of an nn.Module from outside: nodes recorded below it say so (nn_module_stack).
void Executor::note_module(PyObject* module) {
  static PyObject* module_class = py::import_attr("torch.nn", "Module").release();
  PyTypeObject* type = Py_TYPE(module);
  if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(module_class))) return;
  const source::Source* source = source_of(module);
  if (source == nullptr) return;
  Frame& frame = *top_;
  frame.module_type = py::Owned<>::share(reinterpret_cast<PyObject*>(type));
  frame.module_path = module_path(source);
  frame.module_key = frame.module_path;
  const int before = module_calls_[frame.module_path]++;
  if (before > 0) frame.module_key.append("@").append(std::to_string(before));
}

Result Executor::inline_function(PyObject* callable, Args args) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) {
    unsupported(Reason::UntracedCallable, {{"callee", "the coroutine function " + describe(callable)}});
  }
  refuse_disabled(function);
  doing = "calls a function";
  const bool hidden = frames::is_hidden(code);
  if (!hidden) guard_function(callable);
  auto frame = new_frame(function, code);
  if (!bind_arguments(function, code, args, frame->fast, *this)) {
    if (hidden)  // of the builtin that the polyfill stands for: it has words of its own
      unsupported(Reason::BadArguments, {{"callee", "a builtin with these arguments"}});
    // The call cannot start, so nothing of the function runs: CPython itself words the error.
    auto impossible = py::Owned<>::steal(PyObject_Vectorcall(callable, args.values.data(), args.size(), args.kwnames));
    if (impossible) unsupported(Reason::Internal, {{"detail", "binding the arguments of " + describe(callable)}});
    return raise_pending(py::PythonError());
  }
  push_frame(std::move(frame));
  return Result::pushed(top_.get());
}

Result Executor::call_function(PyObject* function, Args args) {
  if (auto handler = handlers::find(function)) return handler(*this, function, args);
  if (handlers::is_torch_op(function)) {
    // torch.Tensor's Python-level methods are methods in the graph too, and keep their name.
    static PyObject* tensor_type = py::import_attr("torch", "Tensor").release();
    PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
    const bool method = args.size() > 0 && objects::cat_of(args[0]) == Cat::Tensor &&
                        py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor_type), name) == function;
    if (method) return torch_call(graph::Op::CallMethod, function, name, args);
    return torch_call(graph::Op::CallFunction, function, function, args);
  }
  return inline_function(function, args);
}

namespace {

bool is_c_method(PyObject* callable) {  // unbound, of a builtin type
  return Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
}

// A method that gets no instance of its type: CPython words the TypeError, no rule need look.
bool lacks_self(PyObject* callable, Args args) {
  if (!is_c_method(callable)) return false;
  return args.size() == 0 || !PyObject_TypeCheck(args[0], PyDescr_TYPE(callable));
}

// Arguments that a C method of this kind never gets to see: CPython raises before.
bool refused_by_kind(PyObject* descriptor, std::size_t count, bool keywords) {
  if (Py_IS_TYPE(descriptor, &PyWrapperDescr_Type)) {
    auto* slot = reinterpret_cast<PyWrapperDescrObject*>(descriptor)->d_base;
    return keywords && (slot->flags & PyWrapperFlag_KEYWORDS) == 0;
  }
  if (!Py_IS_TYPE(descriptor, &PyMethodDescr_Type)) return false;
  const int flags = reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method->ml_flags;
  if (keywords && (flags & METH_KEYWORDS) == 0) return true;
  if ((flags & METH_NOARGS) != 0) return count != 0;
  return (flags & METH_O) != 0 && count != 1;
}

// `dict.pop(ordered)`: what OrderedDict has of its own is left out, and its order is damaged.
bool passes_over_order(PyObject* callable, Args args) {
  if (!is_c_method(callable)) return false;
  return PyDescr_TYPE(callable) == &PyDict_Type && PyODict_Check(args[0]) &&
         py::type_lookup(&PyODict_Type, PyDescr_NAME(callable)) != callable;
}

// A method of a builtin type whose objects never change: it reads its arguments and nothing else.
bool is_value_method(PyObject* callable) {
  if (!is_c_method(callable)) return false;
  PyTypeObject* type = PyDescr_TYPE(callable);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyBool_Type || type == &PyRange_Type || type == Py_TYPE(Py_None) ||
         type == Py_TYPE(Py_NotImplemented);
}

}  // namespace

// CPython raises the TypeError, before the method does anything. What stands for a generator has other names.
Result Executor::complain(PyObject* callable, PyObject* self, Args args) {
  if (objects::is_generator(self)) unsupported(Reason::BadArguments, {{"callee", handlers::describe(callable)}});
  return handlers::run_native(*this, callable, args);
}

Result Executor::call_native(PyObject* callable, Args args) {
  if (lacks_self(callable, args)) return handlers::run_native(*this, callable, args);
  if (args.size() > 0 && refused_by_kind(callable, args.size() - 1, args.keyword_count() != 0))
    return complain(callable, args[0], args);
  if (passes_over_order(callable, args))
    unsupported(Reason::UntracedCallable, {{"callee", handlers::describe(callable) + " of an OrderedDict"}});
  if (auto handler = handlers::find(callable)) return handler(*this, callable, args);
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) && handlers::is_torch_op(callable)) {
    return torch_call(graph::Op::CallFunction, callable, callable, args);
  }
  // A bound C method: its descriptor is what has a rule.
  if (const py::BoundNative bound = py::bound_native(callable); bound.descriptor != nullptr) {
    if (refused_by_kind(bound.descriptor, args.size(), args.keyword_count() != 0))  // in words of the object's class
      return complain(callable, bound.self, args);
    // The object of a method that existed before did too; which one it is, the method's identity says.
    if (is_outside(callable) && !is_outside(original(bound.self))) saw_constant(bound.self);
    std::vector<PyObject*> values{objects::is_generator(bound.self) ? bound.self : original(bound.self)};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call_native(bound.descriptor, Args{values, args.kwnames});
  }
  if (is_c_method(callable) && args.size() > 0) {
    if (objects::cat_of(args[0]) == Cat::Tensor && handlers::is_torch_op(callable)) {
      auto name = py::take(PyObject_GetAttr(callable, names().__name__));
      return torch_call(graph::Op::CallMethod, callable, name.get(), args);
    }
    // A slot wrapper of a class without a rule of its own: the operator protocol has one.
    if (type == &PyWrapperDescr_Type) {
      bool known = false;
      Result r = slot_wrapper(callable, args, &known);
      if (known) return r;
    }
  }
  if (is_value_method(callable)) return handlers::pure(*this, callable, args);
  unsupported(Reason::UntracedCallable, {{"callee", describe(callable)}});
}

Result Executor::slot_wrapper(PyObject* callable, Args args, bool* known) {
  auto name_object = py::take(PyObject_GetAttr(callable, names().__name__));
  const std::string name = py::text_of(name_object.get());
  PyObject* self = args[0];
  *known = true;
  const std::size_t n = args.size();
  if (name == "__setattr__" && n == 3 && PyUnicode_Check(args[1]))
    return as_none(generic_setattr(self, args[1], args[2]));
  if (name == "__delattr__" && n == 2 && PyUnicode_Check(args[1]))
    return as_none(generic_setattr(self, args[1], nullptr));
  if (name == "__getattribute__" && n == 2 && PyUnicode_Check(args[1])) {
    if (objects::cat_of(self) == Cat::Type) return type_getattr(self, args[1]);
    if (objects::cat_of(self) == Cat::Module) return module_getattr(self, args[1]);
    return generic_getattr(self, args[1]);
  }
  if (name == "__init__" && PyDescr_TYPE(callable) == &PyBaseObject_Type) {
    if (args.values.size() > 1) return handlers::run_native(*this, callable, args);  // an error, mostly
    return Result::none();
  }
  if (name == "__init__" && PyExceptionInstance_Check(self) && !is_outside(self) &&
      reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type->tp_init ==
          reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_init) {
    return handlers::run_native(*this, callable, args);  // keeps its arguments
  }
  if (name == "__eq__" && n == 2 &&
      reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type == &PyBaseObject_Type) {
    return same(self, args[1]) ? Result::boolean(true) : Result::of(py::Owned<>::share(Py_NotImplemented));
  }
  if (objects::is_exact_builtin(Py_TYPE(self))) return builtin_slot(callable, name, args, known);
  *known = false;
  return Result::done();
}

// A special method of an exact builtin called by its name: the operator itself.
Result Executor::builtin_slot(PyObject* callable, std::string_view name, Args args, bool* known) {
  PyObject* self = args[0];
  const std::size_t n = args.size();
  const bool of_object = reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type == &PyBaseObject_Type;
  if (of_object && n == 1 && name == "__str__") return to_text(self, "__repr__");
  if (of_object && py::type_lookup(Py_TYPE(self), PyDescr_NAME(callable)) != callable) {  // not what the operator calls
    *known = false;
    return Result::done();
  }
  if (n == 1) {
    if (name == "__next__") return next(self);
    if (name == "__iter__") return iterate(self);
    if (name == "__len__") return length(self);
    if (name == "__bool__") return truth(self);
    if (name == "__repr__") return to_text(self, "__repr__");
    if (name == "__str__") return to_text(self, "__str__");
  }
  if (n == 2 && name == "__getitem__") return subscript(self, args[1]);
  if (n == 2 && name == "__contains__") return contains(self, args[1]);
  if (n == 2 && name == "__delitem__") return as_none(store_subscript(self, args[1], nullptr));
  if (n == 3 && name == "__setitem__") return as_none(store_subscript(self, args[1], args[2]));
  bool atoms = true;
  for (PyObject* value : args.values)
    atoms = atoms && objects::is_atom(objects::cat_of(value)) && objects::cat_of(value) != Cat::EnumMember;
  if (atoms) return handlers::pure(*this, callable, args);
  *known = false;
  return Result::done();
}

Result Executor::initialise_instance(py::Owned<> instance, PyObject* type, Args args) {
  PyObject* init = type_lookup(reinterpret_cast<PyTypeObject*>(type), names().__init__);
  if (init != nullptr && PyFunction_Check(init)) {
    std::vector<PyObject*> values{instance.get()};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return and_then(call(init, Args{values, args.kwnames}), Continuation(K::Init, instance.get()));
  }
  if (init == nullptr || Py_TYPE(init) != &PyWrapperDescr_Type) {
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__init__"}, {"type", Py_TYPE(instance.get())->tp_name}});
  }
  PyTypeObject* owner = reinterpret_cast<PyWrapperDescrObject*>(init)->d_common.d_type;
  if (owner == &PyBaseObject_Type) {
    const bool own_new = reinterpret_cast<PyTypeObject*>(type)->tp_new != PyBaseObject_Type.tp_new;
    if (!args.values.empty() && !own_new) {
      return raise(PyExc_TypeError,
                   std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + "() takes no arguments");
    }
    return Result::of(std::move(instance));
  }
  std::vector<PyObject*> values{instance.get()};
  values.insert(values.end(), args.values.begin(), args.values.end());
  return and_then(call_native(init, Args{values, args.kwnames}), Continuation(K::Init, instance.get()));
}

namespace {
// A class of Python code over a builtin type of values, with that type's __new__.
bool extends_value(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  for (PyTypeObject* base :
       {&PyLong_Type, &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type, &PyTuple_Type}) {
    if (PyType_IsSubtype(type, base)) return type->tp_new == base->tp_new;
  }
  return false;
}
}  // namespace

Result Executor::call_type(PyObject* callable, Args args) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  if (auto handler = handlers::find(callable)) {
    // A rule for the instances: making one only stores its arguments.
    if (handlers::is_instance_rule(type)) {
      if (PyType_IsSubtype(type, &_PyWeakref_RefType) && args.values.size() != 1)
        unsupported(Reason::WeakReference, {{"callee", "a weak reference with a callback"}});
      if (PyType_IsSubtype(type, &_PyWeakref_RefType) && objects::is_generator(original(args[0])))
        unsupported(Reason::WeakReference, {{"callee", "a weak reference to a generator"}});
      return handlers::run_native(*this, callable, args);
    }
    return handler(*this, callable, args);
  }
  PyTypeObject* metatype = Py_TYPE(type);
  if (metatype != &PyType_Type) {
    PyObject* meta_call = type_lookup(metatype, names().__call__);
    if (meta_call != nullptr) {
      std::vector<PyObject*> values{callable};
      values.insert(values.end(), args.values.begin(), args.values.end());
      if (auto handler = handlers::find(meta_call)) return handler(*this, meta_call, Args{values, args.kwnames});
      if (PyFunction_Check(meta_call)) return call(meta_call, Args{values, args.kwnames});
    }
  }
  return make_instance(callable, args);
}

Result Executor::make_instance(PyObject* callable, Args args) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  doing = "makes an instance";
  const Cat cat = objects::cat_of(type);
  PyObject* made_by = type_lookup(type, names().__new__);
  const bool makes_class = PyType_IsSubtype(type, &PyType_Type) != 0;
  if (made_by == nullptr || cat == Cat::Tensor || (cat == Cat::Type && !makes_class) || cat == Cat::Module) {
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  }
  PyObject* function = made_by;
  py::Owned<> unwrapped;
  if (Py_IS_TYPE(made_by, &PyStaticMethod_Type)) {
    unwrapped = py::take(PyObject_GetAttrString(made_by, "__func__"));
    function = unwrapped.get();
    saw_constant(function);
  }
  if (PyFunction_Check(function) || makes_class) {
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
    for (std::size_t i = 0; i < args.values.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
    return and_then(call(function, Args{values, args.kwnames}),
                    Continuation(K::NewThenInit, callable, tuple.get(), args.kwnames));
  }
  if (PyType_IsSubtype(type, &PyProperty_Type)) {
    // Properties only store their arguments.
    auto property = py::Owned<>::steal(type->tp_new(type, py::take(PyTuple_New(0)).get(), nullptr));
    if (!property) return raise_pending(py::PythonError());
    return initialise_instance(std::move(property), callable, args);
  }
  const bool exception_class = PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
  if (!PyCFunction_Check(function) || (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !exception_class)) {
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  }
  if (extends_value(type)) {  // int.__new__(Type, …), then an __init__ of the class
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    auto given = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
    for (std::size_t i = 0; i < args.values.size(); ++i)
      PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
    const auto rule = handlers::find(function);
    Result made = (rule != nullptr ? rule : handlers::pure)(*this, function, Args{values, args.kwnames});
    return and_then(std::move(made), Continuation(K::NewThenInit, callable, given.get(), args.kwnames));
  }
  if (cat == Cat::Other) unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  if (py::type_lookup(type, names().__del__) != nullptr) {
    unsupported(Reason::Finalizer, {{"type", type->tp_name}});
  }
  if (exception_class && py::type_lookup(type, names().__init__) != nullptr &&
      !PyFunction_Check(py::type_lookup(type, names().__init__))) {
    std::vector<PyObject*> values(args.values.begin(), args.values.end());
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0) {
      for (PyObject*& value : values) value = touch(original(value));
    }
    return handlers::run_native(*this, callable, Args{values, args.kwnames});  // keeps its arguments
  }
  py::Owned<> instance;
  auto empty = py::take(PyTuple_New(0));
  if (cat == Cat::Tuple || cat == Cat::FrozenSet || cat == Cat::Number || cat == Cat::Text) {
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  }
  if (exception_class) {
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
    for (std::size_t i = 0; i < args.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    instance = py::Owned<>::steal(type->tp_new(type, tuple.get(), nullptr));
  } else {
    instance = py::Owned<>::steal(
        type->tp_new(type, empty.get(), nullptr));  // object, list, dict, set: the arguments are __init__'s
  }
  if (!instance) return raise_pending(py::PythonError());
  return initialise_instance(std::move(instance), callable, args);
}

Result Executor::call_ex(PyObject* callable, PyObject* positional, PyObject* kwargs) {
  auto tuple = native_elements(positional);
  if (!tuple) {
    // Iterating runs Python code: a polyfill makes a list first.
    return and_then(call_polyfill(objects::has_python_length(*this, positional) ? "list_of_sized" : "list_from",
                                  std::span<PyObject* const>(&positional, 1)),
                    Continuation(K::CallEx, callable, kwargs));
  }
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) values.push_back(PyTuple_GET_ITEM(tuple.get(), i));
  py::Owned<> kwnames;
  std::vector<std::pair<py::Owned<>, py::Owned<>>> named;
  if (kwargs != nullptr) {
    if (objects::cat_of(kwargs) != Cat::Dict)
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "**kwargs"}, {"type", Py_TYPE(kwargs)->tp_name}});
    named = objects::entries_now(touch(kwargs));
    if (!named.empty()) kwnames = py::take(PyTuple_New(static_cast<Py_ssize_t>(named.size())));
    Py_ssize_t i = 0;
    for (const auto& [key, value] : named) {
      if (!PyUnicode_Check(key.get())) return raise(PyExc_TypeError, "keywords must be strings");
      PyTuple_SET_ITEM(kwnames.get(), i++, Py_NewRef(key.get()));
      values.push_back(value.get());
    }
  }
  return call(callable, Args{values, kwnames.get()});
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

Result Executor::call(PyObject* callable, Args args) {
  const CountedCall counted(calls_);
  PyTypeObject* type = Py_TYPE(callable);
  if (reorderable && handlers::is_reorderable(*this, callable, args.size() > 0 ? args[0] : nullptr))
    return handlers::reorder(*this, callable, args);
  if (type == &PyFunction_Type) return call_function(callable, args);
  if (type == &PyMethod_Type) {
    auto function = native_attribute(callable, names().dunder_func);
    auto self = native_attribute(callable, names().__self__);
    std::vector<PyObject*> values{self.value.get()};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call(function.value.get(), Args{values, args.kwnames});
  }
  if (PyType_Check(callable)) return call_type(callable, args);
  if (objects::cat_of(type) == Cat::Builtin) return call_native(callable, args);
  if (const auto original = objects::original_of_compiled(callable); original.function != nullptr) {
    saw_constant(original.function);
    if (!original.fullgraph) return call(original.function, args);
    std::vector<PyObject*> values{original.function};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call_polyfill("call_without_breaks", Args{values, args.kwnames});
  }
  if (auto handler = handlers::find(callable)) return handler(*this, callable, args);
  if (auto handler = handlers::find(reinterpret_cast<PyObject*>(type))) {
    // Rules for instances of a type: functools.partial, lru_cache wrappers, torch operators. The type row is told by
    // the callable's identity.
    if (handlers::is_instance_rule(type)) return handler(*this, callable, args);
  }
  if (handlers::is_torch_op(callable)) return torch_call(graph::Op::CallFunction, callable, callable, args);
  PyObject* method = type_lookup(type, names().__call__);
  if (method != nullptr && PyFunction_Check(method)) {
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    Result result = call(method, Args{values, args.kwnames});
    if (result.did == Result::Did::Pushed) note_module(callable);
    return result;
  }
  if (method == nullptr) {
    return raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not callable");
  }
  if (!Py_IS_TYPE(method, &PyWrapperDescr_Type)) {
    Result bound = bind(method, callable, reinterpret_cast<PyObject*>(type));
    if (bound.is_value()) return call(bound.value.get(), args);
  }
  unsupported(Reason::UntracedCallable, {{"callee", std::string("an instance of ") + type->tp_name}});
}

}  // namespace pellucid::trace

namespace pellucid::objects {

namespace {
void hide(PyCodeObject* code) {
  frames::hide_code(code);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* inner = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(inner)) hide(reinterpret_cast<PyCodeObject*>(inner));
  }
}

PyObject* polyfill(const char* name) {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    module = py::module_named("pellucid.polyfills");
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(PyModule_GetDict(module), &position, &key, &value)) {
      if (PyFunction_Check(value)) hide(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(value)));
    }
  }
  PyObject* function = PyDict_GetItemString(PyModule_GetDict(module), name);
  if (function == nullptr) throw GraphBreak(Reason::Internal, {{"detail", std::string("no polyfill ") + name}});
  return function;
}
}  // namespace

Result Tracer::call_polyfill(const char* name, std::span<PyObject* const> args) {
  return inline_function(polyfill(name), Args{args, nullptr});
}

Result Tracer::call_polyfill(const char* name, Args args) { return inline_function(polyfill(name), args); }

}  // namespace pellucid::objects
