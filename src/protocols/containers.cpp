#include "protocols/containers.h"

#include "aten/torch_function.h"
#include "bytecode/opcodes.h"
#include "guards/equality.h"
#include "protocols/arrays.h"
#include "protocols/numbers.h"
#include "protocols/protocols.h"
#include "protocols/tensor_items.h"
#include "protocols/torch_function.h"
#include "protocols/type_expressions.h"
#include "py/cpython.h"
#include "py/iterators.h"
#include "py/keys.h"
#include "region/arrays.h"
#include "region/generator.h"
#include "region/names.h"
#include "region/process.h"
#include "region/snapshot.h"
#include "region/subclasses.h"

namespace pellucid::protocols {

using K = Continuation::Kind;
namespace {

PyObject* operator_function(const char* name) { return py::import_attr("operator", name).release(); }

// Subscripting a class of typing makes an alias of it: native, nothing of the user's runs.
bool is_typing(PyObject* cls) {
  static PyObject* const generic = py::import_attr("typing", "Generic").release();
  static PyObject* const name = py::interned("__class_getitem__").release();
  return py::type_lookup(reinterpret_cast<PyTypeObject*>(cls), name) ==
         py::type_lookup(reinterpret_cast<PyTypeObject*>(generic), name);
}

// Of a tensor whose class is the program's, the class says what an operation does, as that of any instance; a mode says
// so of every tensor.
Cat category(const Interpreter& t, PyObject* value) {
  const Cat cat = cat_of(value);
  return cat == Cat::Tensor && is_answered(t, value) ? Cat::Instance : cat;
}

// The usual keys are told apart by a flag of their type.
bool is_array(PyObject* key) { return !PyUnicode_Check(key) && !PyLong_Check(key) && cat_of(key) == Cat::Array; }

bool is_container_class(Cat cat) {
  return cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Set || cat == Cat::FrozenSet ||
         cat == Cat::Deque;
}

bool python_slot(Interpreter& t, PyObject* value, PyObject* name) {
  PyObject* found = t.region.lookups.type_lookup(Py_TYPE(value), name);
  if (found == nullptr || found == Py_None) return false;
  // `__contains__ = dict.get` is no slot of C's either; torch's methods have many names.
  if (Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type))
    return PyDescr_NAME(found) != name && cat_of(value) != Cat::Tensor;
  return is_container_class(cat_of(value)) || PyFunction_Check(found);
}

[[noreturn]] void refuse_outside(PyObject* iterator) {
  unsupported(Reason::OutsideIterator,
              {{"type", std::string(Py_TYPE(iterator)->tp_name) + " from outside of the region"}});
}

}  // namespace

Result truth(Interpreter& t, PyObject* value) {
  if (std::optional<Result> number = number_truth(t, value)) return std::move(*number);
  t.region.doing = "tests the truth";
  value = t.region.shadows.original(t.region.numbers.plain(value));
  if (value == Py_True || value == Py_False) return Result::of(py::Owned<>::share(value));
  const Cat cat = category(t, value);
  t.region.doing = "tests the truth";
  switch (cat) {
    case Cat::Singleton:
    case Cat::Number:
    case Cat::Text:
    case Cat::Range: {
      const int yes = PyObject_IsTrue(value);
      py::check(yes);
      return Result::boolean(yes == 1);
    }
    case Cat::Other: {
      if (!region::is_numpy_scalar(value)) break;
      const int yes = PyObject_IsTrue(value);
      py::check(yes);
      return Result::boolean(yes == 1);
    }
    case Cat::List:
    case Cat::Tuple:
    case Cat::Dict:
    case Cat::Set:
    case Cat::FrozenSet:
    case Cat::Deque: {
      if (python_slot(t, value, region::names().__bool__) || python_slot(t, value, region::names().__len__)) break;
      return Result::boolean(t.region.reads.length_of(value) != 0);
    }
    case Cat::Array:
      return array_truth(t, value);
    case Cat::Tensor: {
      if (const auto known = is_answered(t, value) ? std::nullopt : t.region.foresight.truth(value))
        return Result::boolean(*known);
      PyObject* args[] = {value};
      static PyObject* descriptor = PyObject_GetAttrString(py::import_attr("torch", "Tensor").release(), "__bool__");
      auto name = py::interned("__bool__");
      return t.region.recorder.torch_call(graph::Op::CallMethod, descriptor, name.get(), Args{args, nullptr});
    }
    case Cat::Function:
    case Cat::Builtin:
    case Cat::Module:
    case Cat::BoundMethod:
    case Cat::Code:
    case Cat::Cell:
    case Cat::Generator:
    case Cat::TorchAtom:
      return Result::boolean(true);
    case Cat::Type:
      if (Py_TYPE(value) == &PyType_Type) return Result::boolean(true);
      break;
    default:
      break;
  }
  std::uint8_t stage = 0;
  for (const char* name : {"__bool__", "__len__"}) {
    ++stage;
    if (t.region.lookups.type_lookup(Py_TYPE(value), name) == nullptr) continue;
    Continuation as_bool(K::Bool);
    as_bool.stage = stage;
    return t.and_then(special(t, value, name, {}), std::move(as_bool));
  }
  PyTypeObject* type = Py_TYPE(value);
  const bool native = (type->tp_as_number != nullptr && type->tp_as_number->nb_bool != nullptr) ||
                      (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_length != nullptr) ||
                      (type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_length != nullptr);
  if (native) unsupported(Reason::UnsupportedProtocol, {{"protocol", "truth"}, {"type", type->tp_name}});
  return Result::boolean(true);
}

