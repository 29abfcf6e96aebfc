// How emitted code advances an iterator that existed before, and how it makes one that the region made half-used.
#include "py/iterators.h"

#include "codegen/walk.h"

namespace pellucid::codegen {
namespace {

using py::IteratorKind;

PyObject* advance_function(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
  return py::enter([&]() -> py::Owned<> {
    const long long steps = count == 3 ? PyLong_AsLongLong(args[1]) : -1;
    if (steps < 0) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "advance(iterator, count, ends)");
      py::throw_pending();
    }
    if (!py::advance_iterator(args[0], steps, args[2] == Py_True)) py::throw_pending();
    return py::Owned<>::share(Py_None);
  });
}

// A fresh iterator of a dict or set whose container was filled after it was made.
PyObject* begin_at_function(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
  if (count == 3) py::rewind_iterator(args[0]);
  return advance_function(nullptr, args, count);
}

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t) noexcept;

PyMethodDef definition(const char* name, FastFunction function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

PyObject* advance_object() {
  static PyMethodDef def = definition("advance", advance_function);
  static PyObject* const object = py::take(PyCFunction_New(&def, nullptr)).release();
  return object;
}
PyObject* begin_at_object() {
  static PyMethodDef def = definition("begin_at", begin_at_function);
  static PyObject* const object = py::take(PyCFunction_New(&def, nullptr)).release();
  return object;
}

Expr call_on_iterator(PyObject* function, Expr iterator, std::int64_t count, bool ends) {
  std::vector<Expr> arguments;
  arguments.push_back(std::move(iterator));
  arguments.push_back(Expr::constant(py::take(PyLong_FromLongLong(count)).get()));
  arguments.push_back(Expr::constant(ends ? Py_True : Py_False));
  return Expr::call(function, std::move(arguments));
}

Stmt evaluate(Expr value) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = std::move(value);
  return stmt;
}

PyObject* builtin_iter() {
  static PyObject* const object = py::import_attr("builtins", "iter").release();
  return object;
}

// The same keys in the same order: an iterator over the one goes on over the other.
bool same_keys(PyObject* a, PyObject* b) {
  const Pairs one = dict_items(a), other = dict_items(b);
  bool same = one.size() == other.size();
  for (std::size_t i = 0; same && i < one.size(); ++i) same = one[i].first == other[i].first;
  return same;
}

const char* view_method(PyTypeObject* view) {
  return view == &PyDictKeys_Type ? "keys" : view == &PyDictValues_Type ? "values" : "items";
}

Expr iterator_over(IteratorKind kind, Expr container) {
  const char* view = kind == IteratorKind::DictKeys     ? "keys"
                     : kind == IteratorKind::DictValues ? "values"
                     : kind == IteratorKind::DictItems  ? "items"
                                                        : nullptr;
  if (view != nullptr) container = Expr::call(lookup(&PyDict_Type, view), exprs(std::move(container)));
  return Expr::call(builtin_iter(), exprs(std::move(container)));
}

Recipe recipe_of_table_iterator(Walker& walker, PyObject* iterator, IteratorKind kind, const Expr& self) {
  py::Owned<> fresh;
  PyObject* container = py::iterator_part(iterator, 0, fresh);
  Recipe recipe;
  if (container == nullptr) {  // at its end
    Expr empty = kind == IteratorKind::Set ? Expr::call(reinterpret_cast<PyObject*>(&PySet_Type), {})
                                           : Expr::list(Expr::Kind::Map, {});
    recipe.make = iterator_over(kind, std::move(empty));
    recipe.fill.push_back(evaluate(advance(walker, self.copy(), 0, true)));
    return recipe;
  }
  const std::int64_t taken = py::iterator_taken(iterator);
  if (taken < 0) cannot_reconstruct(iterator, "its container has changed");
  const auto original = walker.capture().stands_for.find(container);
  const bool is_shadow = original != walker.capture().stands_for.end();
  const bool keeps_order = kind == IteratorKind::Set ? !is_shadow && walker.exists(container)
                                                     : !is_shadow || same_keys(container, original->second);
  if (!keeps_order) cannot_reconstruct(iterator, "over a container whose order may be another one then");
  recipe.make = iterator_over(kind, walker.ref(container));
  recipe.fill.push_back(evaluate(call_on_iterator(begin_at_object(), self.copy(), taken, false)));
  return recipe;
}

