// Truth, length, iteration, membership and subscripts of any object, in CPython's order of attempts.
#include "guards/equality.h"
#include "handlers/registry.h"
#include "py/cpython311.h"
#include "py/iterators.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using objects::Contents;
using objects::names;

namespace {

PyObject* operator_function(const char* name) { return py::import_attr("operator", name).release(); }

// Subscripting a class of typing makes an alias of it: native, nothing of the user's runs.
bool is_typing(PyObject* cls) {
  static PyObject* const generic = py::import_attr("typing", "Generic").release();
  static PyObject* const name = py::interned("__class_getitem__").release();
  return py::type_lookup(reinterpret_cast<PyTypeObject*>(cls), name) ==
         py::type_lookup(reinterpret_cast<PyTypeObject*>(generic), name);
}

bool python_slot(objects::Tracer& tracer, PyObject* value, PyObject* name) {
  PyObject* found = tracer.type_lookup(Py_TYPE(value), name);
  return found != nullptr && PyFunction_Check(found);
}

[[noreturn]] void refuse_outside(objects::Tracer& tracer, PyObject* iterator) {
  tracer.unsupported(Reason::OutsideIterator,
                     {{"type", std::string(Py_TYPE(iterator)->tp_name) + " from outside of the region"}});
}

}  // namespace