Result length(Interpreter& t, PyObject* value) {
  value = t.region.shadows.original(value);
  if (is_polyfill(value)) unsupported(Reason::UnsupportedProtocol, {{"protocol", "len"}, {"type", "builtin iterator"}});
  t.region.doing = "reads the length";
  if (auto view = t.region.iterators.view(value)) return length(t, view.get());
  const Cat cat = category(t, value);
  const auto has_length_of_tensors = [&] {
    return !has_torch_function(t, value) && t.region.lookups.type_lookup(Py_TYPE(value), region::names().__len__) ==
                                                py::type_lookup(aten::tensor_type(), region::names().__len__);
  };
  const bool wraps = cat_of(value) == Cat::Tensor && region::is_wrapper_subclass(value) && has_length_of_tensors();
  if (cat == Cat::Tensor || wraps) {
    auto sizes = getattr(t, value, region::names().shape);
    if (PyTuple_GET_SIZE(sizes.value.get()) == 0) return t.raise(PyExc_TypeError, "len() of a 0-d tensor");
    return Result::of(py::Owned<>::share(PyTuple_GET_ITEM(sizes.value.get(), 0)));
  }
  if (cat == Cat::Array) return array_length(t, value);
  if (cat != Cat::Type && !python_slot(t, value, region::names().__len__)) {
    const std::int64_t n = t.region.reads.length_of(value);
    if (n >= 0) return Result::of(py::take(PyLong_FromLongLong(n)));
    if (cat == Cat::Range ||
        (cat == Cat::Iterator && PyObject_HasAttr(value, region::names().__len__))) {  // or a dict view
      const Py_ssize_t size = PyObject_Length(value);
      if (size < 0) return t.raise_pending(py::PythonError());  // more than a Py_ssize_t holds
      return Result::of(py::take(PyLong_FromSsize_t(size)));
    }
  }
  if (t.region.lookups.type_lookup(Py_TYPE(value), region::names().__len__) != nullptr)
    return t.and_then(special(t, value, "__len__", {}), Continuation(K::Length));
  return t.raise(PyExc_TypeError, std::string("object of type '") + Py_TYPE(value)->tp_name + "' has no len()");
}

