// The builtins and the parts of itertools that go over other iterators: the real one over elements that are known, a
// generator polyfill otherwise.
#include "py/iterators.h"

#include <algorithm>

#include "rows/rows.h"

namespace pellucid::rows {
namespace {

using region::names;

bool is_function(PyObject* found) { return found != nullptr && PyFunction_Check(found); }

// Asking it for its iterator, or that iterator for an element, runs Python code.
bool runs_python(Interpreter& t, PyObject* iterable) {
  const Cat cat = region::cat_of(iterable);
  if (cat == Cat::Generator || cat == Cat::Tensor || cat == Cat::Iterator || PyGen_CheckExact(iterable)) return false;
  PyTypeObject* type = Py_TYPE(iterable);
  if (is_function(t.region.lookups.type_lookup(type, names().__next__))) return true;
  PyObject* own = t.region.lookups.type_lookup(type, names().__iter__);
  return own != nullptr ? is_function(own) : is_function(t.region.lookups.type_lookup(type, names().__getitem__));
}

// Of an iterator: the real map, zip … over it knows all elements now.
bool is_known(Interpreter& t, PyObject* iterator) {
  return region::cat_of(iterator) == Cat::Iterator && !t.region.provenance.is_outside(iterator);
}

struct Lazy {
  const char* polyfill;
  std::size_t first, last;  // the positional arguments that it goes over
  bool native = false;      // the real one over known iterators, whatever else it is given
};

// When they are made they ask what they go over for its iterator, in order. Where that is Python code a polyfill asks,
// and calls the same function with the iterators.
Result make(Interpreter& t, PyObject* f, Args args, Lazy kind) {
  const std::size_t last = std::min(kind.last, args.size());
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  const auto python = [&](std::size_t i) { return runs_python(t, t.region.shadows.original(values[i])); };
  for (std::size_t i = kind.first; i < last; ++i) {
    if (!python(i)) continue;
    const auto first_of_them = py::take(PyLong_FromSize_t(kind.first)), end = py::take(PyLong_FromSize_t(last));
    values.insert(values.begin(), {f, first_of_them.get(), end.get()});
    return protocols::call_polyfill(t, "over_iterators", Args{values, args.kwnames});
  }
  std::vector<py::Owned<>> held;
  bool known = kind.native;
  for (std::size_t i = kind.first; i < last; ++i) {
    Result it = protocols::iterate(t, values[i]);
    if (it.did == Result::Did::Raised) return it;
    if (!it.is_value()) unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
    known = known && is_known(t, it.value.get());
    values[i] = it.value.get();
    held.push_back(std::move(it.value));
  }
  if (known) return run_native(t, f, Args{values, args.kwnames});
  return protocols::call_polyfill(t, kind.polyfill, Args{values, args.kwnames});
}

// What CPython says about the keywords, before it looks at what it goes over.
Result refused_keywords(Interpreter& t, PyObject* f, Args args) {
  if (args.keyword_count() == 0) return Result::none();
  return run_native(t, f, Args{args.values.subspan(args.size()), args.kwnames});
}

// The same where the first argument is what it goes over and the others are numbers or functions.
Result refused_numbers(Interpreter& t, PyObject* f, Args args) {
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  auto nothing = py::take(PyTuple_New(0));
  if (args.size() != 0) values[0] = nothing.get();
  return run_native(t, f, Args{values, args.kwnames});
}

Result zip(Interpreter& t, PyObject* f, Args args) {
  Result trial = refused_keywords(t, f, args);
  if (!trial.is_value()) return trial;
  return make(t, f, args, {"zip_each", 0, args.size(), true});
}

// make() looks at positional arguments.
void refuse_iterable_by_name(PyObject* f, Args args) {
  if (args.keyword("iterable") != nullptr)
    unsupported(Reason::BadArguments, {{"callee", describe(f) + " with an iterable given by name"}});
}

Result enumerate(Interpreter& t, PyObject* f, Args args) {
  refuse_iterable_by_name(f, args);
  if (args.values.size() > 2) return complain(t, f, args);
  PyObject* start = args.size() == 2 ? args[1] : args.keyword("start");
  if (start != nullptr && !PyLong_Check(start)) {  // looked at before the iterable
    if (PyIndex_Check(start) != 0)
      unsupported(Reason::UserDunder, {{"operation", "enumerate"}, {"callee", "__index__"}});
    std::string text = std::string("'") + Py_TYPE(start)->tp_name + "' object cannot be interpreted as an integer";
    return t.raise(PyExc_TypeError, text);
  }
  return make(t, f, args, {"enumerate_each", 0, 1, true});
}

Result map(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || args.keyword_count() != 0) return complain(t, f, args);
  return make(t, f, args, {args.size() == 2 ? "map_each" : "map_several", 1, args.size()});
}

Result reversed(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1)) return complain(t, f, args);
  PyObject* sequence = t.region.shadows.original(args[0]);
  const Cat cat = region::cat_of(sequence);
  PyObject* own = t.region.lookups.type_lookup(Py_TYPE(sequence), names().__reversed__);
  if (own != nullptr && PyFunction_Check(own)) return protocols::call1(t, own, sequence);
  if (cat == Cat::Range || cat == Cat::Text) return run_native(t, f, args);
  if (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Deque) {
    return walker_of(t, f, t.region.shadows.view_of(sequence),
                     sequence);  // what the region changes of it later is seen
  }
  if (cat == Cat::Iterator && !t.region.provenance.is_outside(sequence))  // dict views
    return walker_of(t, f, sequence, py::dict_walked_by(sequence));
  if (own != nullptr && own != Py_None) return protocols::special(t, sequence, "__reversed__", {});
  if (own == Py_None || PySequence_Check(sequence) == 0) {
    return t.raise(PyExc_TypeError, std::string("'") + Py_TYPE(sequence)->tp_name + "' object is not reversible");
  }
  return protocols::call_polyfill(t, "reversed_of", args.values);
}