Result Executor::truth(PyObject* value) {
  value = original(value);
  if (value == Py_True || value == Py_False) return Result::of(py::Owned<>::share(value));
  const Cat cat = objects::cat_of(value);
  doing = "tests the truth";
  switch (cat) {
    case Cat::Singleton:
    case Cat::Number:
    case Cat::Text:
    case Cat::Range: {
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
      if (python_slot(*this, value, names().__bool__) || python_slot(*this, value, names().__len__)) break;
      return Result::boolean(length_of(value) != 0);
    }
    case Cat::Tensor: {
      PyObject* args[] = {value};
      static PyObject* descriptor = PyObject_GetAttrString(py::import_attr("torch", "Tensor").release(), "__bool__");
      auto name = py::interned("__bool__");
      return torch_call(graph::Op::CallMethod, descriptor, name.get(), Args{args, nullptr});
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
    if (type_lookup(Py_TYPE(value), name) == nullptr) continue;
    Continuation as_bool(K::Bool);
    as_bool.stage = stage;
    return and_then(special(value, name, {}), std::move(as_bool));
  }
  PyTypeObject* type = Py_TYPE(value);
  const bool native = (type->tp_as_number != nullptr && type->tp_as_number->nb_bool != nullptr) ||
                      (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_length != nullptr) ||
                      (type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_length != nullptr);
  if (native) unsupported(Reason::UnsupportedProtocol, {{"protocol", "truth"}, {"type", type->tp_name}});
  return Result::boolean(true);
}

Result Executor::length(PyObject* value) {
  value = original(value);
  if (is_ours(value)) unsupported(Reason::UnsupportedProtocol, {{"protocol", "len"}, {"type", "builtin iterator"}});
  doing = "reads the length";
  if (auto view = view_of_outside(value)) return length(view.get());
  const Cat cat = objects::cat_of(value);
  if (cat == Cat::Tensor) {
    auto sizes = getattr(value, names().shape);
    if (PyTuple_GET_SIZE(sizes.value.get()) == 0) return raise(PyExc_TypeError, "len() of a 0-d tensor");
    return Result::of(py::Owned<>::share(PyTuple_GET_ITEM(sizes.value.get(), 0)));
  }
  if (cat != Cat::Type && !python_slot(*this, value, names().__len__)) {
    const std::int64_t n = length_of(value);
    if (n >= 0) return Result::of(py::take(PyLong_FromLongLong(n)));
    if (cat == Cat::Range || (cat == Cat::Iterator && PyObject_HasAttr(value, names().__len__))) {  // or a dict view
      const Py_ssize_t size = PyObject_Length(value);
      if (size < 0) return raise_pending(py::PythonError());  // more than a Py_ssize_t holds
      return Result::of(py::take(PyLong_FromSsize_t(size)));
    }
  }
  if (type_lookup(Py_TYPE(value), names().__len__) != nullptr)
    return and_then(special(value, "__len__", {}), Continuation(K::Length));
  return raise(PyExc_TypeError, std::string("object of type '") + Py_TYPE(value)->tp_name + "' has no len()");
}

// An iterator over elements that are all known objects: nothing of the user's runs when it advances.
Result Executor::iterate(PyObject* iterable) {
  iterable = original(iterable);
  doing = "iterates";
  const Cat cat = objects::cat_of(iterable);
  if (PyGen_CheckExact(iterable)) return Result::of(py::Owned<>::share(iterable));
  switch (cat) {
    case Cat::Generator:
      return Result::of(py::Owned<>::share(iterable));
    case Cat::Iterator: {
      if (is_outside(iterable)) {
        if (Py_TYPE(iterable)->tp_iter == PyObject_SelfIter) return Result::of(py::Owned<>::share(iterable));
        if (auto view = view_of_outside(iterable)) return iterate(view.get());
        refuse_outside(*this, iterable);
      }
      auto iterator = py::take(PyObject_GetIter(iterable));
      if (PyObject* dict = py::dict_walked_by(iterable)) walks(dict, iterator.get());
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
      if (python_slot(*this, iterable, names().__iter__)) break;
      if (cat == Cat::Set || cat == Cat::FrozenSet) {
        // Order of identity-hashed elements made by the region would differ at run time.
        if (deep_touch(iterable).user) unsupported(Reason::IterationOrder, {{"type", "set"}});
      }
      auto iterator = py::take(PyObject_GetIter(view_of(iterable)));
      if (cat == Cat::Set || cat == Cat::Dict) walks(iterable, iterator.get());
      return Result::of(std::move(iterator));
    }
    case Cat::Tensor: {
      auto name = py::interned("unbind");
      static PyObject* unbind = PyObject_GetAttrString(py::import_attr("torch", "Tensor").release(), "unbind");
      if (PyTuple_GET_SIZE(getattr(iterable, names().shape).value.get()) == 0)
        return raise(PyExc_TypeError, "iteration over a 0-d tensor");
      PyObject* args[] = {iterable};
      Result parts = torch_call(graph::Op::CallMethod, unbind, name.get(), Args{args, nullptr});
      return Result::of(py::take(PyObject_GetIter(parts.value.get())));
    }
    default:
      break;
  }
  PyTypeObject* type = Py_TYPE(iterable);
  PyObject* method = type_lookup(type, names().__iter__);
  if (method == Py_None) return raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
  if (method != nullptr) return and_then(special(iterable, "__iter__", {}), Continuation(K::IterResult));
  if (PySequence_Check(iterable) != 0 && type_lookup(type, names().__getitem__) != nullptr) {
    return call_polyfill("sequence_iterator", std::span<PyObject* const>(&iterable, 1));
  }
  if (type->tp_iter != nullptr)
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "iteration"}, {"type", type->tp_name}});
  return raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not iterable");
}

Result Executor::next_outside(PyObject* iterator) {
  const auto end = [&] {
    exception = py::take(PyObject_CallNoArgs(PyExc_StopIteration));
    return Result::raised();
  };
  const py::IteratorKind kind = py::iterator_kind(iterator);
  if (kind == py::IteratorKind::Map) {
    const auto& parts = parts_of_outside(iterator);
    std::vector<py::Owned<>> held;
    std::vector<PyObject*> values;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      held.push_back(next_of_outside(parts[i].get()));
      if (!held.back()) return end();
      values.push_back(held.back().get());
    }
    return call(parts[0].get(), Args{values, nullptr});
  }
  if (kind == py::IteratorKind::Filter) {
    if (!is_known_iterator(iterator)) refuse_outside(*this, iterator);
    const auto& parts = parts_of_outside(iterator);
    PyObject* values[] = {parts[0].get(), parts[1].get()};
    return call_polyfill("filter_next", values);
  }
  auto value = next_of_outside(iterator);
  return value ? Result::of(std::move(value)) : end();
}