// An iterator over elements that are all known objects: nothing of the user's runs when it advances.
Result iterate(Interpreter& t, PyObject* iterable) {
  iterable = t.region.shadows.original(iterable);
  t.region.doing = "iterates";
  const Cat cat = category(t, iterable);
  if (PyGen_CheckExact(iterable)) return Result::of(py::Owned<>::share(iterable));
  switch (cat) {
    case Cat::Generator:
      return Result::of(py::Owned<>::share(iterable));
    case Cat::Iterator: {
      if (t.region.provenance.is_outside(iterable)) {
        if (Py_TYPE(iterable)->tp_iter == PyObject_SelfIter) return Result::of(py::Owned<>::share(iterable));
        if (auto view = t.region.iterators.view(iterable)) return iterate(t, view.get());
        refuse_outside(iterable);
      }
      auto iterator = py::take(PyObject_GetIter(iterable));
      if (PyObject* dict = py::dict_walked_by(iterable)) t.region.iterators.note_walker(dict, iterator.get());
      return Result::of(std::move(iterator));
    }
    case Cat::Text:
    case Cat::Range:
    case Cat::FrozenSet:
    case Cat::Set:
    case Cat::Tuple:
    case Cat::List:
    case Cat::Dict:
    case Cat::Deque: {
      if (python_slot(t, iterable, region::names().__iter__)) break;
      if (cat == Cat::Set || cat == Cat::FrozenSet) {
        // Order of identity-hashed elements made by the region would differ at run time.
        if (t.region.reads.deep_touch(iterable).user) unsupported(Reason::IterationOrder, {{"type", "set"}});
      }
      auto iterator = py::take(PyObject_GetIter(t.region.shadows.view_of(iterable)));
      if (cat == Cat::Set || cat == Cat::Dict) t.region.iterators.note_walker(iterable, iterator.get());
      return Result::of(std::move(iterator));
    }
    case Cat::Array:
      return array_iterator(t, iterable);
    case Cat::Tensor: {
      auto name = py::interned("unbind");
      static PyObject* unbind = PyObject_GetAttrString(py::import_attr("torch", "Tensor").release(), "unbind");
      if (PyTuple_GET_SIZE(getattr(t, iterable, region::names().shape).value.get()) == 0)
        return t.raise(PyExc_TypeError, "iteration over a 0-d tensor");
      PyObject* args[] = {iterable};
      Result parts = t.region.recorder.torch_call(graph::Op::CallMethod, unbind, name.get(), Args{args, nullptr});
      return Result::of(py::take(PyObject_GetIter(parts.value.get())));
    }
    default:
      break;
  }
  PyTypeObject* type = Py_TYPE(iterable);
  PyObject* method = t.region.lookups.type_lookup(type, region::names().__iter__);
  if (method == Py_None) return t.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
  if (method != nullptr) return t.and_then(special(t, iterable, "__iter__", {}), Continuation(K::IterResult));
  if (PySequence_Check(iterable) != 0 && t.region.lookups.type_lookup(type, region::names().__getitem__) != nullptr) {
    return call_polyfill(t, "sequence_iterator", std::span<PyObject* const>(&iterable, 1));
  }
  if (type->tp_iter != nullptr)
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "iteration"}, {"type", type->tp_name}});
  return t.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
}

Result next_outside(Interpreter& t, PyObject* iterator) {
  const auto end = [&] {
    t.exception = py::take(PyObject_CallNoArgs(PyExc_StopIteration));
    return Result::raised();
  };
  const py::IteratorKind kind = py::iterator_kind(iterator);
  if (kind == py::IteratorKind::Map) {
    const auto& parts = t.region.iterators.parts(iterator);
    std::vector<py::Owned<>> held;
    std::vector<PyObject*> values;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      held.push_back(t.region.iterators.next(parts[i].get()));
      if (!held.back()) return end();
      values.push_back(held.back().get());
    }
    return call(t, parts[0].get(), Args{values, nullptr});
  }
  if (kind == py::IteratorKind::Filter) {
    if (!t.region.iterators.is_known(iterator)) refuse_outside(iterator);
    const auto& parts = t.region.iterators.parts(iterator);
    PyObject* values[] = {parts[0].get(), parts[1].get()};
    return call_polyfill(t, "filter_next", values);
  }
  auto value = t.region.iterators.next(iterator);
  return value ? Result::of(std::move(value)) : end();
}

Result next(Interpreter& t, PyObject* iterator) {
  t.region.doing = "advances an iterator";
  const Cat cat = cat_of(iterator);
  if (cat == Cat::Generator) return t.resume(iterator, Py_None);
  if (PyObject* twin = t.twin_of_generator(iterator)) return t.resume(twin, Py_None);
  if (cat == Cat::Iterator) {
    if (t.region.provenance.is_outside(iterator)) return next_outside(t, iterator);
    if (Py_TYPE(iterator)->tp_iternext == nullptr) {
      return t.raise(PyExc_TypeError, std::string("'") + Py_TYPE(iterator)->tp_name + "' object is not an iterator");
    }
    auto value = py::Owned<>::steal(Py_TYPE(iterator)->tp_iternext(iterator));
    if (!value) {
      if (PyErr_Occurred()) return t.raise_pending(py::PythonError());
      t.exception = py::take(PyObject_CallNoArgs(PyExc_StopIteration));
      return Result::raised();
    }
    return Result::of(std::move(value));
  }
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(iterator), region::names().__next__);
  if (method != nullptr && PyFunction_Check(method)) return call1(t, method, iterator);
  if (method == nullptr)
    return t.raise(PyExc_TypeError, std::string("'") + Py_TYPE(iterator)->tp_name + "' object is not an iterator");
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "__next__"}, {"type", Py_TYPE(iterator)->tp_name}});
}

