// Calls of classes.
#include "aten/placement.h"
#include "protocols/policies.h"
#include "protocols/protocols.h"
#include "protocols/table.h"
#include "py/cpython.h"
#include "region/subclasses.h"

namespace pellucid::protocols {

using K = Continuation::Kind;

Result initialise_instance(Interpreter& t, py::Owned<> instance, PyObject* type, Args args) {
  PyObject* init = t.region.lookups.type_lookup(reinterpret_cast<PyTypeObject*>(type), region::names().__init__);
  if (init != nullptr && PyFunction_Check(init)) {
    std::vector<PyObject*> values{instance.get()};
    values.insert(values.end(), args.values.begin(), args.values.end());
    return t.and_then(call(t, init, Args{values, args.kwnames}), Continuation(K::Init, instance.get()));
  }
  if (init == nullptr || Py_TYPE(init) != &PyWrapperDescr_Type) {
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__init__"}, {"type", Py_TYPE(instance.get())->tp_name}});
  }
  PyTypeObject* owner = reinterpret_cast<PyWrapperDescrObject*>(init)->d_common.d_type;
  if (owner == &PyBaseObject_Type) {
    const bool own_new = reinterpret_cast<PyTypeObject*>(type)->tp_new != PyBaseObject_Type.tp_new;
    if (!args.values.empty() && !own_new) {
      return t.raise(PyExc_TypeError,
                     std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + "() takes no arguments");
    }
    return Result::of(std::move(instance));
  }
  std::vector<PyObject*> values{instance.get()};
  values.insert(values.end(), args.values.begin(), args.values.end());
  return t.and_then(call_native(t, init, Args{values, args.kwnames}), Continuation(K::Init, instance.get()));
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

// Whether weakref.ref(target) gives a reference that is there.
bool has_plain_reference(PyObject* target) noexcept {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(target))) return false;
  const auto* first = *reinterpret_cast<PyWeakReference* const*>(PyObject_GET_WEAKREFS_LISTPTR(target));
  return first != nullptr && first->wr_callback == nullptr && Py_IS_TYPE(first, &_PyWeakref_RefType);
}

// Two references without a callback to one object are one object. Where the program has it already, in an argument
// say, it stands for the target at this call only.
Result make_weak_reference(Interpreter& t, PyObject* callable, Args args) {
  if (args.values.size() != 1) unsupported(Reason::WeakReference, {{"callee", "a weak reference with a callback"}});
  PyObject* target = t.region.shadows.original(args[0]);
  if (is_generator(target)) unsupported(Reason::WeakReference, {{"callee", "a weak reference to a generator"}});
  const bool existed = has_plain_reference(target);
  Result made = run_native(t, callable, args);
  if (!made.is_value()) return made;
  region::Provenance& provenance = t.region.provenance;
  PyObject* reference = made.value.get();
  if (!existed) {
    provenance.note_made(reference);
  } else if (!provenance.is_made(reference)) {
    provenance.note_constant(reference);
    provenance.guard_identity(reference);
    if (provenance.is_outside(target)) provenance.guard_identity(target);
  }
  return made;
}

}  // namespace

Result call_type(Interpreter& t, PyObject* callable, Args args) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  if (auto handler = find(callable)) {
    // A rule for the instances: making one only stores its arguments.
    if (is_instance_rule(type)) {
      if (PyType_IsSubtype(type, &_PyWeakref_RefType)) return make_weak_reference(t, callable, args);
      return run_native(t, callable, args);
    }
    return handler(t, callable, args);
  }
  PyTypeObject* metatype = Py_TYPE(type);
  if (metatype != &PyType_Type) {
    PyObject* meta_call = t.region.lookups.type_lookup(metatype, region::names().__call__);
    if (meta_call != nullptr) {
      std::vector<PyObject*> values{callable};
      values.insert(values.end(), args.values.begin(), args.values.end());
      if (auto handler = find(meta_call)) return handler(t, meta_call, Args{values, args.kwnames});
      if (PyFunction_Check(meta_call)) return call(t, meta_call, Args{values, args.kwnames});
    }
  }
  return make_instance(t, callable, args);
}

