// The functions and types of the module builtins.
#include "protocols/arrays.h"
#include "protocols/numbers.h"
#include "protocols/torch_function.h"
#include "py/cpython.h"
#include "py/keys.h"
#include "region/arrays.h"
#include "region/enums.h"
#include "region/snapshot.h"
#include "region/subclasses.h"
#include "rows/rows.h"

namespace pellucid::rows {

using K = Continuation::Kind;
using region::Contents;
using region::Frame;
using region::names;

namespace {

Result len(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  return protocols::length(t, args[0]);
}

Result iter(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 1, 1)) return protocols::iterate(t, args[0]);
  if (only_positional(args, 2, 2)) return protocols::call_polyfill(t, "iter_until", args.values);
  return complain(t, f, args);
}

Result next(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 1, 1)) return protocols::next(t, args[0]);
  if (only_positional(args, 2, 2))
    return t.and_then(protocols::next(t, args[0]), Continuation(K::Default, PyExc_StopIteration, args[1]));
  return complain(t, f, args);
}

Result getattr(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 3) || !PyUnicode_Check(args[1])) return complain(t, f, args);
  const auto name = py::interned(args[1]);
  Result found = protocols::getattr(t, args[0], name.get());
  if (args.size() == 2) return found;
  return t.and_then(std::move(found), Continuation(K::Default, PyExc_AttributeError, args[2]));
}
Result hasattr(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || !PyUnicode_Check(args[1])) return complain(t, f, args);
  return t.and_then(protocols::getattr(t, args[0], py::interned(args[1]).get()), Continuation(K::HasAttr));
}
Result setattr(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 3, 3)) return complain(t, f, args);
  PyObject* name = t.region.numbers.plain(args[1]);
  if (!PyUnicode_Check(name)) return complain(t, f, args);
  return protocols::as_none(protocols::setattr(t, args[0], py::interned(name).get(), args[2]));
}
Result delattr(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || !PyUnicode_Check(args[1])) return complain(t, f, args);
  return protocols::as_none(protocols::setattr(t, args[0], py::interned(args[1]).get(), nullptr));
}

Result isinstance(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return complain(t, f, args);
  return protocols::is_instance(t, args[0], args[1], false);
}
Result issubclass(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return complain(t, f, args);
  return protocols::is_instance(t, args[0], args[1], true);
}

Result type(Interpreter& t, PyObject*, Args args) {
  if (!only_positional(args, 1, 1)) return protocols::make_instance(t, reinterpret_cast<PyObject*>(&PyType_Type), args);
  const auto presented =
      region::of_presented_type(region::of_same_type(t.region.numbers, t.region.shadows.original(args[0])));
  PyObject* object = presented.get();
  auto* found = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (region::cat_of(args[0]) == Cat::Generator) unsupported(Reason::Reflection, {{"callee", "type() of a generator"}});
  t.region.provenance.note_constant(found);
  return Result::of(py::Owned<>::share(found));
}

Result callable_(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  PyObject* call = PyType_Check(args[0]) ? Py_True : t.region.lookups.type_lookup(Py_TYPE(args[0]), names().__call__);
  return Result::boolean(call != nullptr);
}

Result id_(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  PyObject* object = t.region.shadows.original(args[0]);
  const region::Source* source = t.region.provenance.source_of(object);
  t.region.capture->of_this_process = "it asks for an address";
  if (source == nullptr) {
    auto number = py::take(PyLong_FromVoidPtr(object));
    t.region.provenance.keep(object);
    t.region.provenance.keep(number.get());
    t.region.capture->region_ids.insert(number.get());
    return Result::of(std::move(number));
  }
  t.region.provenance.guard_identity(object);
  PyObject* values[] = {object};
  return run_native(t, f, Args{values, nullptr});
}

// A number that says something about this very run: fine as a key or to compare, but it must not leave the region.
Result region_number(Interpreter& t, PyObject* f, Args args) {
  auto number = py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), args.size(), args.kwnames));
  if (!number) return t.raise_pending(py::PythonError());
  t.region.capture->of_this_process = "it asks for a hash";
  for (PyObject* value : args.values) t.region.provenance.keep(value);
  t.region.provenance.keep(number.get());
  t.region.capture->region_ids.insert(number.get());
  return Result::of(std::move(number));
}

Result refuse_conversion(Interpreter&, PyObject*, Args) {
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "a subclass as the result"}, {"type", "conversion"}});
}

