// pellucid._core._graph: builds graphs by hand, for the tests of the graph and of the hand-off.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "backend/fx.h"
#include "hooks.h"
#include "region/capture.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {
using graph::Arg;
using graph::CallSite;
using graph::Graph;
using graph::Node;
using graph::Op;

struct NodeRef {
  Node* node;
};
struct SiteRef {
  std::shared_ptr<const CallSite> site;
};

py::Owned<> owned(nb::handle object) { return py::Owned<>::share(object.ptr()); }
py::Owned<> owned_or_empty(nb::handle object) { return object.is_none() ? py::Owned<>() : owned(object); }
nb::object to_nb(py::Owned<> object) { return nb::steal(object.release()); }

bool holds_node(nb::handle object) {
  if (nb::isinstance<NodeRef>(object)) return true;
  if (PySlice_Check(object.ptr())) {
    auto* slice = reinterpret_cast<PySliceObject*>(object.ptr());
    return holds_node(slice->start) || holds_node(slice->stop) || holds_node(slice->step);
  }
  if (PyDict_Check(object.ptr())) return holds_node(nb::list(nb::borrow<nb::dict>(object).values()));
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) return false;
  for (nb::handle item : nb::borrow(object)) {
    if (holds_node(item)) return true;
  }
  return false;
}

Arg arg_of(nb::handle object) {
  if (nb::isinstance<NodeRef>(object)) return Arg::of(nb::cast<NodeRef&>(object).node);
  Arg arg;
  if (PyList_Check(object.ptr())) {
    arg.kind = Arg::Kind::List;
  } else if (PyDict_Check(object.ptr())) {
    arg.kind = Arg::Kind::Dict;
    for (auto [key, value] : nb::borrow<nb::dict>(object)) {
      arg.keys.push_back(owned(key));
      arg.items.push_back(arg_of(value));
    }
    return arg;
  } else if (!holds_node(object)) {
    return Arg::of(owned(object));
  } else if (PySlice_Check(object.ptr())) {
    auto* slice = reinterpret_cast<PySliceObject*>(object.ptr());
    arg.kind = Arg::Kind::Slice;
    for (PyObject* part : {slice->start, slice->stop, slice->step}) arg.items.push_back(arg_of(part));
    return arg;
  } else {
    arg.kind = Arg::Kind::Tuple;
    if (!PyTuple_CheckExact(object.ptr())) arg.constant = owned(object.type());
  }
  for (nb::handle item : nb::borrow(object)) arg.items.push_back(arg_of(item));
  return arg;
}

class Builder {
 public:
  NodeRef placeholder(const std::string& source, nb::object example, const std::string& hint, nb::object real) {
    Node* node = capture_.graph.placeholder(hint, owned_or_empty(example), -1, source);
    if (!real.is_none()) capture_.input_of[node] = hold(real);
    return {node};
  }
  NodeRef call(Op op, nb::object target, nb::tuple args, nb::dict kwargs, nb::object example, bool impure,
               nb::object site) {
    std::vector<Arg> list;
    for (nb::handle arg : args) list.push_back(arg_of(arg));
    std::vector<std::pair<py::Owned<>, Arg>> named;
    for (auto [key, value] : kwargs) named.emplace_back(owned(key), arg_of(value));
    Node* node = capture_.graph.call(op, owned(target), std::move(list), std::move(named), owned_or_empty(example));
    node->impure = impure;
    if (!site.is_none()) node->where = nb::cast<SiteRef&>(site).site;
    return {node};
  }
  NodeRef get_attr(const std::string& name, nb::object value, nb::object example) {
    Node* node = capture_.graph.call(Op::GetAttr, py::str(name), {}, {}, owned_or_empty(example));
    node->attribute = owned(value);
    return {node};
  }
  void rename(NodeRef ref, const std::string& variable) { capture_.graph.rename(ref.node, variable); }
  void output(const std::vector<NodeRef>& values) {
    std::vector<Node*> nodes;
    for (const NodeRef& ref : values) nodes.push_back(ref.node);
    capture_.graph.output(std::move(nodes));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Node* node : capture_.graph.placeholders()) out.push_back(node->name);
    for (const Node* node : capture_.graph.nodes()) out.push_back(node->name);
    return out;
  }
  Graph& graph() { return capture_.graph; }
  const region::Capture& capture() const { return capture_; }

 private:
  PyObject* hold(nb::handle object) {
    capture_.alive.push_back(owned(object));
    return object.ptr();
  }
  region::Capture capture_;
};