py::Owned<> native_elements(Interpreter& t, PyObject* value) {
  value = t.region.shadows.original(value);
  switch (cat_of(value)) {
    case Cat::List:
    case Cat::Tuple:
    case Cat::Dict:
    case Cat::Deque:
    case Cat::Set:
    case Cat::FrozenSet:
    case Cat::Text:
    case Cat::Range:
    case Cat::Iterator:
    case Cat::Array:
    case Cat::Tensor: {
      if (python_slot(t, value, region::names().__iter__)) return {};
      if (cat_of(value) == Cat::Iterator && t.region.provenance.is_outside(value)) {
        if (auto view = t.region.iterators.view(value)) return native_elements(t, view.get());
        if (!t.region.iterators.is_known(value)) refuse_outside(value);
        const py::IteratorKind kind = py::iterator_kind(value);
        const bool calls = kind == py::IteratorKind::Map || kind == py::IteratorKind::Filter;
        return calls ? py::Owned<>() : t.region.iterators.rest(value);
      }
      Result iterator = iterate(t, value);
      if (!iterator.is_value()) return {};
      auto elements = py::take(PySequence_Tuple(iterator.value.get()));
      if (iterator.value.get() == value) t.region.iterators.note_used_up(value, elements.get());
      return elements;
    }
    default:
      return {};
  }
}

py::Owned<> elements_for_set(Interpreter& t, PyObject* value) {
  value = t.region.shadows.original(value);
  if (!PyAnySet_Check(value) || !python_slot(t, value, region::names().__iter__)) return native_elements(t, value);
  if (t.region.reads.deep_touch(value).user) unsupported(Reason::IterationOrder, {{"type", "set"}});
  return py::take(PyList_AsTuple(region::elements_now(t.region.reads.touch(value)).get()));
}

namespace {

// `item in container` of an open number and a few known ones: each is compared.
std::optional<Result> holds_number(Interpreter& t, PyObject* container, PyObject* item) {
  constexpr Py_ssize_t kMost = 16;
  const bool is_set = PyAnySet_CheckExact(container);
  if (!region::is_open(item) || (!is_set && !PyTuple_CheckExact(container) && !PyList_CheckExact(container)))
    return std::nullopt;
  if (PyObject_Length(t.region.shadows.readable(container)) > kMost) return std::nullopt;
  const auto items =
      is_set ? py::take(PySequence_Tuple(t.region.reads.touch(container))) : native_elements(t, container);
  if (!items) return std::nullopt;
  t.region.doing = "tests membership";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* other = PyTuple_GET_ITEM(items.get(), i);
    if (!region::is_number(other) && !PyLong_CheckExact(other) && !PyFloat_CheckExact(other)) return std::nullopt;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    Result equal = compare(t, PyTuple_GET_ITEM(items.get(), i), item, Py_EQ);
    if (!equal.is_value() || equal.value.get() == Py_True) return equal;
  }
  return Result::boolean(false);
}

// The same of a range, by two comparisons and the remainder.
std::optional<Result> range_holds_number(Interpreter& t, PyObject* range, PyObject* item) {
  if (!PyRange_Check(range) || !region::is_open_int(item)) return std::nullopt;
  const auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(range, name)); };
  const auto start = part("start"), stop = part("stop"), step = part("step");
  const bool up =
      py::take(PyObject_RichCompare(step.get(), py::take(PyLong_FromLong(0)).get(), Py_GT)).get() == Py_True;
  const auto holds = [&](PyObject* left, PyObject* right, int op) {
    const Result result = compare(t, left, right, op);
    return result.is_value() && result.value.get() == Py_True;
  };
  if (!holds(item, start.get(), up ? Py_GE : Py_LE) || !holds(item, stop.get(), up ? Py_LT : Py_GT))
    return Result::boolean(false);
  const auto away = binary(t, item, start.get(), static_cast<int>(bytecode::Operator::NB_SUBTRACT));
  if (!away.is_value()) return std::nullopt;
  const auto rest = binary(t, away.value.get(), step.get(), static_cast<int>(bytecode::Operator::NB_REMAINDER));
  if (!rest.is_value()) return std::nullopt;
  return Result::boolean(holds(rest.value.get(), py::take(PyLong_FromLong(0)).get(), Py_EQ));
}

}  // namespace