Result hash_(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  const Cat cat = region::cat_of(args[0]);
  const bool user_enum = cat == Cat::EnumMember && region::has_user_method(t.region, Py_TYPE(args[0]), "__hash__");
  if (cat == Cat::Number || cat == Cat::Text || cat == Cat::Singleton || cat == Cat::TorchAtom ||
      (cat == Cat::EnumMember && !user_enum))
    return run_native(t, f, args);
  if (cat == Cat::Instance || user_enum) {
    PyObject* method = t.region.lookups.type_lookup(Py_TYPE(args[0]), names().__hash__);
    if (method != nullptr && PyFunction_Check(method)) return protocols::call_polyfill(t, "hash_of", args.values);
    if (method == nullptr || method == Py_None) {
      const std::string text = std::string("unhashable type: '") + Py_TYPE(args[0])->tp_name + "'";
      return t.raise(PyExc_TypeError, text);
    }
    if (!t.region.provenance.is_outside(t.region.shadows.original(args[0]))) {
      PyObject* values[] = {args[0]};
      return region_number(t, f, Args{values, nullptr});
    }
    return id_(t, f, args);
  }
  return pure(t, f, args);
}

// str(x), repr(x), format(x, spec)
Result str_(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 0, 0)) return run_native(t, f, args);
  if (!only_positional(args, 1, 1)) return coded(t, f, args);
  return protocols::to_text(t, args[0], "__str__");
}
Result repr_(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  return protocols::to_text(t, args[0], "__repr__");
}
Result format_(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 2) || (args.size() == 2 && !PyUnicode_Check(args[1]))) return complain(t, f, args);
  auto empty = py::str("");
  return protocols::format(t, args[0], args.size() == 2 ? args[1] : empty.get());
}

Result bool_(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 0, 0)) return Result::boolean(false);
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  return protocols::truth(t, args[0]);
}

// int(x), float(x), complex(x): of numbers and texts natively, of tensors data, of user objects by their dunder.
Result number(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 1, 1)) {
    const std::string name = reinterpret_cast<PyTypeObject*>(f)->tp_name;
    const Cat cat = region::cat_of(args[0]);
    if (cat == Cat::Tensor) {
      // A mode would hear of another method than item().
      const bool is_number = !region::is_subclassed(args[0]) && !protocols::is_answered(t, args[0]) &&
                             (protocols::gives_item(t, args[0]) || t.region.late_items.may_read_as(f, args[0]));
      if (!is_number) unsupported(Reason::DataDependent, {{"operation", name + "() of a tensor"}});
      PyObject* values[] = {f, args[0]};
      return protocols::call_polyfill(t, "item_as", values);
    }
    if (cat == Cat::Array) return protocols::array_number(t, f, args[0]);
    if (cat == Cat::Instance && t.region.lookups.type_lookup(Py_TYPE(args[0]), ("__" + name + "__").c_str()) != nullptr)
      return protocols::call_polyfill(t, (name + "_of").c_str(), args.values);
  }
  return pure(t, f, args);
}

Result range_(Interpreter& t, PyObject* f, Args args) {
  const auto is_index = [&](PyObject* value) { return protocols::is_index(t, value); };
  if (args.keyword_count() == 0 && std::ranges::any_of(args.values, is_index))
    return protocols::call_polyfill(t, "range_of", args);
  return pure(t, f, args);
}

// frozenset(x) of elements that are hashed one by one, as they come.
Result set_first(Interpreter& t, PyObject* f, Args args) {
  Continuation convert(K::CallWith, f, py::take(PyTuple_Pack(1, Py_None)).get());
  return t.and_then(protocols::call_polyfill(t, "set_from", args.values), std::move(convert));
}

