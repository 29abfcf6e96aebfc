#include "protocols/tensor_items.h"

#include <algorithm>
#include <functional>
#include <span>

#include "aten/layers.h"
#include "protocols/numbers.h"
#include "protocols/protocols.h"
#include "region/subclasses.h"
#include "symbolic/operations.h"

namespace pellucid::protocols {
namespace {

// Masks of bool and uint8 are none.
bool has_integers(PyObject* tensor) {
  static PyObject* const dtypes = [] {
    const auto torch = py::take(PyImport_ImportModule("torch"));
    auto made = py::take(PySet_New(nullptr));
    for (const char* name : {"int8", "int16", "int32", "int64"})
      py::check(PySet_Add(made.get(), py::take(PyObject_GetAttrString(torch.get(), name)).get()));
    return made.release();
  }();
  const auto dtype = py::take(PyObject_GetAttrString(tensor, "dtype"));
  return PySet_Contains(dtypes, dtype.get()) == 1;
}

bool stands_for_integer(PyObject* part) {
  return cat_of(part) == Cat::Tensor && !region::is_subclassed(part) && !aten::is_wrapper(part) &&
         aten::meta_of(part).sizes.empty() && has_integers(part);
}

// What stands for the number in the program has to be an index of that dimension: where its hint is none, it gets
// another one.
void fit_hint(Interpreter& t, PyObject* number, PyObject* tensor, std::size_t dim) {
  if (!region::is_open_int(number)) return;
  const symbolic::Expr* index = t.region.numbers.expr_of(number);
  const auto fake = t.region.recorder.lift(tensor);
  symbolic::Space& space = t.region.numbers.space();
  const aten::OpenShape shape = t.region.recorder.fakes().open_shape(fake.get());
  const aten::Meta meta = aten::meta_of(fake.get());
  if (dim >= meta.sizes.size() || index->hint.i < meta.sizes[dim] || meta.sizes[dim] == 0) return;
  const symbolic::Expr* size =
      shape.sizes.empty() ? space.constant(symbolic::Value::of(meta.sizes[dim])) : shape.sizes[dim];
  t.region.unbacked.assert_that(symbolic::compare(space, symbolic::Comparison::Lt, index, size));
}

// What stands for `part` in the key; empty: the part itself.
using PartOfKey = std::function<py::Owned<>(PyObject* part)>;

// The key with what stands for its parts; none where each stands for itself.
std::optional<py::Owned<>> rebuilt(Interpreter& t, PyObject* key, const PartOfKey& part_of) {
  if (!PyTuple_CheckExact(key)) {
    auto number = part_of(key);
    return number ? std::optional(std::move(number)) : std::nullopt;
  }
  auto made = py::take(PyTuple_New(PyTuple_GET_SIZE(key)));
  bool any = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    auto number = part_of(PyTuple_GET_ITEM(key, i));
    any |= number.get() != nullptr;
    PyTuple_SET_ITEM(made.get(), i, number ? number.release() : Py_NewRef(PyTuple_GET_ITEM(key, i)));
  }
  if (!any) return std::nullopt;
  t.region.provenance.note_made(made.get());
  return made;
}

// Where capture takes no numbers of the graph: those that it knows, also where they are ends of a slice. A backend that
// traces the graph itself knows none.
py::Owned<> known_number(Interpreter& t, PyObject* part) {
  if (stands_for_integer(part)) {
    const auto known = elements_if_known(t, part);
    return known ? py::take(PyObject_CallMethod(known.get(), "item", nullptr)) : py::Owned<>();
  }
  if (!PySlice_Check(part)) return {};
  auto* slice = reinterpret_cast<PySliceObject*>(part);
  bool any = false;
  const auto end = [&](PyObject* value) {
    auto number = stands_for_integer(value) ? known_number(t, value) : py::Owned<>();
    any |= number.get() != nullptr;
    return number ? std::move(number) : py::Owned<>::share(value);
  };
  const auto start = end(slice->start), stop = end(slice->stop), step = end(slice->step);
  return any ? py::take(PySlice_New(start.get(), stop.get(), step.get())) : py::Owned<>();
}

py::Owned<> number_of_graph(Interpreter& t, PyObject* tensor) {
  static PyObject* const item = [] {
    const auto type = py::import_attr("torch", "Tensor");
    return py::take(PyObject_GetAttrString(type.get(), "item")).release();
  }();
  static PyObject* const name = py::interned("item").release();
  const region::InKey in_key(t.region.unbacked);
  return t.region.recorder.torch_call(graph::Op::CallMethod, item, name, Args{{&tensor, 1}, nullptr}).value;
}

}  // namespace

std::optional<py::Owned<>> key_with_numbers(Interpreter& t, PyObject* tensor, PyObject* key) {
  // In the graph of a body, and below a transform, an item is looked up in ways of its own.
  if (t.region.capture->bodies->is_open() || aten::is_below_transform() || region::is_subclassed(tensor) ||
      aten::is_wrapper(tensor))
    return std::nullopt;
  const region::NumberPolicy& policy = t.region.numbers.policy;
  if (!policy.scalar_outputs) {
    auto known = rebuilt(t, key, [&](PyObject* part) { return known_number(t, part); });
    // Where item() is none for the program, a key may have such a number all the same, as sizes that depend on values
    // may be in the graph.
    if (known || !policy.dynamic_output_shapes) return known;
  }
  std::span<PyObject* const> parts(&key, 1);
  if (PyTuple_CheckExact(key)) parts = {PySequence_Fast_ITEMS(key), static_cast<std::size_t>(PyTuple_GET_SIZE(key))};
  if (std::ranges::none_of(parts, stands_for_integer)) return std::nullopt;
  const auto has_dimension = [](PyObject* part) { return part != Py_None && part != Py_Ellipsis; };
  const auto named = static_cast<std::size_t>(std::ranges::count_if(parts, has_dimension));
  const std::size_t rank = aten::meta_of(tensor).sizes.size();
  if (named > rank) return std::nullopt;  // torch raises
  std::size_t dim = 0;
  return rebuilt(t, key, [&](PyObject* part) {
    auto number = stands_for_integer(part) ? number_of_graph(t, part) : py::Owned<>();
    if (number) fit_hint(t, number.get(), tensor, dim);
    dim += part == Py_Ellipsis ? rank - named : has_dimension(part) ? 1 : 0;
    return number;
  });
}

}  // namespace pellucid::protocols