// (iter, (sequence,), index) or (type, arguments[, state]): how the iterator says itself that it is copied.
Recipe recipe_by_reduce(Walker& walker, PyObject* iterator, IteratorKind kind, const Expr& self) {
  if (kind == IteratorKind::Deque && py::iterator_taken(iterator) < 0)
    cannot_reconstruct(iterator, "its container has changed");
  PyObject* reduced = walker.hold(py::take(PyObject_CallMethod(iterator, "__reduce__", nullptr)));
  PyObject* arguments = PyTuple_GET_ITEM(reduced, 1);
  if (Py_IS_TYPE(iterator, &PyLongRangeIter_Type)) {  // reversed(range(…)) may be one where iter() gives another kind
    const auto again = py::take(PyObject_GetIter(PyTuple_GET_ITEM(arguments, 0)));
    if (Py_TYPE(again.get()) != Py_TYPE(iterator)) cannot_reconstruct(iterator, "of a range with small numbers");
  }
  Recipe recipe;
  std::vector<Expr> items;
  for (PyObject* argument : list_items(arguments)) items.push_back(walker.ref(argument));
  recipe.make = Expr::call(PyTuple_GET_ITEM(reduced, 0), std::move(items));
  const std::int64_t position = py::iterator_position(iterator);
  if (kind == IteratorKind::List && position >= 0) {  // the list may be shorter still: __setstate__ would mind
    if (position > 0) recipe.fill.push_back(evaluate(advance(walker, self.copy(), position, false)));
    return recipe;
  }
  if (PyTuple_GET_SIZE(reduced) > 2) {
    PyObject* set_state = lookup(Py_TYPE(iterator), "__setstate__");
    if (set_state == nullptr) cannot_reconstruct(iterator, "");
    recipe.fill.push_back(
        evaluate(Expr::call(set_state, exprs(self.copy(), walker.ref(PyTuple_GET_ITEM(reduced, 2))))));
  }
  return recipe;
}

}  // namespace

Expr advance(Walker&, Expr iterator, std::int64_t count, bool ends) {
  return call_on_iterator(advance_object(), std::move(iterator), count, ends);
}

std::vector<PyTypeObject*> iterator_types() {
  const auto text = py::take(PyObject_GetIter(py::str("a").get()));  // str_ascii_iterator is not exported
  std::vector<PyTypeObject*> types{
      &PyListIter_Type,      &PyTupleIter_Type,    &PyRangeIter_Type,   &PyLongRangeIter_Type, &PyUnicodeIter_Type,
      Py_TYPE(text.get()),   &PyBytesIter_Type,    &PyListRevIter_Type, &PyEnum_Type,          &PyZip_Type,
      &PyReversed_Type,      &PyDictKeys_Type,     &PyDictValues_Type,  &PyDictItems_Type,     &PyDictIterKey_Type,
      &PyDictIterValue_Type, &PyDictIterItem_Type, &PySetIter_Type,
  };
  const auto add = [&](const char* module, const char* name) {
    types.push_back(reinterpret_cast<PyTypeObject*>(py::import_attr(module, name).release()));  // never goes
  };
  add("_collections", "_deque_iterator");
  for (const char* name : {"chain", "count", "repeat", "islice", "cycle", "zip_longest", "product", "permutations",
                           "combinations", "combinations_with_replacement"}) {
    add("itertools", name);
  }
  return types;
}

Recipe recipe_of_iterator(Walker& walker, PyObject* iterator, const Expr& self) {
  const auto& given_back = walker.capture().given_back;
  if (const auto elements = given_back.find(iterator); elements != given_back.end()) {
    std::vector<Expr> items;
    for (PyObject* item : list_items(elements->second.get())) items.push_back(walker.ref(item));
    Recipe recipe;
    recipe.make = Expr::call(builtin_iter(), exprs(Expr::list(Expr::Kind::List, std::move(items))));
    return recipe;
  }
  if (PyObject* dict = py::dict_of_view(iterator)) {
    Recipe recipe;
    recipe.make = Expr::call(lookup(&PyDict_Type, view_method(Py_TYPE(iterator))), exprs(walker.ref(dict)));
    return recipe;
  }
  const IteratorKind kind = py::iterator_kind(iterator);
  if (kind >= IteratorKind::DictKeys && kind <= IteratorKind::Set)
    return recipe_of_table_iterator(walker, iterator, kind, self);
  return recipe_by_reduce(walker, iterator, kind, self);
}

}  // namespace pellucid::codegen