// The tuple of elements when they are known without running Python; otherwise a polyfill builds the container from the
// iterator.
Result container(Interpreter& t, PyObject* f, Args args) {
  auto* kind = reinterpret_cast<PyTypeObject*>(f);
  if (only_positional(args, 0, 0)) return run_native(t, f, args);
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  auto held = py::Owned<>::share(args[0]);
  if (kind == &PyTuple_Type && PyTuple_CheckExact(args[0])) return Result::of(std::move(held));
  const bool to_set = kind == &PySet_Type || kind == &PyFrozenSet_Type;
  PyObject* source = t.region.shadows.original(args[0]);
  if (kind == &PyFrozenSet_Type && PyFrozenSet_CheckExact(source)) return Result::of(py::Owned<>::share(source));
  if (auto elements = to_set ? protocols::elements_for_set(t, args[0]) : protocols::native_elements(t, args[0])) {
    if (to_set) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements.get()); ++i) {
        PyObject* item = PyTuple_GET_ITEM(elements.get(), i);
        if (t.region.reads.hashable_natively(item) || py::cannot_be_hashed(item)) continue;
        if (PyAnySet_CheckExact(source)) {  // copied with the hashes that it has
          PyObject* values[] = {t.region.reads.touch(source)};
          return run_native(t, f, Args{values, nullptr});
        }
        // An iterator has been used up now: go on with its elements.
        PyObject* values[] = {region::cat_of(source) == Cat::Iterator ? elements.get() : args[0]};
        if (kind == &PyFrozenSet_Type) return set_first(t, f, Args{values, nullptr});
        return protocols::call_polyfill(t, "set_from", values);
      }
    }
    // From a set or dict the new set gets a table of another size, and so another order, than from a sequence.
    const bool whole = to_set && (PyAnySet_Check(source) || PyDict_CheckExact(source));
    PyObject* values[] = {whole ? t.region.reads.touch(source) : elements.get()};
    return run_native(t, f, Args{values, nullptr});
  }
  if (kind == &PyFrozenSet_Type) return set_first(t, f, args);
  const bool sized = region::has_python_length(t.region, args[0]);
  const char* name = kind == &PyList_Type    ? (sized ? "list_of_sized" : "list_from")
                     : kind == &PyTuple_Type ? (sized ? "tuple_of_sized" : "tuple_from")
                                             : "set_from";
  return protocols::call_polyfill(t, name, args.values);
}

Result dict(Interpreter& t, PyObject* f, Args args) {
  if (args.size() > 1) return complain(t, f, args);
  auto named = py::take(PyDict_New());
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    py::check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  }
  if (args.size() == 0) return Result::of(std::move(named));
  PyObject* source = t.region.shadows.original(args[0]);
  if (region::merges_as_dict(t.region, source)) {
    auto copy = region::copy_of_dict(t.region.reads.touch(source));
    py::check(PyDict_Update(copy.get(), named.get()));
    return Result::of(std::move(copy));
  }
  bool mapping = t.region.lookups.type_lookup(Py_TYPE(source), "keys") != nullptr;
  PyObject* values[] = {source};
  if (PyDict_GET_SIZE(named.get()) > 0) {
    if (mapping) unsupported(Reason::BadArguments, {{"callee", "dict(mapping, **kwargs)"}});
    unsupported(Reason::BadArguments, {{"callee", "dict(iterable, **kwargs)"}});
  }
  // A generator of the region may stand for a builtin iterator. Neither has `keys`, and nothing can be set on them.
  const bool pairs = region::cat_of(source) == Cat::Generator;
  return protocols::call_polyfill(t, mapping ? "dict_from_mapping" : pairs ? "dict_from_pairs" : "dict_from", values);
}

// Elements are plain numbers or texts: C code may compare and add them. The tuple is the caller's own.
bool plain_elements(Interpreter& t, PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject*& slot = reinterpret_cast<PyTupleObject*>(tuple)->ob_item[i];
    if (region::is_number(slot) && region::as_number(slot)->of_tensor) return false;
    if (region::is_number(slot) && !region::is_open(slot)) Py_SETREF(slot, Py_NewRef(t.region.numbers.plain(slot)));
    PyObject* item = slot;
    const Cat cat = region::cat_of(item);
    if (region::is_atom(cat) && cat != Cat::EnumMember) continue;
    const Contents inside = t.region.reads.deep_touch(item);
    if (cat != Cat::Tuple && cat != Cat::List) return false;
    if (inside.tensor || inside.user || inside.shadowed) return false;
  }
  return true;
}