Result Executor::next(PyObject* iterator) {
  doing = "advances an iterator";
  const Cat cat = objects::cat_of(iterator);
  if (cat == Cat::Generator) return resume(iterator, Py_None);
  if (PyObject* twin = twin_of_generator(iterator)) return resume(twin, Py_None);
  if (cat == Cat::Iterator) {
    if (is_outside(iterator)) return next_outside(iterator);
    if (Py_TYPE(iterator)->tp_iternext == nullptr) {
      return raise(PyExc_TypeError, std::string("'") + Py_TYPE(iterator)->tp_name + "' object is not an iterator");
    }
    auto value = py::Owned<>::steal(Py_TYPE(iterator)->tp_iternext(iterator));
    if (!value) {
      if (PyErr_Occurred()) return raise_pending(py::PythonError());
      exception = py::take(PyObject_CallNoArgs(PyExc_StopIteration));
      return Result::raised();
    }
    return Result::of(std::move(value));
  }
  PyObject* method = type_lookup(Py_TYPE(iterator), names().__next__);
  if (method != nullptr && PyFunction_Check(method)) return call1(method, iterator);
  if (method == nullptr)
    return raise(PyExc_TypeError, std::string("'") + Py_TYPE(iterator)->tp_name + "' object is not an iterator");
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "__next__"}, {"type", Py_TYPE(iterator)->tp_name}});
}

py::Owned<> Executor::native_elements(PyObject* value) {
  value = original(value);
  switch (objects::cat_of(value)) {
    case Cat::List:
    case Cat::Tuple:
    case Cat::Dict:
    case Cat::Deque:
    case Cat::Set:
    case Cat::FrozenSet:
    case Cat::Text:
    case Cat::Range:
    case Cat::Iterator:
    case Cat::Tensor: {
      if (python_slot(*this, value, names().__iter__)) return {};
      if (objects::cat_of(value) == Cat::Iterator && is_outside(value)) {
        if (auto view = view_of_outside(value)) return native_elements(view.get());
        if (!is_known_iterator(value)) refuse_outside(*this, value);
        const py::IteratorKind kind = py::iterator_kind(value);
        const bool calls = kind == py::IteratorKind::Map || kind == py::IteratorKind::Filter;
        return calls ? py::Owned<>() : rest_of_outside(value);
      }
      Result iterator = iterate(value);
      if (!iterator.is_value()) return {};
      return py::take(PySequence_Tuple(iterator.value.get()));
    }
    default:
      return {};
  }
}

