#include "protocols/open_arrays.h"

#include <algorithm>
#include <limits>

#include "aten/replay.h"
#include "py/interrupts.h"
#include "py/numpy_array.h"
#include "region/arrays.h"
#include "symbolic/integers.h"

namespace pellucid::protocols {
namespace {

// No size rule says what this gives.
struct Unknown {};

bool is_array(PyObject* value) { return !region::is_number(value) && cat_of(value) == Cat::Array; }

// The parts of a container or slice; nothing of anything else.
std::vector<PyObject*> parts_of(PyObject* value) {
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return {slice->start, slice->stop, slice->step};
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return {};
  return {PySequence_Fast_ITEMS(value), PySequence_Fast_ITEMS(value) + PySequence_Fast_GET_SIZE(value)};
}

// The same container of other parts; anything else is itself.
template <class Map>
py::Owned<> mapped(PyObject* value, Map&& map) {
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return py::take(PySlice_New(map(slice->start).get(), map(slice->stop).get(), map(slice->step).get()));
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return py::Owned<>::share(value);
  auto items = py::take(PyList_New(0));
  for (PyObject* part : parts_of(value)) py::check(PyList_Append(items.get(), map(part).get()));
  return PyList_Check(value) ? std::move(items) : py::take(PyList_AsTuple(items.get()));
}

template <class Holds>
bool holds_any(PyObject* value, Holds&& is_one) {
  if (is_one(value)) return true;
  return std::ranges::any_of(parts_of(value), [&](PyObject* part) { return holds_any(part, is_one); });
}

bool is_open_size(Interpreter& t, PyObject* value) {
  return region::is_open_int(value) && region::enters_graph(t.region.numbers.policy, value);
}

std::vector<const symbolic::Expr*> open_sizes(Interpreter& t, PyObject* array) {
  return region::open_sizes_of_array(t.region, array);
}

// What ran on fakes was no node of the graph.
void forget_facts() {
  (void)aten::take_operators();
  (void)aten::take_facts();
}

bool has_unknown_length(PyObject* array) {
  return is_array(array) && region::is_stand_in(array) &&
         py::take(PyObject_GetAttrString(array, "unknown")).get() != Py_None;
}

// Of what a mask selects: whether its other sizes, the last of the array, are those at hand.
bool is_closed_behind_first(Interpreter& t, PyObject* fake, PyObject* selected) {
  const auto sizes = t.region.recorder.fakes().open_shape(fake).sizes;
  if (sizes.empty()) return true;
  const auto last = static_cast<std::ptrdiff_t>(py::dimensions_of(selected) - 1);
  return std::all_of(sizes.end() - last, sizes.end(), [&](const symbolic::Expr* size) {
    return t.region.numbers.space().simplify(size)->is_constant();
  });
}

// A fake tensor with the sizes of an array, of which these are open.
py::Owned<> fake_of_sizes(Interpreter& t, PyObject* array, const std::vector<const symbolic::Expr*>& open) {
  if (has_unknown_length(array)) throw Unknown();
  static PyObject* const empty = py::import_attr("torch", "empty").release();
  static PyObject* const float64 = py::import_attr("torch", "float64").release();
  static PyObject* const int64 = py::import_attr("torch", "int64").release();
  static PyObject* const truth = py::import_attr("torch", "bool").release();
  static PyObject* const names = py::take(Py_BuildValue("(ss)", "dtype", "device")).release();
  static PyObject* const cpu = py::str("cpu").release();
  const Py_ssize_t count = py::dimensions_of(array);
  auto sizes = py::take(PyTuple_New(count));
  const auto known = py::take(PyObject_GetAttrString(array, "shape"));
  const char kind = region::numpy_kind(array);
  const bool counts = (kind == 'i' || kind == 'u') && count > 0;  // as an index it is one
  for (Py_ssize_t i = 0; i < count; ++i) {
    const symbolic::Expr* size = open.empty() ? nullptr : open[static_cast<std::size_t>(i)];
    const bool changes = size != nullptr && !size->is_constant();
    auto item =
        changes ? t.region.recorder.fakes().number_of(size) : py::Owned<>::share(PyTuple_GET_ITEM(known.get(), i));
    PyTuple_SET_ITEM(sizes.get(), i, item.release());
  }
  PyObject* values[] = {sizes.get(), kind == 'b' ? truth : counts ? int64 : float64, cpu};
  auto fake = t.region.recorder.fakes().call(empty, values, 1, names);
  forget_facts();
  return fake;
}

// What a tree of calls of torch gives (pellucid._numpy_torch.Call), none of them a node.
py::Owned<> evaluated(Interpreter& t, PyObject* value) {
  static PyObject* const call_type = py::import_attr("pellucid._numpy_torch", "Call").release();
  const auto evaluate = [&](PyObject* part) { return evaluated(t, part); };
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != call_type) return mapped(value, evaluate);
  const auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(value, name)); };
  const auto function = part("function"), positional = part("args"), keywords = part("kwargs");
  const auto given = evaluated(t, positional.get());
  auto names = py::take(PySequence_Tuple(keywords.get()));
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values = parts_of(given.get());
  for (PyObject* name : parts_of(names.get())) {
    held.push_back(evaluated(t, PyDict_GetItem(keywords.get(), name)));
    values.push_back(held.back().get());
  }
  aten::FakeScope& fakes = t.region.recorder.fakes();
  const auto is_open = [&](PyObject* part) { return fakes.expr_of(part) != nullptr; };
  const bool open = std::ranges::any_of(values, [&](PyObject* argument) { return holds_any(argument, is_open); });
  auto result = fakes.call(
      region::for_open(function.get(), open), values.data(), static_cast<std::size_t>(PyTuple_GET_SIZE(given.get())),
      values.size() > static_cast<std::size_t>(PyTuple_GET_SIZE(given.get())) ? names.get() : nullptr);
  forget_facts();
  return result;
}

