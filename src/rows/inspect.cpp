// Questions about functions and classes: inspect, typing, mapping proxies, weak references.
#include <algorithm>

#include "py/cpython.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

using region::names;

// What inspect reads of a function besides its code and defaults. It reads the real one, which has nothing of what the
// region has written.
void guard_described(Interpreter& t, PyObject* f, PyObject* function) {
  t.region.provenance.guard_function(function);
  PyObject* dict = py::instance_dict_if_any(function);
  PyObject* wrapped = t.region.lookups.instance_get(function, names().__wrapped__);
  const bool plain = t.region.lookups.instance_get(function, py::interned("__signature__").get()) == nullptr &&
                     (dict == nullptr || !t.region.shadows.is_shadowed(dict)) &&
                     (wrapped == nullptr || PyFunction_Check(wrapped));
  const Result annotations = protocols::getattr(t, function, names().__annotations__);
  if (!plain || !annotations.is_value() || !PyDict_CheckExact(annotations.value.get()))
    unsupported(Reason::Reflection, {{"callee", describe(f) + " of a function with attributes of its own"}});
  const Contents inside = t.region.reads.deep_touch(annotations.value.get());
  if (inside.shadowed || t.region.shadows.is_shadowed(t.region.shadows.original(annotations.value.get())))
    unsupported(Reason::Reflection, {{"callee", describe(f) + " of a function with new annotations"}});
  if (wrapped != nullptr) guard_described(t, f, wrapped);
}

Result about_constant(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    const Cat cat = region::cat_of(value);
    const bool fixed =
        cat == Cat::Type && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(value), Py_TPFLAGS_HEAPTYPE);
    if (region::is_atom(cat) || fixed || cat == Cat::Builtin) continue;
    if (cat == Cat::Function && t.region.provenance.is_outside(value)) {
      guard_described(t, f, value);
      continue;
    }
    if (cat == Cat::BoundMethod) {
      Result function = protocols::getattr(t, value, names().dunder_func);
      if (function.is_value() && t.region.provenance.is_outside(function.value.get())) {
        guard_described(t, f, function.value.get());
        continue;
      }
    }
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  }
  auto value = py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), args.size(), args.kwnames));
  if (!value) return t.raise_pending(py::PythonError());
  t.region.provenance.note_constant(value.get());
  return Result::of(std::move(value));
}

// Of types and their aliases Python's own functions are followed, which look at nothing but attributes.
Result about_type(Interpreter& t, PyObject* f, Args args) {
  const auto is_plain = [](PyObject* value) { return region::is_atom(region::cat_of(value)); };
  return std::ranges::all_of(args.values, is_plain) ? about_constant(t, f, args) : t.inline_function(f, args);
}

// A mappingproxy over a mapping that is part of an object known by identity (inspect.Signature.parameters): read
// natively, its parts are constants as it is.
Result proxy_method(Interpreter& t, PyObject* f, Args args) {
  const region::Source* source = args.size() >= 1 ? t.region.provenance.source_of(args[0]) : nullptr;
  // Signature.parameters is the proxy whose mapping nobody can change; a class's __dict__ is not.
  const bool parameters = source != nullptr && source->operand && PyUnicode_Check(source->operand.get()) &&
                          PyUnicode_CompareWithASCIIString(source->operand.get(), "_parameters") == 0;
  if (source == nullptr || !(parameters || source->step == source::Step::Const))
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  t.region.provenance.guard_identity(args[0]);
  auto items = py::take(PyMapping_Items(args[0]));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(items.get(), i);
    t.region.provenance.note_constant(PyTuple_GET_ITEM(pair, 0));
    t.region.provenance.note_constant(PyTuple_GET_ITEM(pair, 1));
  }
  return run_native(t, f, args);
}

// A weak reference never changes its target, so the reference's identity settles what it gives while the target lives.
Result weakref_call(Interpreter& t, PyObject* self, Args args) {
  PyObject* target = PyWeakref_GetObject(self);
  const region::Source* source = t.region.provenance.source_of(self);
  if (t.region.drops.may_have_held(target))
    unsupported(Reason::WeakReference, {{"callee", "a weak reference after an object was dropped"}});
  if (args.values.size() == 0 && t.region.provenance.is_made(self) && t.region.provenance.is_outside(target) &&
      t.region.provenance.source_of(target) != nullptr)
    return Result::of(py::Owned<>::share(target));
  if (args.values.size() != 0 || target == Py_None || source == nullptr || !t.region.provenance.is_outside(target)) {
    unsupported(Reason::WeakReference, {{"callee", "a weak reference to something that the region has not met"}});
  }
  t.region.provenance.guard_identity(self);
  return Result::of(py::Owned<>::share(target));
}

Result cast(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return Result::of(py::Owned<>::share(args[1]));
}

const Row rows[] = {
    {"instances of weakref.ReferenceType", weakref_call},
    {"inspect.signature", about_constant},
    {"inspect.getfullargspec", about_constant},
    {"typing.get_args", about_type},
    {"typing.get_origin", about_type},
    {"typing.cast", cast, true, true},
    {"types.MappingProxyType.keys", proxy_method},
    {"types.MappingProxyType.values", proxy_method},
    {"types.MappingProxyType.items", proxy_method},
    {"types.MappingProxyType.get", proxy_method},
    {"types.MappingProxyType.__len__", proxy_method},
    {"types.MappingProxyType.__getitem__", proxy_method},
    {"types.MappingProxyType.__contains__", proxy_method},
    {"types.MappingProxyType.__iter__", proxy_method},
};

}  // namespace

const std::span<const Row> kInspectRows = rows;

}  // namespace pellucid::rows