Result Executor::contains(PyObject* container, PyObject* item) {
  container = original(container);
  doing = "tests membership";
  if (auto view = view_of_outside(container)) return contains(view.get(), item);
  const Cat cat = objects::cat_of(container);
  if (const bool view = PyDictViewSet_Check(container); view || cat == Cat::Set || cat == Cat::FrozenSet) {
    const bool unhashable = Py_TYPE(item)->tp_hash == PyObject_HashNotImplemented;  // CPython words the TypeError
    if (!unhashable && !hashable_natively(item))
      unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__hash__"}});
    if (unhashable && !view && objects::cat_of(item) != Cat::Set) {
      auto error =
          py::Owned<>::steal(PySet_Add(py::take(PySet_New(nullptr)).get(), item) < 0 ? nullptr : Py_NewRef(Py_None));
      if (!error) return raise_pending(py::PythonError());
    }
    if (view && !is_outside(container)) {
      const Contents inside = deep_touch(native_elements(container).get()), probe = deep_touch(item);
      if (inside.tensor || inside.user || inside.shadowed || probe.tensor || probe.user || probe.shadowed)
        unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__eq__ of an element"}});
      const int found = PySequence_Contains(container, item);
      if (found < 0) return raise_pending(py::PythonError());
      return Result::boolean(found == 1);
    }
  }
  if (!python_slot(*this, container, names().__contains__)) {
    switch (cat) {
      case Cat::Dict:
        if (!hashable_natively(item)) unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__hash__"}});
        return Result::boolean(dict_contains(container, item));
      case Cat::Text:
        if (python_slot(*this, item, names().__index__))  // which a bytes object asks for
          unsupported(Reason::UserDunder, {{"operation", "in"}, {"callee", "__index__"}});
        if (const int found = PySequence_Contains(container, item); found >= 0) return Result::boolean(found == 1);
        return raise_pending(py::PythonError());
      case Cat::Range:
      case Cat::Set:
      case Cat::FrozenSet:
      case Cat::List:
      case Cat::Tuple:
      case Cat::Deque:
      case Cat::Iterator: {
        const Contents inside = cat == Cat::Iterator ? Contents{} : deep_touch(container);
        const Contents probe = deep_touch(item);
        if (inside.shadowed || probe.shadowed)
          unsupported(Reason::UnsupportedProtocol, {{"protocol", "in"}, {"type", "container that changed"}});
        const bool identity_only = (cat == Cat::Set || cat == Cat::FrozenSet) && hashable_natively(item);
        const bool compares = inside.tensor || inside.user || probe.tensor || probe.user;
        if ((cat == Cat::Iterator && is_outside(container)) || (compares && !identity_only)) {
          PyObject* args[] = {container, item};
          return call_polyfill("contains", args);
        }
        if (identity_only) guard_key(container, item);
        const int found = PySequence_Contains(readable(container), item);
        if (found < 0) return raise_pending(py::PythonError());
        return Result::boolean(found == 1);
      }
      case Cat::Tensor: {
        PyObject* args[] = {container, item};
        static PyObject* function = operator_function("contains");
        return torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
      }
      default:
        break;
    }
  }
  if (cat == Cat::Type && objects::is_atom(objects::cat_of(item))) {  // an enum class
    PyObject* method = py::type_lookup(Py_TYPE(container), names().__contains__);
    if (method != nullptr && objects::cat_of(item) == Cat::EnumMember) {
      const int found = PySequence_Contains(container, item);
      py::check(found);
      return Result::boolean(found == 1);
    }
  }
  PyObject* args[] = {item};
  if (PyObject* method = type_lookup(Py_TYPE(container), names().__contains__)) {
    if (method == Py_None)
      return raise(PyExc_TypeError, std::string("'") + Py_TYPE(container)->tp_name + "' object is not a container");
    return and_then(special(container, "__contains__", args), Continuation(K::Bool));
  }
  PyTypeObject* type = Py_TYPE(container);
  if (type->tp_iter == nullptr && !PySequence_Check(container)) {
    return raise(PyExc_TypeError, std::string("argument of type '") + type->tp_name + "' is not iterable");
  }
  PyObject* both[] = {container, item};
  return call_polyfill("contains", both);
}

namespace {
// Whether slicing runs an __index__ of the program's.
bool asks_for_index(Executor& executor, PyObject* slice) {
  auto* s = reinterpret_cast<PySliceObject*>(slice);
  for (PyObject* part : {s->start, s->stop, s->step}) {
    if (part == Py_None || PyLong_CheckExact(part) || PyBool_Check(part)) continue;
    if (python_slot(executor, part, names().__index__)) return true;
    if (objects::cat_of(part) != Cat::Other || !guards::has_builtin_value(part))
      executor.unsupported(Reason::UnsupportedProtocol, {{"protocol", "__index__"}, {"type", Py_TYPE(part)->tp_name}});
  }
  return false;
}
}  // namespace

