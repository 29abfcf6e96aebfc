#include "region/assertions.h"

#include "aten/aten.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/torch_module.h"

namespace pellucid::region {
namespace {

graph::Node* call(Region& region, graph::Op op, py::Owned<> target, std::vector<graph::Arg> args, py::Owned<> gives) {
  graph::Node* node = region.capture->graph.call(op, std::move(target), std::move(args), {}, std::move(gives));
  node->where = region.recorder.call_site();
  return node;
}

}  // namespace

void assert_scalar(Region& region, graph::Arg condition, const std::string& text) {
  static PyObject* const function =
      py::take(PyObject_GetAttrString(torch_operator("aten", "_assert_scalar").get(), "default")).release();
  std::vector<graph::Arg> args;
  args.push_back(std::move(condition));
  args.push_back(graph::Arg::of(py::str("Runtime assertion failed for expression " + text)));
  graph::Node* node =
      call(region, graph::Op::CallFunction, py::Owned<>::share(function), std::move(args), py::Owned<>::share(Py_None));
  node->impure = node->may_raise = true;
}

void say_sizes(Region& region, PyObject* result) {
  each_tensor(result, [&](PyObject* tensor) {
    graph::Node* const of = region.recorder.node_of(tensor);
    if (of == nullptr || !aten::is_fake(tensor)) return;
    const aten::OpenShape open = region.recorder.fakes().open_shape(tensor);
    const auto sizes = aten::meta_of(tensor).sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!open.sizes.empty() && !open.sizes[d]->is_constant()) continue;
      const auto known = py::take(PyLong_FromLongLong(sizes[d]));
      std::vector<graph::Arg> args;
      args.push_back(graph::Arg::of(of));
      args.push_back(graph::Arg::of(py::take(PyLong_FromSize_t(d))));
      graph::Node* const size = call(region, graph::Op::CallMethod, py::str("size"), std::move(args), known.copy());
      std::vector<graph::Arg> both;
      both.push_back(graph::Arg::of(size));
      both.push_back(graph::Arg::of(known.copy()));
      graph::Node* const is_known = call(region, graph::Op::CallFunction, py::import_attr("operator", "eq"),
                                         std::move(both), py::Owned<>::share(Py_True));
      assert_scalar(region, graph::Arg::of(is_known), "that a size is " + std::to_string(sizes[d]));
    }
  });
}

}  // namespace pellucid::region
