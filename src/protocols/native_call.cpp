// Calls of C code: functions with a rule, torch operations, special methods of builtin types by their names.
#include "protocols/policies.h"
#include "protocols/protocols.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "region/arrays.h"

namespace pellucid::protocols {
namespace {

bool is_c_method(PyObject* callable) {  // unbound, of a builtin type
  return Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
}

// A method that gets no instance of its type: CPython words the TypeError, no rule need look.
bool lacks_self(PyObject* callable, Args args) {
  if (!is_c_method(callable)) return false;
  return args.size() == 0 || !PyObject_TypeCheck(region::of_presented_type(args[0]).get(), PyDescr_TYPE(callable));
}

Result call_without_self(Interpreter& t, PyObject* callable, Args args) {
  if (args.size() == 0) return run_native(t, callable, args);
  const auto presented = region::of_presented_type(args[0]);
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  values[0] = presented.get();
  return run_native(t, callable, Args{values, args.kwnames});
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

// CPython raises the TypeError, before the method does anything. What stands for a generator has other names.
Result complain(Interpreter& t, PyObject* callable, PyObject* self, Args args) {
  if (is_generator(self)) unsupported(Reason::BadArguments, {{"callee", describe(callable)}});
  return run_native(t, callable, args);
}

// A special method of an exact builtin called by its name: the operator itself.
Result builtin_slot(Interpreter& t, PyObject* callable, std::string_view name, Args args, bool* known) {
  PyObject* self = args[0];
  const std::size_t n = args.size();
  const bool of_object = reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type == &PyBaseObject_Type;
  if (of_object && n == 1 && name == "__str__") return to_text(t, self, "__repr__");
  if (of_object && py::type_lookup(Py_TYPE(self), PyDescr_NAME(callable)) != callable) {  // not what the operator calls
    *known = false;
    return Result::done();
  }
  if (n == 1) {
    if (name == "__next__") return next(t, self);
    if (name == "__iter__") return iterate(t, self);
    if (name == "__len__") return length(t, self);
    if (name == "__bool__") return truth(t, self);
    if (name == "__repr__") return to_text(t, self, "__repr__");
    if (name == "__str__") return to_text(t, self, "__str__");
  }
  if (n == 2 && name == "__getitem__") return subscript(t, self, args[1]);
  if (n == 2 && name == "__contains__") return contains(t, self, args[1]);
  if (n == 2 && name == "__delitem__") return as_none(store_subscript(t, self, args[1], nullptr));
  if (n == 3 && name == "__setitem__") return as_none(store_subscript(t, self, args[1], args[2]));
  bool atoms = true;
  for (PyObject* value : args.values) atoms = atoms && is_atom(cat_of(value)) && cat_of(value) != Cat::EnumMember;
  if (atoms) return pure(t, callable, args);
  *known = false;
  return Result::done();
}

Result slot_wrapper(Interpreter& t, PyObject* callable, Args args, bool* known) {
  auto name_object = py::take(PyObject_GetAttr(callable, region::names().__name__));
  const std::string name = py::text_of(name_object.get());
  PyObject* self = args[0];
  *known = true;
  const std::size_t n = args.size();
  if (PyObject* set = n == 3 && name == "__setattr__" ? t.region.numbers.plain(args[1]) : nullptr;
      set != nullptr && PyUnicode_Check(set))
    return as_none(generic_setattr(t, self, set, args[2]));
  if (name == "__delattr__" && n == 2 && PyUnicode_Check(args[1]))
    return as_none(generic_setattr(t, self, args[1], nullptr));
  if (name == "__getattribute__" && n == 2 && PyUnicode_Check(args[1])) {
    if (cat_of(self) == Cat::Type) return type_getattr(t, self, args[1]);
    if (cat_of(self) == Cat::Module) return module_getattr(t, self, args[1]);
    return generic_getattr(t, self, args[1]);
  }
  if (name == "__init__" && PyDescr_TYPE(callable) == &PyBaseObject_Type) {
    if (args.values.size() > 1) return run_native(t, callable, args);  // an error, mostly
    return Result::none();
  }
  if (name == "__init__" && PyExceptionInstance_Check(self) && !t.region.provenance.is_outside(self) &&
      reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type->tp_init ==
          reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_init) {
    return run_native(t, callable, args);  // keeps its arguments
  }
  if (name == "__eq__" && n == 2 &&
      reinterpret_cast<PyWrapperDescrObject*>(callable)->d_common.d_type == &PyBaseObject_Type) {
    return t.region.reads.same(self, args[1]) ? Result::boolean(true)
                                              : Result::of(py::Owned<>::share(Py_NotImplemented));
  }
  if (is_exact_builtin(Py_TYPE(self))) return builtin_slot(t, callable, name, args, known);
  *known = false;
  return Result::done();
}

}  // namespace

Result call_native(Interpreter& t, PyObject* callable, Args args) {
  if (lacks_self(callable, args)) return call_without_self(t, callable, args);
  if (args.size() > 0 && refused_by_kind(callable, args.size() - 1, args.keyword_count() != 0))
    return complain(t, callable, args[0], args);
  if (passes_over_order(callable, args))
    unsupported(Reason::UntracedCallable, {{"callee", describe(callable) + " of an OrderedDict"}});
  if (is_torch_op(callable)) {
    if (auto answer = by_torch_function(t, callable, args)) return std::move(*answer);
  }
  if (auto handler = find(callable)) return handler(t, callable, args);
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) && is_torch_op(callable)) {
    return t.region.recorder.torch_call(graph::Op::CallFunction, callable, callable, args);
  }
  // A bound C method: its descriptor is what has a rule.
  if (const py::BoundNative bound = py::bound_native(callable); bound.descriptor != nullptr) {
    if (refused_by_kind(bound.descriptor, args.size(), args.keyword_count() != 0))  // in words of the object's class
      return complain(t, callable, bound.self, args);
    // The object of a method that existed before did too; which one it is, the method's identity says.
    if (t.region.provenance.is_outside(callable) &&
        !t.region.provenance.is_outside(t.region.shadows.original(bound.self)))
      t.region.provenance.note_constant(bound.self);
    std::vector<PyObject*> values{is_generator(bound.self) ? bound.self : t.region.shadows.original(bound.self)};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return call_native(t, bound.descriptor, Args{values, args.kwnames});
  }
  if (is_c_method(callable) && args.size() > 0) {
    if (cat_of(args[0]) == Cat::Tensor && is_torch_op(callable)) {
      auto name = py::take(PyObject_GetAttr(callable, region::names().__name__));
      return t.region.recorder.torch_call(graph::Op::CallMethod, callable, name.get(), args);
    }
    // A slot wrapper of a class without a rule of its own: the operator protocol has one.
    if (type == &PyWrapperDescr_Type) {
      bool known = false;
      Result r = slot_wrapper(t, callable, args, &known);
      if (known) return r;
    }
  }
  if (is_value_method(callable)) return pure(t, callable, args);
  unsupported(Reason::UntracedCallable, {{"callee", describe(callable)}});
}

}  // namespace pellucid::protocols