Result contains(Interpreter& t, PyObject* container, PyObject* item) {
  container = t.region.shadows.original(t.region.numbers.plain(container));
  t.region.doing = "tests membership";
  const Cat cat = category(t, container);
  const region::LooksAtNoOrder whether(t.region, container);  // whether it has an element
  if (cat == Cat::Array && !is_array(item)) return array_contains(t, container, item);
  if (cat == Cat::Array || is_array(item)) unsupported(Reason::ArrayData, {{"operation", "`in` with an array"}});
  if (auto found = holds_number(t, container, item)) return std::move(*found);
  if (auto found = range_holds_number(t, container, item)) return std::move(*found);
  if (cat_of(container) != Cat::Tensor) item = t.region.numbers.plain(item);
  if (auto view = t.region.iterators.view(container)) return contains(t, view.get(), item);
  if (const bool view = PyDictViewSet_Check(container); view || cat == Cat::Set || cat == Cat::FrozenSet) {
    const bool unhashable = py::cannot_be_hashed(item);
    if (!unhashable && !t.region.reads.hashable_natively(item))
      unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__hash__"}});
    if (unhashable && !view && cat_of(item) != Cat::Set) {
      auto error =
          py::Owned<>::steal(PySet_Add(py::take(PySet_New(nullptr)).get(), item) < 0 ? nullptr : Py_NewRef(Py_None));
      if (!error) return t.raise_pending(py::PythonError());
    }
    if (view && !t.region.provenance.is_outside(container)) {
      const Contents inside = t.region.reads.deep_touch(native_elements(t, container).get()),
                     probe = t.region.reads.deep_touch(item);
      if (!inside.is_plain() || !probe.is_plain())
        unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__eq__ of an element"}});
      const int found = PySequence_Contains(container, item);
      if (found < 0) return t.raise_pending(py::PythonError());
      return Result::boolean(found == 1);
    }
  }
  if (!python_slot(t, container, region::names().__contains__)) {
    switch (cat) {
      case Cat::Dict:
        if (!t.region.reads.hashable_natively(item))
          unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__hash__"}});
        return Result::boolean(t.region.reads.dict_contains(container, item));
      case Cat::Text:
        if (python_slot(t, item, region::names().__index__))  // which a bytes object asks for
          unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__index__"}});
        if (const int found = PySequence_Contains(container, item); found >= 0) return Result::boolean(found == 1);
        return t.raise_pending(py::PythonError());
      case Cat::Range:
      case Cat::Set:
      case Cat::FrozenSet:
      case Cat::List:
      case Cat::Tuple:
      case Cat::Deque:
      case Cat::Iterator: {
        if ((cat == Cat::Tuple || cat == Cat::List) && region::holds_open(container)) {
          PyObject* args[] = {container, item};
          return call_polyfill(t, "contains", args);
        }
        const Contents inside = cat == Cat::Iterator ? Contents{} : t.region.reads.deep_touch(container);
        const Contents probe = t.region.reads.deep_touch(item);
        if (inside.shadowed || probe.shadowed)
          unsupported(Reason::UnsupportedProtocol, {{"protocol", "in"}, {"type", "container that changed"}});
        const bool identity_only = (cat == Cat::Set || cat == Cat::FrozenSet) && t.region.reads.hashable_natively(item);
        const bool compares = inside.tensor || inside.user || probe.tensor || probe.user;
        if ((cat == Cat::Iterator && t.region.provenance.is_outside(container)) || (compares && !identity_only)) {
          PyObject* args[] = {container, item};
          return call_polyfill(t, "contains", args);
        }
        if (identity_only) t.region.reads.guard_key(container, item);
        const int found = PySequence_Contains(t.region.shadows.readable(container), item);
        if (found < 0) return t.raise_pending(py::PythonError());
        return Result::boolean(found == 1);
      }
      case Cat::Tensor: {
        PyObject* args[] = {container, item};
        static PyObject* function = operator_function("contains");
        return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
      }
      default:
        break;
    }
  }
  if (cat == Cat::Type && is_atom(cat_of(item))) {  // an enum class
    PyObject* method = py::type_lookup(Py_TYPE(container), region::names().__contains__);
    if (method != nullptr && cat_of(item) == Cat::EnumMember) {
      const int found = PySequence_Contains(container, item);
      py::check(found);
      return Result::boolean(found == 1);
    }
  }
  PyObject* args[] = {item};
  if (PyObject* method = t.region.lookups.type_lookup(Py_TYPE(container), region::names().__contains__)) {
    if (method == Py_None)
      return t.raise(PyExc_TypeError, std::string("'") + Py_TYPE(container)->tp_name + "' object is not a container");
    return t.and_then(special(t, container, "__contains__", args), Continuation(K::Bool));
  }
  PyTypeObject* type = Py_TYPE(container);
  if (type->tp_iter == nullptr && !PySequence_Check(container)) {
    return t.raise(PyExc_TypeError, std::string("argument of type '") + type->tp_name + "' is not iterable");
  }
  PyObject* both[] = {container, item};
  return call_polyfill(t, "contains", both);
}
namespace {

// Whether slicing runs an __index__ of the program's.
bool asks_for_index(Interpreter& t, PyObject* slice) {
  auto* s = reinterpret_cast<PySliceObject*>(slice);
  for (PyObject* part : {s->start, s->stop, s->step}) {
    if (part == Py_None || PyLong_CheckExact(part) || PyBool_Check(part)) continue;
    if (python_slot(t, part, region::names().__index__)) return true;
    if (cat_of(part) != Cat::Other || !guards::has_builtin_value(part))
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__index__"}, {"type", Py_TYPE(part)->tp_name}});
  }
  return false;
}

// Whether each open int of a key finds something at hand. One that does not, raises, which is eager's to word.
bool finds_something(PyObject* tensor, std::span<PyObject* const> key) {
  const std::vector<std::int64_t> sizes = aten::meta_of(tensor).sizes;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  std::int64_t dim = 0;
  const auto has_dimension = [](PyObject* part) { return part != Py_None && part != Py_Ellipsis; };
  const std::int64_t skipped = rank - std::ranges::count_if(key, has_dimension);
  for (PyObject* part : key) {
    if (region::is_open_int(part)) {
      const std::int64_t at = region::as_number(part)->expr->hint.i;
      const std::int64_t size = dim >= 0 && dim < rank ? sizes[static_cast<std::size_t>(dim)] : 0;
      if (at < -size || at >= size) return false;
    }
    dim += part == Py_Ellipsis ? skipped : has_dimension(part) ? 1 : 0;
  }
  return true;
}

// Whether a key of a tensor has an open int, for which torch's tracing takes a plain one alone; its select() takes an
// open one.
bool selects_open(Interpreter& t, PyObject* tensor, PyObject* key) {
  if (t.region.numbers.policy.graph_numbers != region::GraphNumbers::Ints) return false;
  std::span<PyObject* const> parts(&key, 1);
  if (PyTuple_CheckExact(key)) parts = {PySequence_Fast_ITEMS(key), static_cast<std::size_t>(PyTuple_GET_SIZE(key))};
  return std::ranges::any_of(parts, region::is_open_int) && finds_something(tensor, parts);
}

}  // namespace