// Whether the fake has the sizes that numpy gave, for those at hand; the same of each array of a container.
bool agrees(PyObject* fake, PyObject* value) {
  if (!is_array(value)) {
    const auto fakes = parts_of(fake), values = parts_of(value);
    return !values.empty() && std::ranges::equal(fakes, values, [](PyObject* a, PyObject* b) { return agrees(a, b); });
  }
  if (cat_of(fake) != Cat::Tensor) return false;
  const std::vector<std::int64_t> sizes = aten::meta_of(fake).sizes;
  const auto known = py::take(PyObject_GetAttrString(value, "shape"));
  return std::ranges::equal(sizes, parts_of(known.get()),
                            [](std::int64_t size, PyObject* item) { return PyLong_AsLongLong(item) == size; });
}

}  // namespace

bool has_open_size(Interpreter& t, PyObject* array) { return !open_sizes(t, array).empty(); }

py::Owned<> sizes_of(Interpreter& t, PyObject* array) {
  const auto exprs = open_sizes(t, array);
  auto sizes = py::take(PyTuple_New(static_cast<Py_ssize_t>(exprs.size())));
  for (std::size_t i = 0; i < exprs.size(); ++i)
    PyTuple_SET_ITEM(sizes.get(), static_cast<Py_ssize_t>(i), t.region.numbers.said.of(exprs[i]).release());
  return sizes;
}

py::Owned<> open_attribute(Interpreter& t, PyObject* array, const std::string& name) {
  if (name == "shape") return sizes_of(t, array);
  if (name != "size" && name != "nbytes") return {};
  symbolic::Space& space = t.region.numbers.space();
  const symbolic::Expr* product = space.constant(symbolic::Value::of(1));
  if (name == "nbytes") {
    const auto size = py::take(PyObject_GetAttrString(array, "itemsize"));
    product = space.constant(symbolic::Value::of(PyLong_AsLongLong(size.get())));
  }
  for (const symbolic::Expr* size : open_sizes(t, array)) {
    if (product != nullptr) product = symbolic::product_of(space.nodes(), product, size);
  }
  if (product != nullptr) return t.region.numbers.said.of(product);
  fix_sizes(t, array, name);
  return {};
}

