// Operators with a factor that is a number for torch and a tensor here: torch's optimizers, when they are compiled,
// keep step counts and learning rates in tensors. The same of floats that change, which are tensors in some graphs.
#include <algorithm>
#include <array>
#include <optional>

#include "region/number.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// Where the operators of this file have their factor: under one of these names, or in this position.
struct Factor {
  std::array<const char*, 3> keywords;
  std::size_t position;
  bool may_be_tensors = false;  // torch has the same operator with a tensor, or tensors, in its place
};
constexpr std::size_t kNowhere = ~std::size_t{0};
constexpr Factor kNone{{}, kNowhere}, kAlpha{{"alpha"}, kNowhere}, kValue{{"value"}, kNowhere};
constexpr Factor kFill{{"fill_value"}, 1}, kScalars{{"scalars", "value"}, 3};
constexpr Factor kOther{{"other", "scalar", "scalars"}, 1, true}, kWeight{{"weight"}, 2, true},
    kBase{{"self"}, 0, true};

std::size_t place_of(const Factor& factor, Args args) {
  if (args.size() > factor.position) return factor.position;
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    PyObject* name = PyTuple_GET_ITEM(args.kwnames, static_cast<Py_ssize_t>(i));
    if (std::ranges::any_of(factor.keywords, [&](const char* keyword) {
          return keyword != nullptr && PyUnicode_CompareWithASCIIString(name, keyword) == 0;
        }))
      return args.size() + i;
  }
  return kNowhere;
}

bool is_sequence_of_tensors(PyObject* value) {
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  const std::span items(PySequence_Fast_ITEMS(value), static_cast<std::size_t>(PySequence_Fast_GET_SIZE(value)));
  return std::ranges::any_of(items, [](PyObject* item) { return region::cat_of(item) == Cat::Tensor; });
}

bool is_real_float(Interpreter& t, PyObject* tensor) {
  const auto fake = t.region.recorder.lift(tensor);
  const auto dtype = py::take(PyObject_GetAttrString(fake.get(), "dtype"));
  return py::take(PyObject_GetAttrString(dtype.get(), "is_floating_point")).get() == Py_True;
}

// A number, or as many as the tensor holds, of its kind: which ones they are decides nothing on fakes.
py::Owned<> like_its_numbers(Interpreter& t, PyObject* tensor) {
  const auto fake = t.region.recorder.lift(tensor);
  const aten::Meta meta = aten::meta_of(fake.get());
  auto number = is_real_float(t, tensor) ? py::take(PyFloat_FromDouble(0.5)) : py::take(PyLong_FromLong(1));
  if (meta.sizes.empty()) return number;
  auto numbers = py::take(PyList_New(meta.sizes.front()));
  for (Py_ssize_t i = 0; i < meta.sizes.front(); ++i) PyList_SET_ITEM(numbers.get(), i, Py_NewRef(number.get()));
  return numbers;
}

bool are_real_floats(Interpreter& t, PyObject* value) {
  if (region::cat_of(value) == Cat::Tensor) return is_real_float(t, value);
  const auto items = protocols::native_elements(t, value);
  if (!items) return false;
  const std::span all(PySequence_Fast_ITEMS(items.get()), static_cast<std::size_t>(PyTuple_GET_SIZE(items.get())));
  return std::ranges::all_of(
      all, [&](PyObject* item) { return region::cat_of(item) == Cat::Tensor && is_real_float(t, item); });
}

Result as_usual(Interpreter& t, PyObject* f, Args args) {
  if (PyCFunction_Check(f)) return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
  auto name = py::take(PyObject_GetAttr(f, region::names().__name__));
  return t.region.recorder.torch_call(graph::Op::CallMethod, f, name.get(), args);
}

// Where the graph runs as it is, torch asks the tensor when it runs.
Result with_number(Interpreter& t, PyObject* f, Args args, std::size_t place) {
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  const auto number = like_its_numbers(t, values[place]);
  graph::Arg factor = t.region.recorder.to_arg(std::exchange(values[place], number.get()));
  const auto& nodes = t.region.capture->graph.nodes();
  const std::size_t before = nodes.size();
  Result result = as_usual(t, f, Args{values, args.kwnames});
  if (!result.is_value() || nodes.size() == before) return result;
  graph::Node* node = nodes[before];
  factor.node->users += 1;
  node->may_raise = true;
  (place < args.size() ? node->args[place] : node->kwargs[place - args.size()].second) = std::move(factor);
  return result;
}

// A float that changes is a tensor in the graphs of backends that compile; one, or among the numbers of a list.
bool has_changing_float(Interpreter& t, PyObject* value) {
  if (t.region.numbers.policy.graph_numbers != region::GraphNumbers::Ints) return false;
  const auto is_one = [](PyObject* number) { return region::is_open(number) && region::as_number(number)->as_tensor; };
  if (is_one(value)) return true;
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  const std::span items(PySequence_Fast_ITEMS(value), static_cast<std::size_t>(PySequence_Fast_GET_SIZE(value)));
  const auto is_number = [](PyObject* item) { return region::is_number(item) || PyFloat_Check(item); };
  return std::ranges::all_of(items, is_number) && std::ranges::any_of(items, is_one);
}