struct Name {  // a text that a template takes
  char text[24]{};
  template <std::size_t size>
  consteval Name(const char (&literal)[size]) {  // NOLINT(google-explicit-constructor)
    std::ranges::copy(literal, text);
  }
};

// With exactly these arguments, of which the last is gone over.
template <std::size_t count, Name polyfill>
Result over_last(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, count, count)) return complain(t, f, args);
  return make(t, f, args, {polyfill.text, count - 1, count});
}
Result compress(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return complain(t, f, args);
  return make(t, f, args, {"compress_each", 0, 2});
}
Result accumulate(Interpreter& t, PyObject* f, Args args) {
  refuse_iterable_by_name(f, args);
  Result trial = refused_numbers(t, f, args);
  if (!trial.is_value()) return trial;
  return make(t, f, args, {"accumulate_each", 0, 1});
}

Result groupby(Interpreter& t, PyObject* f, Args args) {
  refuse_iterable_by_name(f, args);
  if (args.size() == 0 || args.size() > 2) return complain(t, f, args);
  return make(t, f, args, {"groupby_each", 0, 1});
}

// It asks each for its iterator when the one before has ended.
Result chain(Interpreter& t, PyObject* f, Args args) {
  if (args.keyword_count() != 0) return complain(t, f, args);
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values;
  for (PyObject* iterable : args.values) {
    const Cat cat = region::cat_of(iterable);
    const bool is_view = py::dict_of_view(iterable) != nullptr;
    const bool is_known = cat == Cat::List || cat == Cat::Tuple || cat == Cat::Range || cat == Cat::Text ||
                          (cat == Cat::Iterator && !is_view && !t.region.provenance.is_outside(iterable));
    if (!is_known) return protocols::call_polyfill(t, "chain_each", args);
    Result it = protocols::iterate(t, iterable);
    if (!it.is_value()) unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
    held.push_back(std::move(it.value));
    values.push_back(held.back().get());
  }
  return run_native(t, f, Args{values, nullptr});
}
Result chain_from(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2)) return complain(t, f, args);
  const auto bound = py::take(PyObject_GetAttr(args[0], py::interned("from_iterable").get()));
  return make(t, bound.get(), Args{args.values.subspan(1), nullptr}, {"chain_from", 0, 1});
}

