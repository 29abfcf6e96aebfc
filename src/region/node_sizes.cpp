#include "region/node_sizes.h"

#include "aten/layers.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

bool is_named(PyObject* target, const char* name) {
  return PyUnicode_Check(target) && PyUnicode_CompareWithASCIIString(target, name) == 0;
}

}  // namespace

void NodeSizes::note(PyObject* number, Place place) {
  if (!is_open_int(number)) return;
  if (as_number(number)->function == nullptr) return;  // it has a node of its own
  if (!places_.try_emplace(number, place).second) return;
  region_.provenance.keep(number);
  region_.provenance.keep(place.tensor);
}

void NodeSizes::note(PyObject* target, const Args& args, PyObject* result) {
  const bool is_size = is_named(target, "size");
  const bool is_shape = !PyUnicode_Check(target) && args.size() == 2 && is_named(args[1], "shape");  // getattr()
  if (!(is_shape || is_size) || region_.numbers.policy.graph_numbers != GraphNumbers::Ints || args.size() == 0) return;
  PyObject* tensor = args[0];
  if (cat_of(tensor) != Cat::Tensor || !aten::is_plain_tensor(tensor) || is_subclassed(tensor)) return;
  if (region_.capture->bodies->is_open() || aten::is_below_transform()) return;
  const graph::Node* node = region_.recorder.node_of(tensor);
  if (node == nullptr || node->op == graph::Op::Placeholder || node->op == graph::Op::GetAttr) return;
  if (PyTuple_Check(result)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) note(PyTuple_GET_ITEM(result, i), {tensor, i});
  } else if (is_size && args.size() == 2 && args.kwnames == nullptr && PyLong_CheckExact(args[1])) {
    const Py_ssize_t dim = PyLong_AsSsize_t(args[1]);
    const auto rank = static_cast<Py_ssize_t>(aten::meta_of(region_.recorder.lift(tensor).get()).sizes.size());
    note(result, {tensor, dim < 0 ? dim + rank : dim});
  }
}

graph::Node* NodeSizes::read(PyObject* number, py::Owned<> value) const {
  const auto found = places_.find(number);
  Capture& capture = *region_.capture;
  if (found == places_.end() || capture.bodies->is_open() || aten::is_below_transform()) return nullptr;
  const auto [tensor, dim] = found->second;
  graph::Node* node = region_.recorder.node_of(tensor);
  if (node == nullptr || !capture.bodies->reaches(*node)) return nullptr;
  // Operations in place may have given it another shape.
  const auto sizes = region_.recorder.fakes().open_shape(region_.recorder.lift(tensor).get()).sizes;
  symbolic::Space& space = region_.numbers.space();
  const auto at = static_cast<std::size_t>(dim);
  if (at >= sizes.size() || space.simplify(sizes[at]) != space.simplify(region_.numbers.expr_of(number)))
    return nullptr;
  std::vector<graph::Arg> operands;
  operands.push_back(graph::Arg::of(node));
  operands.push_back(graph::Arg::of(py::take(PyLong_FromSsize_t(dim))));
  return capture.graph.call(graph::Op::CallMethod, py::str("size"), std::move(operands), {}, std::move(value));
}

}  // namespace pellucid::region