// Of lists that are not of one length torch says what is wrong.
bool are_of_one_length(Args args) {
  std::optional<Py_ssize_t> length;
  for (PyObject* value : args.values) {
    if (!PyList_Check(value) && !PyTuple_Check(value)) continue;
    const Py_ssize_t own = PySequence_Fast_GET_SIZE(value);
    if (own == 0 || own != length.value_or(own)) return false;
    length = own;
  }
  return true;
}

// The factor, where torch's operator takes a number and this one has something else.
std::optional<std::size_t> place_of_other(Interpreter& t, const Factor& factor, Args args) {
  const std::size_t place = place_of(factor, args);
  if (place == kNowhere) return std::nullopt;
  PyObject* value = args.values[place];
  if (has_changing_float(t, value)) return place;
  if (factor.may_be_tensors) return std::nullopt;
  if (region::cat_of(value) == Cat::Tensor || is_sequence_of_tensors(value)) return place;
  return std::nullopt;
}

const char* polyfill_of(const std::string& name) {
  static constexpr const char* kNames[] = {
      "scaled_add",
      "scaled_add_",
      "scaled_sub",
      "scaled_sub_",
      "scaled_addcdiv",
      "scaled_addcdiv_",
      "scaled_addcmul",
      "scaled_addcmul_",
      "scaled_full_like",
      "scaled_lerp",
      "scaled_lerp_",
      "scaled__foreach_add",
      "scaled__foreach_add_",
      "scaled__foreach_sub",
      "scaled__foreach_sub_",
      "scaled__foreach_mul",
      "scaled__foreach_mul_",
      "scaled__foreach_div",
      "scaled__foreach_div_",
      "scaled__foreach_pow",
      "scaled__foreach_lerp",
      "scaled__foreach_lerp_",
      "scaled__foreach_addcdiv",
      "scaled__foreach_addcdiv_",
      "scaled__foreach_addcmul",
      "scaled__foreach_addcmul_",
  };
  return *std::ranges::find(kNames, "scaled_" + name, [](const char* known) { return std::string(known); });
}

template <const Factor& factor, const Factor& other = kNone>
Result scaled(Interpreter& t, PyObject* f, Args args) {
  auto found = place_of_other(t, factor, args);
  if (!found) found = place_of_other(t, other, args);
  if (!found || !are_of_one_length(args)) return as_usual(t, f, args);
  const std::size_t place = *found;
  PyObject* value = args.values[place];
  if (region::cat_of(value) == Cat::Tensor) {
    const aten::Meta meta = aten::meta_of(t.region.recorder.lift(value).get());
    const std::size_t dims = &factor == &kScalars ? 1 : 0;
    if (meta.requires_grad || meta.sizes.size() != dims) return as_usual(t, f, args);  // no number for torch
    if (t.region.numbers.policy.runs_as_captured()) return with_number(t, f, args, place);
  }
  // torch refuses factors of some kinds for tensors of others, and computes in the dtype of the tensors: of floats
  // alone the operators of tensors do the same.
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (i != place && !are_real_floats(t, args[i])) return as_usual(t, f, args);
  }
  if (!has_changing_float(t, value) && !are_real_floats(t, value)) return as_usual(t, f, args);
  const auto name = py::take(PyObject_GetAttr(f, region::names().__name__));
  return protocols::call_polyfill(t, polyfill_of(py::text_of(name.get())), args);
}

#define METHOD(name, ...) \
  { "torch._C.TensorBase." name, scaled<__VA_ARGS__>, true, true }
#define FUNCTION(name, ...) \
  { "torch." name, scaled<__VA_ARGS__>, true, true }
const Row rows[] = {
    METHOD("add", kAlpha),
    METHOD("add_", kAlpha),
    METHOD("sub", kAlpha),
    METHOD("sub_", kAlpha),
    METHOD("addcdiv", kValue),
    METHOD("addcdiv_", kValue),
    METHOD("addcmul", kValue),
    METHOD("addcmul_", kValue),
    FUNCTION("add", kAlpha),
    FUNCTION("sub", kAlpha),
    FUNCTION("addcdiv", kValue),
    FUNCTION("addcmul", kValue),
    FUNCTION("full_like", kFill),
    METHOD("lerp", kWeight),
    METHOD("lerp_", kWeight),
    FUNCTION("lerp", kWeight),
    FUNCTION("_foreach_add", kAlpha, kOther),
    FUNCTION("_foreach_add_", kAlpha, kOther),
    FUNCTION("_foreach_sub", kOther),
    FUNCTION("_foreach_sub_", kOther),
    FUNCTION("_foreach_mul", kOther),
    FUNCTION("_foreach_mul_", kOther),
    FUNCTION("_foreach_div", kOther),
    FUNCTION("_foreach_div_", kOther),
    FUNCTION("_foreach_pow", kBase),
    FUNCTION("_foreach_lerp", kWeight),
    FUNCTION("_foreach_lerp_", kWeight),
    FUNCTION("_foreach_addcdiv", kScalars),
    FUNCTION("_foreach_addcdiv_", kScalars),
    FUNCTION("_foreach_addcmul", kScalars),
    FUNCTION("_foreach_addcmul_", kScalars),
};
#undef METHOD
#undef FUNCTION

}  // namespace

const std::span<const Row> kTensorFactorRows = rows;

}  // namespace pellucid::rows