bool holds_array(PyObject* value) { return holds_any(value, is_array); }

bool depends_on_sizes(Interpreter& t, PyObject* callable, Args args) {
  if (t.region.numbers.space().symbols() == 0) return false;
  bool numbers = false, slices = false, open = false;
  const auto look = [&](PyObject* value, bool in_slice, const auto& again) -> void {
    if (is_open_size(t, value)) {
      numbers = true;
      slices |= in_slice;
    } else if (is_array(value)) {
      open |= has_open_size(t, value);
    } else {
      for (PyObject* part : parts_of(value)) again(part, in_slice || PySlice_Check(value), again);
    }
  };
  for (PyObject* value : args.values) look(value, false, look);
  if (open || slices) return true;
  if (!numbers) return false;
  return py::take(PyObject_CallOneArg(region::of_numpy_module("_is_known"), callable)).get() != Py_True;
}

bool makes_sizes(PyObject* callable) {
  static PyObject* const making = py::import_attr("pellucid._numpy_sizes", "MAKING").release();
  return PySet_Contains(making, callable) == 1;
}

void fix_sizes(Interpreter& t, PyObject* value, const std::string& who) {
  if (region::is_number(value)) {
    (void)t.region.numbers.plain(value);
  } else if (is_array(value)) {
    for (const symbolic::Expr* size : open_sizes(t, value)) {
      if (!size->is_constant()) (void)t.region.numbers.fix(size, who.c_str());
    }
  } else {
    for (PyObject* part : parts_of(value)) fix_sizes(t, part, who);
  }
}

py::Owned<> with_fakes(Interpreter& t, PyObject* value, const TensorOf& tensor_of) {
  if (is_open_size(t, value)) return t.region.recorder.fakes().number_of(region::as_number(value)->expr);
  if (region::is_number(value)) return py::Owned<>::share(region::value_at_hand(value));
  if (is_array(value)) return tensor_of(value);
  return mapped(value, [&](PyObject* part) { return with_fakes(t, part, tensor_of); });
}

CallOnFakes with_fakes(Interpreter& t, Args args, const TensorOf& tensor_of) {
  CallOnFakes made{py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size()))), py::take(PyDict_New())};
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    auto argument = with_fakes(t, args.values[i], tensor_of);
    if (PyObject* keyword = args.keyword_of(i))
      py::check(PyDict_SetItem(made.keywords.get(), keyword, argument.get()));
    else
      PyTuple_SET_ITEM(made.positional.get(), static_cast<Py_ssize_t>(i), argument.release());
  }
  return made;
}

py::Owned<> at_hand(Interpreter& t, PyObject* value) {
  static PyObject* const empty_strided = py::import_attr("torch", "empty_strided").release();
  aten::FakeScope& fakes = t.region.recorder.fakes();
  if (const symbolic::Expr* expr = fakes.expr_of(value)) return py::take(PyLong_FromLongLong(expr->hint.i));
  if (PyDict_CheckExact(value)) {
    auto made = py::take(PyDict_New());
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item) != 0;)
      py::check(PyDict_SetItem(made.get(), key, at_hand(t, item).get()));
    return made;
  }
  if (!aten::is_fake(value)) return mapped(value, [&](PyObject* part) { return at_hand(t, part); });
  if (fakes.open_shape(value).sizes.empty()) return py::Owned<>::share(value);
  const aten::Meta meta = aten::meta_of(value);
  const auto tuple_of = [](const std::vector<std::int64_t>& numbers) {
    auto made = py::take(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLongLong(numbers[i])).release());
    return made;
  };
  const auto positional = py::take(PyTuple_Pack(2, tuple_of(meta.sizes).get(), tuple_of(meta.strides).get()));
  const auto dtype = py::take(PyObject_GetAttrString(value, "dtype"));
  const auto keywords = py::take(Py_BuildValue("{sOss}", "dtype", dtype.get(), "device", "meta"));
  return py::take(PyObject_Call(empty_strided, positional.get(), keywords.get()));
}