SiteRef make_site(nb::object code, int offset, nb::object caller, const std::string& path, nb::object type) {
  auto site = std::make_shared<CallSite>();
  site->code = py::Owned<PyCodeObject>::share(reinterpret_cast<PyCodeObject*>(code.ptr()));
  site->offset = offset;
  if (!caller.is_none()) site->caller = nb::cast<SiteRef&>(caller).site;
  site->module_path = path;
  site->module_key = path;
  site->module_type = owned_or_empty(type);
  return {std::move(site)};
}

NodeRef call_function(Builder& self, nb::object target, nb::tuple args, nb::dict kwargs, nb::object example,
                      bool impure, nb::object site) {
  return self.call(Op::CallFunction, target, args, kwargs, example, impure, site);
}
NodeRef call_method(Builder& self, nb::object target, nb::tuple args, nb::dict kwargs, nb::object example, bool impure,
                    nb::object site) {
  return self.call(Op::CallMethod, target, args, kwargs, example, impure, site);
}

}  // namespace

void add_graph(nb::module_& core) {
  nb::module_ m = core.def_submodule("_graph");
  nb::class_<NodeRef>(m, "Node")
      .def_prop_ro("name", [](const NodeRef& ref) { return ref.node->name; })
      .def_prop_ro("recorded_name", [](const NodeRef& ref) { return ref.node->recorded_name; })
      .def_prop_ro("target", [](const NodeRef& ref) { return to_nb(ref.node->target.copy()); })
      .def_prop_ro("users", [](const NodeRef& ref) { return ref.node->users; });
  nb::class_<SiteRef>(m, "Site");
  m.def("site", &make_site, nb::arg("code"), nb::arg("offset"), nb::arg("caller") = nb::none(),
        nb::arg("module_path") = "", nb::arg("module_type") = nb::none());
  const auto kwargs = nb::arg("kwargs") = nb::dict();
  nb::class_<Builder>(m, "GraphBuilder")
      .def(nb::init<>())
      .def("placeholder", &Builder::placeholder, nb::arg("source"), nb::arg("example") = nb::none(),
           nb::arg("hint") = "", nb::arg("real") = nb::none())
      .def("call_function", &call_function, nb::arg("target"), nb::arg("args"), kwargs, nb::arg("example") = nb::none(),
           nb::arg("impure") = false, nb::arg("site") = nb::none())
      .def("call_method", &call_method, nb::arg("target"), nb::arg("args"), kwargs, nb::arg("example") = nb::none(),
           nb::arg("impure") = false, nb::arg("site") = nb::none())
      .def("get_attr", &Builder::get_attr, nb::arg("name"), nb::arg("value"), nb::arg("example") = nb::none())
      .def("rename", &Builder::rename)
      .def("output", &Builder::output)
      .def("simplify", [](Builder& self) { self.graph().simplify(); })
      .def("print", [](Builder& self) { return graph::print(self.graph()); })
      .def_prop_ro("names", &Builder::names)
      .def_prop_ro("op_count", [](Builder& self) { return self.graph().op_count(); })
      .def("native_forward",
           [](Builder& self) { return guarded([&] { return to_nb(backend::native_forward(self.graph())); }); })
      .def("fx_graph", [](Builder& self) { return guarded([&] { return to_nb(backend::fx_graph(self.graph())); }); })
      .def("graph_module",
           [](Builder& self) { return guarded([&] { return to_nb(backend::graph_module(self.capture())); }); });
}

}  // namespace pellucid::hooks