namespace {

// torch.return_types.max and its like: C code makes them of the elements of one sequence.
bool is_named_result(PyTypeObject* type) {
  static PyObject* const count = py::interned("n_sequence_fields").release();
  return PyType_IsSubtype(type, &PyTuple_Type) && type->tp_base == &PyTuple_Type &&
         py::type_lookup(type, count) != nullptr && py::type_lookup(type, region::names().__new__) != nullptr &&
         PyCFunction_Check(py::type_lookup(type, region::names().__new__));
}

Result make_named_result(Interpreter& t, PyObject* type, Args args) {
  const auto items = protocols::native_elements(t, args[0]);
  PyObject* values[] = {type, args[0]};
  if (!items) return call_polyfill(t, "made_of_items", values);
  values[0] = items.get();
  return run_native(t, type, Args{{values, 1}, nullptr});
}

}  // namespace

Result make_instance(Interpreter& t, PyObject* callable, Args args) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  t.region.doing = "makes an instance";
  if (args.size() == 1 && args.keyword_count() == 0 && is_named_result(type))
    return make_named_result(t, callable, args);
  const Cat cat = cat_of(type);
  if (aten::is_placement_type(type)) return pure(t, callable, args);
  PyObject* made_by = t.region.lookups.type_lookup(type, region::names().__new__);
  const bool makes_class = PyType_IsSubtype(type, &PyType_Type) != 0;
  const bool of_torch = cat == Cat::Tensor && !region::is_derived(type);
  if (made_by == nullptr || of_torch || (cat == Cat::Type && !makes_class) || cat == Cat::Module) {
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  }
  if (cat == Cat::Tensor && region::is_wrapper_class(type) && !t.region.provenance.is_made(callable))
    return t.region.recorder.torch_call(graph::Op::CallFunction, callable, callable, args);
  PyObject* function = made_by;
  py::Owned<> unwrapped;
  if (Py_IS_TYPE(made_by, &PyStaticMethod_Type)) {
    unwrapped = py::take(PyObject_GetAttrString(made_by, "__func__"));
    function = unwrapped.get();
    t.region.provenance.note_constant(function);
  }
  if (PyFunction_Check(function) || makes_class) {
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
    for (std::size_t i = 0; i < args.values.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
    return t.and_then(call(t, function, Args{values, args.kwnames}),
                      Continuation(K::NewThenInit, callable, tuple.get(), args.kwnames));
  }
  if (PyType_IsSubtype(type, &PyProperty_Type)) {
    // Properties only store their arguments.
    auto property = py::Owned<>::steal(type->tp_new(type, py::take(PyTuple_New(0)).get(), nullptr));
    if (!property) return t.raise_pending(py::PythonError());
    return initialise_instance(t, std::move(property), callable, args);
  }
  const bool exception_class = PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
  if (!PyCFunction_Check(function) || (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !exception_class)) {
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  }
  if (extends_value(type) || cat == Cat::Tensor) {  // int.__new__(Type, …), then an __init__ of the class
    std::vector<PyObject*> values{callable};
    values.insert(values.end(), args.values.begin(), args.values.end());
    auto given = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
    for (std::size_t i = 0; i < args.values.size(); ++i)
      PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
    const auto rule = find(function);
    Result made = (rule != nullptr ? rule : pure)(t, function, Args{values, args.kwnames});
    return t.and_then(std::move(made), Continuation(K::NewThenInit, callable, given.get(), args.kwnames));
  }
  if (cat == Cat::Other) unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  if (py::type_lookup(type, region::names().__del__) != nullptr) {
    unsupported(Reason::Finalizer, {{"type", type->tp_name}});
  }
  if (exception_class && py::type_lookup(type, region::names().__init__) != nullptr &&
      !PyFunction_Check(py::type_lookup(type, region::names().__init__))) {
    std::vector<PyObject*> values(args.values.begin(), args.values.end());
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0) {
      for (PyObject*& value : values) value = t.region.reads.touch(t.region.shadows.original(value));
    }
    return run_native(t, callable, Args{values, args.kwnames});  // keeps its arguments
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
    // object, list, dict, set: the arguments are __init__'s. Where nobody takes any, that is said before all else.
    const bool are_too_many = !args.values.empty() && type->tp_new == PyBaseObject_Type.tp_new &&
                              t.region.lookups.type_lookup(type, region::names().__init__) ==
                                  py::type_lookup(&PyBaseObject_Type, region::names().__init__);
    const auto given = are_too_many ? py::take(PyTuple_Pack(1, Py_None)) : empty.copy();
    instance = py::Owned<>::steal(type->tp_new(type, given.get(), nullptr));
  }
  if (!instance) return t.raise_pending(py::PythonError());
  return initialise_instance(t, std::move(instance), callable, args);
}

}  // namespace pellucid::protocols