py::Owned<> numbers_of_torch(Interpreter& t, PyObject* value) {
  if (const symbolic::Expr* expr = t.region.recorder.fakes().expr_of(value))
    return t.region.numbers.said.of(t.region.numbers.space().simplify(expr));
  return mapped(value, [&](PyObject* part) { return numbers_of_torch(t, part); });
}

py::Owned<> sizes_of_call(Interpreter& t, PyObject* callable, Args args, PyObject* value) {
  const bool is_known = py::take(PyObject_CallOneArg(region::of_numpy_module("_is_known"), callable)).get() == Py_True;
  for (PyObject* argument : args.values) {
    // A number that only the graph knows is no size.
    holds_any(argument, [&](PyObject* part) {
      const bool unknown = !is_known && is_open_size(t, part) && t.region.unbacked.names(region::as_number(part)->expr);
      if (unknown) (void)t.region.numbers.plain(part);
      return false;
    });
  }
  // One number of numbers, whichever they are.
  const bool is_number = cat_of(value) == Cat::Array && region::is_scalar_stand_in(value);
  if (is_number && std::ranges::none_of(args.values, holds_array)) return py::Owned<>::share(value);
  try {
    const auto tensor_of = [&](PyObject* array) { return fake_of_sizes(t, array, open_sizes(t, array)); };
    static PyObject* const sizes = py::import_attr("pellucid._numpy_sizes", "sizes_of").release();
    const CallOnFakes given = with_fakes(t, args, tensor_of);
    const auto calls = py::take(
        PyObject_CallFunctionObjArgs(sizes, callable, given.positional.get(), given.keywords.get(), value, nullptr));
    auto made = evaluated(t, calls.get());
    if (!holds_array(value) || calls.get() == value) return numbers_of_torch(t, made.get());
    if (has_unknown_length(value))
      return is_closed_behind_first(t, made.get(), value) ? py::Owned<>::share(value) : py::Owned<>();
    return agrees(made.get(), value) ? std::move(made) : py::Owned<>();
  } catch (const py::PythonError& error) {
    if (py::is_interruption(error.value())) throw;
    forget_facts();
    t.region.unbacked.rethrow();
  } catch (const Unknown&) {
  }
  return {};
}

void note_sizes(Interpreter& t, PyObject* array, PyObject* fake) {
  if (!aten::is_fake(fake)) return;
  const auto sizes = t.region.recorder.fakes().open_shape(fake).sizes;
  if (!sizes.empty()) t.region.recorder.arrays.tensors[array] = fake_of_sizes(t, array, sizes);
}

py::Owned<> open_dims(Interpreter& t, Args args) {
  auto found = py::take(PyDict_New());
  const auto add = [&](PyObject* value) {
    const auto sizes = is_array(value) ? open_sizes(t, value) : std::vector<const symbolic::Expr*>();
    if (sizes.empty()) return false;
    auto dims = py::take(PyDict_New());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i]->is_constant()) continue;
      constexpr symbolic::Wide kMost = std::numeric_limits<std::int64_t>::max();
      const auto least = std::clamp<symbolic::Wide>(t.region.numbers.space().range(sizes[i]).least, 0, kMost);
      const auto dim = py::take(PyLong_FromSize_t(i)),
                 size = py::take(PyLong_FromLongLong(static_cast<long long>(least)));
      py::check(PyDict_SetItem(dims.get(), dim.get(), size.get()));
    }
    py::check(PyDict_SetItem(found.get(), py::take(PyLong_FromVoidPtr(value)).get(), dims.get()));
    return false;
  };
  for (PyObject* value : args.values) (void)holds_any(value, add);
  return found;
}

}  // namespace pellucid::protocols