Result Executor::subscript(PyObject* container, PyObject* key) {
  if (is_ours(container))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "a subscript"}, {"type", "builtin iterator"}});
  container = original(container);
  key = original(key);
  doing = "reads an item";
  const Cat cat = objects::cat_of(container);
  PyTypeObject* type = Py_TYPE(container);
  if (cat == Cat::Tensor || (objects::cat_of(key) == Cat::Tensor && (cat == Cat::List || cat == Cat::Tuple))) {
    static PyObject* function = operator_function("getitem");
    if (cat != Cat::Tensor) unsupported(Reason::DataDependent, {{"operation", "a tensor as an index of a list"}});
    PyObject* args[] = {container, key};
    return torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
  }
  const bool own = python_slot(*this, container, names().__getitem__);
  PyObject* both[] = {container, key};
  if (!own && (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Deque)) {
    if (PyLong_Check(key)) {
      const std::int64_t n = length_of(container);
      Py_ssize_t i = PyLong_AsSsize_t(key);
      if (i == -1 && PyErr_Occurred()) return raise_pending(py::PythonError());
      if (i < 0) i += n;
      if (i < 0 || i >= n) {
        return raise(PyExc_IndexError, cat == Cat::Tuple  ? "tuple index out of range"
                                       : cat == Cat::List ? "list index out of range"
                                                          : "deque index out of range");
      }
      return Result::of(py::Owned<>::share(sequence_item(container, i)));
    }
    if (PySlice_Check(key) && cat != Cat::Deque) {
      if (asks_for_index(*this, key)) return call_polyfill("slice_at", both);
      touch(container);
      auto value = py::Owned<>::steal(PyObject_GetItem(readable(container), key));
      if (!value) return raise_pending(py::PythonError());
      return Result::of(std::move(value));
    }
  }
  if (!own && (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Deque || cat == Cat::Text || cat == Cat::Range) &&
      !PyLong_Check(key) && !PySlice_Check(key)) {
    if (python_slot(*this, key, names().__index__)) return call_polyfill("item_at", both);
    if (type_lookup(Py_TYPE(key), names().__index__) == nullptr) {
      auto value = py::Owned<>::steal(PyObject_GetItem(container, key));  // CPython words the error
      if (!value) return raise_pending(py::PythonError());
    }
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__index__"}, {"type", Py_TYPE(key)->tp_name}});
  }
  if (!own && cat == Cat::Dict) {
    if (!hashable_natively(key))
      unsupported(Reason::UserDunder, {{"operation", "a dict look-up"}, {"callee", "__hash__"}});
    bool found = false;
    Result value = dict_get(container, key, &found);
    if (found) return value;
    if (!PyDict_CheckExact(container)) {
      PyObject* missing = type_lookup(type, names().__missing__);
      if (missing != nullptr && PyFunction_Check(missing)) return call2(missing, container, key);
      if (missing != nullptr) {  // defaultdict
        auto factory = getattr(container, py::interned("default_factory").get());
        if (!factory.is_value()) return factory;
        if (factory.value.get() != Py_None) {
          return and_then(call(factory.value.get(), Args{}), Continuation(K::SetItemOn, container, key));
        }
      }
    }
    PyObject* wrapped = key;
    auto error = py::take(PyObject_CallOneArg(PyExc_KeyError, wrapped));
    return raise(std::move(error));
  }
  if (cat == Cat::Text || cat == Cat::Range) {
    if (PySlice_Check(key)) {
      if (asks_for_index(*this, key)) return call_polyfill("slice_at", both);
    } else if (!objects::is_atom(objects::cat_of(key))) {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__getitem__"}, {"type", type->tp_name}});
    }
    auto value = py::Owned<>::steal(PyObject_GetItem(container, key));
    if (!value) return raise_pending(py::PythonError());
    return Result::of(std::move(value));
  }
  if (cat == Cat::Type) {
    PyObject* method = py::type_lookup(Py_TYPE(container), names().__getitem__);
    static PyObject* const class_getitem = py::interned("__class_getitem__").release();
    PyObject* own_item =
        method == nullptr ? type_lookup(reinterpret_cast<PyTypeObject*>(container), class_getitem) : nullptr;
    if (own_item != nullptr && !Py_IS_TYPE(own_item, &PyClassMethodDescr_Type) && !is_typing(container)) {
      Result bound = type_getattr(container, class_getitem);
      if (!bound.is_value())
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__class_getitem__"}, {"type", type->tp_name}});
      PyObject* args[] = {key};
      return call(bound.value.get(), Args{args, nullptr});
    }
    if (Py_TYPE(container) == &PyType_Type || method == nullptr || objects::is_atom(objects::cat_of(key))) {
      const Contents inside = deep_touch(key);
      if (inside.tensor || inside.user)
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__class_getitem__"}, {"type", type->tp_name}});
      auto value = py::Owned<>::steal(PyObject_GetItem(container, key));  // an enum member by name, a generic alias
      if (!value) return raise_pending(py::PythonError());
      return Result::of(std::move(value));
    }
  }
  PyObject* method = type_lookup(type, names().__getitem__);
  if (method == nullptr) {
    return raise(PyExc_TypeError, std::string("'") + type->tp_name + "' object is not subscriptable");
  }
  PyObject* args[] = {key};
  return special(container, "__getitem__", args);
}