// It takes all elements when it is made, of one after the other.
Result product(Interpreter& t, PyObject* f, Args args) {
  Result trial = refused_keywords(t, f, args);
  if (!trial.is_value()) return trial;
  PyObject* repeat = args.keyword("repeat");
  if (repeat != nullptr && PyLong_Check(repeat) && PyObject_IsTrue(repeat) == 0)  // looks at none of them
    return run_native(t, f, Args{args.values.subspan(args.size()), args.kwnames});
  const bool python = std::ranges::any_of(args.positional(), [&](PyObject* iterable) {
    const Cat cat = region::cat_of(iterable);
    return (cat == Cat::Iterator && t.region.provenance.is_outside(iterable)) || cat == Cat::Generator ||
           PyGen_CheckExact(iterable) || runs_python(t, t.region.shadows.original(iterable));
  });
  if (!python) return make(t, f, args, {nullptr, 0, args.size(), true});
  return protocols::call_polyfill(t, "product_of", args);
}
Result zip_longest(Interpreter& t, PyObject* f, Args args) {
  Result trial = refused_keywords(t, f, args);
  if (!trial.is_value()) return trial;
  return make(t, f, args, {"zip_longest_each", 0, args.size(), true});
}
Result combinations(Interpreter& t, PyObject* f, Args args) {
  if (auto items = args.size() >= 1 ? protocols::native_elements(t, args[0]) : py::Owned<>()) {
    std::vector<PyObject*> values(args.values.begin(), args.values.end());
    values[0] = items.get();
    return run_native(t, f, Args{values, args.kwnames});
  }
  unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
}

Result islice(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    if (PyIndex_Check(value) != 0 && !PyLong_CheckExact(value) && !PyBool_Check(value) && value != args.values[0])
      unsupported(Reason::UserDunder, {{"operation", "islice"}, {"callee", "__index__"}});
  }
  Result trial = refused_numbers(t, f, args);
  if (!trial.is_value()) return trial;
  if (runs_python(t, t.region.shadows.original(args[0]))) return make(t, f, args, {nullptr, 0, 1});
  Result it = protocols::iterate(t, args[0]);
  if (it.did == Result::Did::Raised) return it;
  if (!it.is_value()) unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  auto zero = py::take(PyLong_FromLong(0)), one = py::take(PyLong_FromLong(1));
  PyObject* start = args.size() == 2 ? zero.get() : args[1];
  PyObject* stop = args.size() == 2 ? args[1] : args[2];
  PyObject* step = args.size() == 4 ? args[3] : one.get();
  if (is_known(t, it.value.get())) {
    std::vector<PyObject*> values(args.values.begin(), args.values.end());
    values[0] = it.value.get();
    return run_native(t, f, Args{values, nullptr});
  }
  PyObject* values[] = {it.value.get(), start == Py_None ? zero.get() : start, stop,
                        step == Py_None ? one.get() : step};
  return protocols::call_polyfill(t, "islice_each", values);
}

Result count_repeat(Interpreter& t, PyObject* f, Args args) { return run_native(t, f, args); }

Result reversed_from(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, "reversed_each", args);
}

Result as_given(Interpreter& t, PyObject*, Args args) {
  if (runs_python(t, t.region.shadows.original(args[0]))) return protocols::call_polyfill(t, "each_of", args);
  return Result::of(py::Owned<>::share(args[0]));
}

constexpr Row rows[] = {
    {"builtins.zip", zip},
    {"builtins.enumerate", enumerate},
    {"builtins.map", map},
    {"builtins.filter", over_last<2, "filter_each">},
    {"builtins.reversed", reversed},
    {"itertools.chain", chain},
    {"itertools.chain.from_iterable", chain_from},
    {"itertools.product", product},
    {"itertools.zip_longest", zip_longest},
    {"itertools.islice", islice},
    {"itertools.starmap", over_last<2, "starmap_each">},
    {"itertools.takewhile", over_last<2, "takewhile_each">},
    {"itertools.dropwhile", over_last<2, "dropwhile_each">},
    {"itertools.filterfalse", over_last<2, "filterfalse_each">},
    {"itertools.compress", compress},
    {"itertools.cycle", over_last<1, "cycle_each">},
    {"itertools.accumulate", accumulate},
    {"itertools.groupby", groupby},
    {"itertools.count", count_repeat},
    {"itertools.repeat", count_repeat},
    {"itertools.combinations", combinations},
    {"itertools.permutations", combinations},
    {"itertools.combinations_with_replacement", combinations},
    {"itertools.pairwise", over_last<1, "pairwise_each">},
    {"pellucid.polyfills_language.as_given", as_given},
    {"pellucid.polyfills_language.reversed_from", reversed_from},
};

}  // namespace

const std::span<const Row> kIteratorRows = rows;

}  // namespace pellucid::rows