Result subscript(Interpreter& t, PyObject* container, PyObject* key) {
  if (is_polyfill(container))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "a subscript"}, {"type", "builtin iterator"}});
  container = t.region.shadows.original(t.region.numbers.plain(container));
  key = t.region.shadows.original(key);
  t.region.doing = "reads an item";
  const Cat cat = category(t, container);
  PyTypeObject* type = Py_TYPE(container);
  if (cat_of(key) == Cat::Tensor && (cat == Cat::List || cat == Cat::Tuple)) {
    PyObject* values[] = {container, key};
    if (is_index(t, key)) return call_polyfill(t, "item_at_tensor", values);
    unsupported(Reason::DataDependent, {{"operation", "a tensor as an index of a list"}});
  }
  // A class that has a say in the key is asked as for any method of torch.
  PyObject* given[] = {container, key};
  if (cat == Cat::Tensor && !any_has_torch_function(t, Args{given, nullptr})) {
    static PyObject* function = operator_function("getitem");
    const auto numbered = key_with_numbers(t, container, key);
    if (numbered) key = numbered->get();
    PyObject* args[] = {container, key};
    if (selects_open(t, container, key)) return call_polyfill(t, "item_of_tensor", args);
    return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
  }
  if (cat == Cat::Array) return array_item(t, container, key);
  if (is_array(key)) unsupported(Reason::ArrayData, {{"operation", "an index or key from an array"}});
  const auto plain = plain_key(t, key);
  key = plain.get();
  const bool own = python_slot(t, container, region::names().__getitem__);
  PyObject* both[] = {container, key};
  if (!own && (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Deque)) {
    if (PyLong_Check(key)) {
      const std::int64_t n = t.region.reads.length_of(container);
      Py_ssize_t i = PyLong_AsSsize_t(key);
      if (i == -1 && PyErr_Occurred()) return t.raise_pending(py::PythonError());
      if (i < 0) i += n;
      if (i < 0 || i >= n) {
        return t.raise(PyExc_IndexError, cat == Cat::Tuple  ? "tuple index out of range"
                                         : cat == Cat::List ? "list index out of range"
                                                            : "deque index out of range");
      }
      return Result::of(py::Owned<>::share(t.region.reads.sequence_item(container, i)));
    }
    if (PySlice_Check(key) && cat != Cat::Deque) {
      if (asks_for_index(t, key)) return call_polyfill(t, "slice_at", both);
      t.region.reads.touch(container);
      if (auto sizes = sizes_slice(t, container, key)) return std::move(*sizes);
      auto value = py::Owned<>::steal(PyObject_GetItem(t.region.shadows.readable(container), key));
      if (!value) return t.raise_pending(py::PythonError());
      return Result::of(std::move(value));
    }
  }
  if (!own && (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Deque || cat == Cat::Text || cat == Cat::Range) &&
      !PyLong_Check(key) && !PySlice_Check(key)) {
    if (python_slot(t, key, region::names().__index__)) return call_polyfill(t, "item_at", both);
    if (region::is_numpy_scalar(key) && PyIndex_Check(key)) {
      const auto index = py::take(PyNumber_Index(key));
      return subscript(t, container, index.get());
    }
    if (t.region.lookups.type_lookup(Py_TYPE(key), region::names().__index__) == nullptr) {
      auto value = py::Owned<>::steal(PyObject_GetItem(container, key));  // CPython words the error
      if (!value) return t.raise_pending(py::PythonError());
    }
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__index__"}, {"type", Py_TYPE(key)->tp_name}});
  }
  if (!own && cat == Cat::Dict) {
    if (!t.region.reads.hashable_natively(key))
      unsupported(Reason::UserDunder, {{"operation", "a dict look-up"}, {"callee", "__hash__"}});
    bool found = false;
    Result value = t.region.reads.dict_get(container, key, &found);
    if (found) return value;
    if (!PyDict_CheckExact(container)) {
      PyObject* missing = t.region.lookups.type_lookup(type, region::names().__missing__);
      if (missing != nullptr && PyFunction_Check(missing)) return call2(t, missing, container, key);
      if (missing != nullptr) {  // defaultdict
        auto factory = getattr(t, container, py::interned("default_factory").get());
        if (!factory.is_value()) return factory;
        if (factory.value.get() != Py_None) {
          return t.and_then(call(t, factory.value.get(), Args{}), Continuation(K::SetItemOn, container, key));
        }
      }
    }
    PyObject* wrapped = key;
    auto error = py::take(PyObject_CallOneArg(PyExc_KeyError, wrapped));
    return t.raise(std::move(error));
  }
  if (cat == Cat::Text || cat == Cat::Range) {
    if (PySlice_Check(key)) {
      if (asks_for_index(t, key)) return call_polyfill(t, "slice_at", both);
    } else if (!is_atom(cat_of(key))) {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getitem__"}, {"type", type->tp_name}});
    }
    auto value = py::Owned<>::steal(PyObject_GetItem(container, key));
    if (!value) return t.raise_pending(py::PythonError());
    return Result::of(std::move(value));
  }
  if (cat == Cat::Type) {
    PyObject* method = py::type_lookup(Py_TYPE(container), region::names().__getitem__);
    static PyObject* const class_getitem = py::interned("__class_getitem__").release();
    PyObject* own_item = method == nullptr
                             ? t.region.lookups.type_lookup(reinterpret_cast<PyTypeObject*>(container), class_getitem)
                             : nullptr;
    if (own_item != nullptr && !Py_IS_TYPE(own_item, &PyClassMethodDescr_Type) && !is_typing(container)) {
      Result bound = type_getattr(t, container, class_getitem);
      if (!bound.is_value())
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__class_getitem__"}, {"type", type->tp_name}});
      PyObject* args[] = {key};
      return call(t, bound.value.get(), Args{args, nullptr});
    }
    if (Py_TYPE(container) == &PyType_Type || method == nullptr || is_atom(cat_of(key))) {
      const Contents inside = is_type_expression(key) ? Contents() : t.region.reads.deep_touch(key);
      if (inside.tensor || (inside.user && !is_type_value(key)))
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__class_getitem__"}, {"type", type->tp_name}});
      auto value = py::Owned<>::steal(PyObject_GetItem(container, key));  // an enum member by name, a generic alias
      if (!value) return t.raise_pending(py::PythonError());
      return Result::of(std::move(value));
    }
  }
  PyObject* method = t.region.lookups.type_lookup(type, region::names().__getitem__);
  if (method == nullptr) {
    return t.raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not subscriptable");
  }
  PyObject* args[] = {key};
  return special(t, container, "__getitem__", args);
}