Result reduction(Interpreter& t, PyObject* f, Args args, const char* polyfill) {
  const bool has_key = args.keyword("key") != nullptr && args.keyword("key") != Py_None;
  if (!has_key && args.size() >= 1) {
    if (args.size() == 1 && region::cat_of(args[0]) != Cat::Generator) {
      if (auto elements = protocols::native_elements(t, args[0]); elements && plain_elements(t, elements.get())) {
        std::vector<PyObject*> values{elements.get()};
        for (std::size_t i = 1; i < args.values.size(); ++i) values.push_back(args.values[i]);
        return run_native(t, f, Args{values, args.kwnames});
      }
      // An iterator has been used up now: go on with its elements.
    }
    bool plain = args.size() > 1;
    for (PyObject* value : args.positional()) plain = plain && region::is_atom(region::cat_of(value));
    if (plain) return run_native(t, f, args);
  }
  return protocols::call_polyfill(t, polyfill, args);
}
// The elements of an iterator are taken once: later attempts get the list.
Result reduction_once(Interpreter& t, PyObject* f, Args args, const char* polyfill) {
  if (args.size() == 1 && region::cat_of(args[0]) == Cat::Iterator) {
    if (auto elements = protocols::native_elements(t, args[0])) {
      std::vector<PyObject*> values(args.values.begin(), args.values.end());
      values[0] = elements.get();
      return reduction(t, f, Args{values, args.kwnames}, polyfill);
    }
  }
  return reduction(t, f, args, polyfill);
}
Result max(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0) return complain(t, f, args);
  return reduction_once(t, f, args, "max_of");
}
Result min(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0) return complain(t, f, args);
  return reduction_once(t, f, args, "min_of");
}
Result sum(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 2 || args.keyword("start") != nullptr) {
    return protocols::call_polyfill(t, "sum_of", args);
  }
  return reduction_once(t, f, args, "sum_of");
}
Result any(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  return protocols::call_polyfill(t, "any_of", args.values);
}
Result all(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  return protocols::call_polyfill(t, "all_of", args.values);
}

Result sorted(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return complain(t, f, args);
  PyObject* key = args.keyword("key");
  PyObject* reverse = args.keyword("reverse");
  if (key == nullptr) key = Py_None;
  if (reverse == nullptr) reverse = Py_False;
  if (key == Py_None && region::is_atom(region::cat_of(reverse))) {
    if (auto elements = protocols::native_elements(t, args[0])) {
      if (plain_elements(t, elements.get())) {
        std::vector<PyObject*> values{elements.get()};
        for (std::size_t i = 1; i < args.values.size(); ++i) values.push_back(args.values[i]);
        return run_native(t, f, Args{values, args.kwnames});
      }
      PyObject* values[] = {elements.get(), key, reverse};
      return protocols::call_polyfill(t, "sorted_by", values);
    }
  }
  if (region::has_python_length(t.region, args[0])) {
    auto one = py::take(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
    for (std::size_t i = 0; i < args.values.size(); ++i)
      PyTuple_SET_ITEM(one.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
    return t.and_then(protocols::call_polyfill(t, "list_of_sized", args.values.first(1)),
                      Continuation(K::CallWith, f, one.get(), args.kwnames));
  }
  PyObject* values[] = {args[0], key, reverse};
  return protocols::call_polyfill(t, "sorted_by", values);
}

Result super_(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 2) return run_native(t, f, args);
  if (args.size() != 0) unsupported(Reason::BadArguments, {{"callee", "super() with one argument"}});
  const Frame& frame = *t.region.top;
  PyCodeObject* code = frame.code.get();
  const auto fails = [&](const char* why) { return t.raise(PyExc_RuntimeError, std::string("super(): ") + why); };
  PyObject* cls = nullptr;
  bool has_cell = false;
  for (int i = py::first_free_slot(code); i < py::slot_count(code); ++i) {
    if (PyUnicode_CompareWithASCIIString(py::slot_name(code, i), "__class__") != 0) continue;
    has_cell = true;
    cls = t.region.shadows.cell_get(frame.local(i));
  }
  if (code->co_argcount == 0) return fails("no arguments");
  const py::Owned<> first = t.region.provenance.read(frame.local(0));
  PyObject* self = first.get();
  // An argument that is captured by an inner function lives in a cell.
  if (self != nullptr && PyCell_Check(self)) self = t.region.shadows.cell_get(self);
  if (self == nullptr) return fails("arg[0] deleted");
  if (!has_cell) return fails("__class__ cell not found");
  if (cls == nullptr) return fails("empty __class__ cell");
  PyObject* values[] = {cls, self};
  return run_native(t, f, Args{values, nullptr});
}

Result object_(Interpreter& t, PyObject* f, Args args) {
  if (args.values.empty()) return run_native(t, f, args);
  return complain(t, f, args);
}
Result object_new(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 1 || !PyType_Check(args[0])) return complain(t, f, args);
  auto* type = reinterpret_cast<PyTypeObject*>(args[0]);
  if (py::type_lookup(type, names().__del__) != nullptr) unsupported(Reason::Finalizer, {{"type", type->tp_name}});
  if (region::cat_of(type) != Cat::Instance) return run_native(t, f, args);
  for (PyObject* name : {names().__init__, names().__new__}) (void)t.region.lookups.type_lookup(type, name);  // guarded
  const bool own_new = type->tp_new != PyBaseObject_Type.tp_new, own_init = type->tp_init != PyBaseObject_Type.tp_init;
  if (args.values.size() > 1 && (own_new || !own_init)) return complain(t, f, args);
  PyObject* values[] = {args[0]};
  return run_native(t, f, Args{values, nullptr});  // extra arguments are __init__'s
}
Result tuple_new(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  auto elements = protocols::native_elements(t, args[1]);
  if (!elements) {
    auto both = py::take(PyTuple_Pack(2, args[0], args[1]));
    Continuation again(K::CallWith, f, both.get(), nullptr);
    again.number = 1;
    return t.and_then(protocols::call_polyfill(t, "list_from", std::span<PyObject* const>(&args.values[1], 1)),
                      std::move(again));
  }
  PyObject* values[] = {args[0], elements.get()};
  return run_native(t, f, Args{values, nullptr});
}