Result Executor::store_subscript(PyObject* container, PyObject* key, PyObject* value) {
  container = original(container);
  key = original(key);
  doing = "sets an item";
  const Cat cat = objects::cat_of(container);
  if (cat == Cat::Tensor) {
    static PyObject* set = operator_function("setitem");
    if (value == nullptr) return raise(PyExc_TypeError, "Tensor does not support deleting items");
    PyObject* args[] = {container, key, value};
    Result r = torch_call(graph::Op::CallFunction, set, set, Args{args, nullptr});
    return r.did == Result::Did::Raised ? std::move(r) : Result::done();
  }
  PyObject* name = value == nullptr ? names().__delitem__ : names().__setitem__;
  if (!python_slot(*this, container, name)) {
    if (cat == Cat::Dict) {
      if (!hashable_natively(key))
        unsupported(Reason::UserDunder, {{"operation", "a dict store"}, {"callee", "__hash__"}});
      if (value == nullptr && !dict_contains(container, key))
        return raise(py::take(PyObject_CallOneArg(PyExc_KeyError, key)));
      dict_set(container, key, value);
      return Result::done();
    }
    if (cat == Cat::List || cat == Cat::Deque) {
      if (!PyLong_CheckExact(key) && !PySlice_Check(key))
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "__setitem__"}, {"type", "list, index not an int"}});
      const bool one = PyLong_Check(key) && cat == Cat::List;
      PyObject* target = one ? growable(container) : writable(container);
      if (one) lets_go_of_item_at(container, key);
      py::Owned<> items;
      if (PySlice_Check(key) && value != nullptr) {
        items = native_elements(value);
        if (!items)
          unsupported(Reason::UnsupportedProtocol,
                      {{"protocol", "slice assignment from an iterator"}, {"type", Py_TYPE(value)->tp_name}});
        value = items.get();
      }
      const int status = value == nullptr ? PyObject_DelItem(target, key) : PyObject_SetItem(target, key, value);
      if (status < 0) return raise_pending(py::PythonError());
      return Result::done();
    }
  }
  PyObject* method = type_lookup(Py_TYPE(container), name);
  if (method == nullptr && cat != Cat::Generator && Py_TYPE(container)->tp_as_sequence != nullptr) {
    // It cannot be done: CPython's words depend on whether the other of the two methods is there, and on the key, which
    // it may ask for its __index__.
    if (python_slot(*this, key, names().__index__))
      unsupported(Reason::UserDunder,
                  {{"operation", value == nullptr ? "del" : "item assignment"}, {"callee", "__index__"}});
    const int status = value == nullptr ? PyObject_DelItem(container, key) : PyObject_SetItem(container, key, value);
    if (status < 0) return raise_pending(py::PythonError());
  }
  if (method == nullptr) {
    return raise(PyExc_TypeError, std::string("'") + Py_TYPE(container)->tp_name + "' object does not support item " +
                                      (value == nullptr ? "deletion" : "assignment"));
  }
  PyObject* args[] = {key, value};
  return and_then(special(container, value == nullptr ? "__delitem__" : "__setitem__",
                          std::span<PyObject* const>(args, value == nullptr ? 1 : 2)),
                  Continuation(K::Drop));
}

}  // namespace pellucid::trace