Result store_subscript(Interpreter& t, PyObject* container, PyObject* key, PyObject* value) {
  container = t.region.shadows.original(t.region.numbers.plain(container));
  key = t.region.shadows.original(key);
  t.region.doing = "sets an item";
  const Cat cat = category(t, container);
  // What a class of the program says of a key, or of a value that goes into a plain tensor, is asked as for any method
  // of torch.
  PyObject* given[] = {container, key, value};
  if (cat == Cat::Tensor && value == nullptr) return t.raise(PyExc_TypeError, "Tensor does not support deleting items");
  if (cat == Cat::Tensor && !any_has_torch_function(t, Args{given, nullptr})) {
    static PyObject* set = operator_function("setitem");
    const auto numbered = key_with_numbers(t, container, key);
    if (numbered) key = numbered->get();
    PyObject* args[] = {container, key, value};
    if (selects_open(t, container, key))
      return t.and_then(call_polyfill(t, "set_item_of_tensor", args), Continuation(K::Drop));
    Result r = t.region.recorder.torch_call(graph::Op::CallFunction, set, set, Args{args, nullptr});
    return r.did == Result::Did::Raised ? std::move(r) : Result::done();
  }
  if (cat == Cat::Array) return set_array_item(t, container, key, value);
  if (is_array(key)) unsupported(Reason::ArrayData, {{"operation", "an index or key from an array"}});
  const auto plain = plain_key(t, key);
  key = plain.get();
  PyObject* name = value == nullptr ? region::names().__delitem__ : region::names().__setitem__;
  if (!python_slot(t, container, name)) {
    if (cat == Cat::Dict) {
      if (!t.region.reads.hashable_natively(key))
        unsupported(Reason::UserDunder, {{"operation", "a dict store"}, {"callee", "__hash__"}});
      if (value == nullptr && !t.region.reads.dict_contains(container, key))
        return t.raise(py::take(PyObject_CallOneArg(PyExc_KeyError, key)));
      t.region.shadows.dict_set(container, key, value);
      return Result::done();
    }
    if (cat == Cat::List || cat == Cat::Deque) {
      if (!PyLong_CheckExact(key) && !PySlice_Check(key))
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__setitem__"}, {"type", "list, index not an int"}});
      const bool one = PyLong_Check(key) && cat == Cat::List;
      PyObject* target = one ? t.region.shadows.growable(container) : t.region.shadows.writable(container);
      if (one) t.region.drops.guard_drop_of_item_at(container, key);
      py::Owned<> items;
      if (PySlice_Check(key) && value != nullptr) {
        items = native_elements(t, value);
        if (!items)
          unsupported(Reason::UnsupportedProtocol,
                      {{"protocol", "slice assignment from an iterator"}, {"type", Py_TYPE(value)->tp_name}});
        value = items.get();
      }
      const int status = value == nullptr ? PyObject_DelItem(target, key) : PyObject_SetItem(target, key, value);
      if (status < 0) return t.raise_pending(py::PythonError());
      return Result::done();
    }
  }
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(container), name);
  if (method == nullptr && cat != Cat::Generator && Py_TYPE(container)->tp_as_sequence != nullptr) {
    // It cannot be done: CPython's words depend on whether the other of the two methods is there, and on the key, which
    // it may ask for its __index__.
    if (python_slot(t, key, region::names().__index__))
      unsupported(Reason::UserDunder,
                  {{"operation", value == nullptr ? "del" : "item assignment"}, {"callee", "__index__"}});
    const int status = value == nullptr ? PyObject_DelItem(container, key) : PyObject_SetItem(container, key, value);
    if (status < 0) return t.raise_pending(py::PythonError());
  }
  if (method == nullptr) {
    return t.raise(PyExc_TypeError, std::string("'") + Py_TYPE(container)->tp_name + "' object does not support item " +
                                        (value == nullptr ? "deletion" : "assignment"));
  }
  PyObject* args[] = {key, value};
  return t.and_then(special(t, container, value == nullptr ? "__delitem__" : "__setitem__",
                            std::span<PyObject* const>(args, value == nullptr ? 1 : 2)),
                    Continuation(K::Drop));
}

}  // namespace pellucid::protocols