Result vars(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) unsupported(Reason::StackInspection, {{"callee", "vars()"}});
  PyTypeObject* type = Py_TYPE(args[0]);
  if (type->tp_dictoffset == 0 && t.region.lookups.type_lookup(type, names().__dict__) == nullptr &&
      t.region.lookups.type_lookup(type, "__getattr__") == nullptr)
    return run_native(t, f, args);  // CPython words the error
  return protocols::getattr(t, args[0], names().__dict__);
}

// type's own check, reached through super() in a metaclass.
Result type_check(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  PyObject* values[] = {args[0], region::of_same_type(t.region.numbers, t.region.shadows.original(args[1]))};
  return run_native(t, f, Args{values, nullptr});
}

Result inspects_stack(Interpreter&, PyObject* f, Args) {
  unsupported(Reason::StackInspection, {{"callee", describe(f)}});
}

// property(…): keeps its arguments, reads nothing of them but fget.__doc__.
Result stores_arguments(Interpreter& t, PyObject* f, Args args) { return run_native(t, f, args); }

Result slice_(Interpreter& t, PyObject* f, Args args) { return run_native(t, f, args); }

Result cached_property_get(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, "cached_property_get", args);
}

const Row rows[] = {
    {"functools.cached_property.__get__", cached_property_get},
    {"_thread.get_ident", region_number},
    {"builtins.len", len},
    {"builtins.iter", iter},
    {"builtins.next", next},
    {"builtins.getattr", getattr},
    {"builtins.hasattr", hasattr},
    {"builtins.setattr", setattr, true, true},
    {"builtins.delattr", delattr},
    {"builtins.isinstance", isinstance, true, true},
    {"builtins.issubclass", issubclass},
    {"builtins.type", type, true, true},
    {"builtins.callable", callable_},
    {"builtins.id", id_},
    {"builtins.hash", hash_},
    {"builtins.str", str_},
    {"builtins.repr", repr_},
    {"builtins.format", format_},
    {"builtins.bool", bool_},
    {"builtins.int", number},
    {"builtins.float", number},
    {"builtins.complex", number},
    {"builtins.range", range_},
    {"builtins.list", container},
    {"builtins.tuple", container},
    {"builtins.set", container},
    {"builtins.frozenset", container},
    {"builtins.dict", dict},
    {"pellucid.polyfills.refuse_conversion", refuse_conversion},
    {"builtins.max", max, true, true},
    {"builtins.min", min, true, true},
    {"builtins.sum", sum},
    {"builtins.any", any},
    {"builtins.all", all},
    {"builtins.sorted", sorted},
    {"builtins.super", super_},
    {"builtins.object", object_},
    {"builtins.object.__new__", object_new},
    {"builtins.tuple.__new__", tuple_new},
    {"builtins.property", stores_arguments},
    {"builtins.property.__init__", stores_arguments},
    {"builtins.vars", vars},
    {"builtins.slice", slice_, true, true},
    {"builtins.type.__instancecheck__", type_check, true, true},
    {"builtins.type.__subclasscheck__", type_check},
    {"builtins.locals", inspects_stack},
    {"builtins.globals", inspects_stack},
    {"builtins.dir", inspects_stack},
    {"builtins.exec", refuse},
    {"builtins.eval", refuse},
    {"builtins.print", refuse},
    {"builtins.input", refuse},
    {"builtins.open", refuse},
    {"builtins.breakpoint", refuse},
    {"sys._getframe", inspects_stack},
};

}  // namespace

const std::span<const Row> kBuiltinRows = rows;

}  // namespace pellucid::rows
