#include "region/jagged.h"

#include "aten/torch_function.h"
#include "aten/wrapper_subclass.h"
#include "py/cpython.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/subclasses.h"

namespace pellucid::region {

bool is_jagged_class(PyTypeObject* type) noexcept {
  static PyObject* const jagged = [] {
    PyObject* module = py::module_if_any("torch.nested._internal.nested_tensor");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "NestedTensor") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return reinterpret_cast<PyObject*>(type) == jagged;
}

bool is_jagged(PyObject* tensor) noexcept { return is_jagged_class(Py_TYPE(tensor)) && aten::is_jagged(tensor); }

// Sizes and strides are functions of these. The nested int is one to one with the tensor of offsets or lengths, of
// which the guards say which others are the same object.
void guard_jagged(Region& region, PyObject* tensor) {
  static PyObject* const cache_name = py::interned("_metadata_cache").release();
  static PyObject* const size_name = py::interned("_size").release();
  auto& table = region.capture->sources;
  const source::Source* const source = region.provenance.source_of(tensor);
  const auto held = [&](PyObject* name) {
    PyObject* const value = py::instance_attr(tensor, name);
    if (value == nullptr)
      unsupported(Reason::UnsupportedTensor, {{"what", "a nested tensor without " + py::text_of(name)}});
    return value;
  };
  for (const char* text : {"_values", "_offsets", "_lengths", "_ragged_idx"}) {
    const auto name = py::interned(text);
    region.provenance.note_read(held(name.get()), table.instance_attr(source, name.get()));
  }
  PyObject* const cache = held(cache_name);
  region.provenance.note_read(cache, table.instance_attr(source, cache_name));
  if (PyDict_Check(cache)) region.reads.touch(cache);
  PyObject* const size = held(size_name);
  for (Py_ssize_t i = 0; PyTuple_Check(size) && i < PyTuple_GET_SIZE(size); ++i) {
    PyObject* const one = PyTuple_GET_ITEM(size, i);
    if (!PyLong_Check(one)) region.provenance.note_read(one, table.item(table.instance_attr(source, size_name), i));
  }
}

bool is_nested_int(PyObject* value) {
  static PyObject* const type = py::import_attr("torch", "SymInt").release();
  static PyObject* const is_one = py::import_attr("pellucid._nested", "is_nested_int").release();
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == type &&
         py::take(PyObject_CallOneArg(is_one, value)).get() == Py_True;
}

void check_nested_ints(const Region& region, PyObject* value) {
  if (is_nested_int(value)) {
    if (!region.provenance.is_outside(value))
      unsupported(Reason::UnsupportedTensor, {{"what", "the ragged size of a nested tensor that the region makes"}});
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      check_nested_ints(region, PySequence_Fast_GET_ITEM(value, i));
  }
}

graph::Node* nested_int_node(Region& region, PyObject* number) {
  static PyObject* const size_name = py::interned("_size").release();
  static PyObject* const method = py::interned("size").release();
  const auto place_in = [&](const graph::Node* node) -> Py_ssize_t {
    PyObject* const example = node->example_value.get();
    if (example == nullptr || !aten::is_tensor(example) || !is_jagged(example)) return -1;
    PyObject* const size = py::instance_attr(example, size_name);
    for (Py_ssize_t i = 0; size != nullptr && PyTuple_Check(size) && i < PyTuple_GET_SIZE(size); ++i) {
      if (PyTuple_GET_ITEM(size, i) == number) return i;
    }
    return -1;
  };
  const auto made_of = [&](graph::Node* node) -> graph::Node* {
    const Py_ssize_t place = place_in(node);
    if (place < 0) return nullptr;
    std::vector<graph::Arg> args;
    args.push_back(graph::Arg::of(node));
    args.push_back(graph::Arg::of(py::take(PyLong_FromSsize_t(place))));
    graph::Node* made = region.capture->graph.call(graph::Op::CallMethod, py::Owned<>::share(method), std::move(args),
                                                   {}, py::Owned<>::share(number));
    made->where = region.recorder.call_site();
    return made;
  };
  for (graph::Node* node : region.capture->graph.placeholders()) {
    if (graph::Node* made = made_of(node)) return made;
  }
  for (graph::Node* node : region.capture->graph.nodes()) {
    if (graph::Node* made = made_of(node)) return made;
  }
  return nullptr;
}

bool makes_jagged(PyObject* callable) {
  if (PyType_Check(callable)) return is_jagged_class(reinterpret_cast<PyTypeObject*>(callable));
  if (!PyFunction_Check(callable)) return false;
  static PyObject* const makers = py::import_attr("pellucid._nested", "MAKERS").release();
  const int found = PySet_Contains(makers, callable);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

void fix_ragged_stride(Region& region, PyObject* tensor, const aten::OpenShape& values) {
  static PyObject* const name = py::interned("_ragged_idx").release();
  PyObject* const place = py::instance_attr(tensor, name);
  const Py_ssize_t ragged = place != nullptr && PyLong_Check(place) ? PyLong_AsSsize_t(place) - 1 : -1;
  if (ragged < 0 || static_cast<std::size_t>(ragged) >= values.strides.size())
    unsupported(Reason::UnsupportedTensor, {{"what", "a nested tensor without a ragged dimension"}});
  (void)region.numbers.fix(values.strides[static_cast<std::size_t>(ragged)], "the stride of a ragged dimension");
}

bool says_length(PyObject* tensor, const source::Source* source) {
  static PyObject* const cache = py::interned("_metadata_cache").release();
  std::int64_t width = -1;
  return source->step == source::Step::DictItem && source->base->step == source::Step::InstanceAttr &&
         PyUnicode_Compare(source->base->operand.get(), cache) == 0 && aten::size_at(tensor, 1, &width) && width == 0;
}

bool are_jagged(const std::vector<PyObject*>& values) {
  bool any = false, all = true;
  for (PyObject* value : values) {
    each_tensor(value, [&](PyObject* tensor) {
      if (!is_wrapper_subclass(tensor)) return;
      any = true;
      all = all && is_jagged(tensor);
    });
  }
  return any && all;
}

bool is_for_compilers(const Region& region, PyObject* tensor) {
  static PyObject* const is_taken = py::import_attr("pellucid._nested", "is_for_compilers").release();
  return region.numbers.policy.runs_as_captured() || py::take(PyObject_CallOneArg(is_taken, tensor)).get() == Py_True;
}

py::Owned<> call_jagged(Region& region, PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs,
                        PyObject* kwnames) {
  aten::FakeScope& fakes = region.recorder.fakes();
  static PyObject* const load = py::import_attr("pellucid._nested", "load").release();
  static PyObject* const asked = py::import_attr("pellucid._nested", "asked").release();
  const auto loaded = py::take(PyObject_CallNoArgs(load));
  if (!aten::asks_torch_functions()) return fakes.call_classes(callable, values.data(), nargs, kwnames);
  std::vector<PyObject*> all{region.numbers.policy.runs_as_captured() ? Py_True : Py_False, callable};
  all.insert(all.end(), values.begin(), values.end());
  return fakes.call_classes(asked, all.data(), nargs + 2, kwnames);
}

py::Owned<> jagged_like(aten::FakeScope& fakes, PyObject* real, PyObject* parts) {
  static PyObject* const like = py::import_attr("pellucid._nested", "like").release();
  PyObject* const values[] = {real, parts};
  return fakes.call_classes(like, values, 2, nullptr);
}

}  // namespace pellucid::region
