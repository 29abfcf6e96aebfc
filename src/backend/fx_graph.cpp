// torch.fx.Graph.create_node spends 12-24 us on a node, nearly all of it in Python. Here the same steps are done
// through the C API: allocate, initialise the C base class, set the arguments, append to the list, and enter the node
// into the two side tables (names, find_nodes), so that every later edit of the graph finds what create_node would have
// left.
#include <memory>

#include "backend/fx.h"
#include "backend/fx_args.h"
#include "backend/fx_builder.h"
#include "graph/bodies.h"

namespace pellucid::backend {
namespace {
using graph::Node;
using graph::Op;

struct FxTypes {
  PyTypeObject *node = nullptr, *node_base = nullptr;
  py::Owned<> graph, update_args, prepend, no_args, output, meta, example_value;
  py::Owned<> op_names[5];
  py::Owned<> key_of_op[5];  // key of the find_nodes table; call_function nodes have one for each target
};

const FxTypes& fx_types() {
  static const FxTypes* types = [] {
    auto made = std::make_unique<FxTypes>();
    auto node = py::import_attr("torch.fx.node", "Node");
    auto base = py::import_attr("torch._C", "_NodeBase");
    made->update_args = py::take(PyObject_GetAttrString(base.get(), "_update_args_kwargs"));
    made->prepend = py::take(PyObject_GetAttrString(base.get(), "_prepend"));
    made->node = reinterpret_cast<PyTypeObject*>(node.release());
    made->node_base = reinterpret_cast<PyTypeObject*>(base.release());
    made->graph = py::import_attr("torch.fx.graph", "Graph");
    made->no_args = py::take(PyTuple_New(0));
    made->output = py::interned("output");
    made->meta = py::interned("meta");
    made->example_value = py::interned("example_value");
    for (Op op : {Op::Placeholder, Op::GetAttr, Op::CallFunction, Op::CallMethod, Op::Output}) {
      const auto i = static_cast<std::size_t>(op);
      made->op_names[i] = py::interned(std::string(graph::name_of(op)).c_str());
      made->key_of_op[i] = py::take(PyTuple_Pack(2, made->op_names[i].get(), Py_None));
    }
    return made.release();
  }();
  return *types;
}

py::Owned<> attr(PyObject* object, const char* name) { return py::take(PyObject_GetAttrString(object, name)); }

PyObject* node_of_builder(const Node* node, void* builder) { return static_cast<FxBuilder*>(builder)->fx_node(node); }

}  // namespace

FxBuilder::FxBuilder(const graph::Graph& graph) : source_(graph) {
  out_ = py::take(PyObject_CallNoArgs(fx_types().graph.get()));
  root_ = attr(out_.get(), "_root");
  auto names = attr(out_.get(), "_graph_namespace");
  name_of_object_ = attr(names.get(), "_obj_to_name");
  used_names_ = attr(names.get(), "_used_names");
  base_count_ = attr(names.get(), "_base_count");
  table_ = attr(attr(out_.get(), "_find_nodes_lookup_table").get(), "table");
  calls_.resize(graph.nodes().size());
  placeholders_.resize(graph.placeholders().size());
}

py::Owned<> FxBuilder::build() {
  for (const Node* node : source_.placeholders()) add(*node);
  for (const Node* node : source_.nodes()) add(*node);
  if (source_.has_output()) add_output();
  finish_names();
  auto length = py::take(PyLong_FromSsize_t(count_));
  py::check(PyObject_SetAttrString(out_.get(), "_len", length.get()));
  return std::move(out_);
}

PyObject* FxBuilder::fx_node(const Node* node) const {
  const auto& list = node->op == Op::Placeholder ? placeholders_ : calls_;
  return list[static_cast<std::size_t>(node->index)].get();
}

void FxBuilder::add(const Node& node) {
  auto args = py::take(PyTuple_New(static_cast<Py_ssize_t>(node.args.size())));
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), object_of(node.args[i], node_of_builder, this).release());
  }
  auto kwargs = py::take(PyDict_New());
  for (const auto& [key, value] : node.kwargs) {
    auto object = object_of(value, node_of_builder, this);
    py::check(PyDict_SetItem(kwargs.get(), key.get(), object.get()));
  }
  auto made = create(node.op, py::str(node.name).get(), node.target.get(), args.get(), kwargs.get());
  if (node.example_value) {
    auto meta = py::take(PyObject_GenericGetAttr(made.get(), fx_types().meta.get()));
    py::check(PyDict_SetItem(meta.get(), fx_types().example_value.get(), node.example_value.get()));
  }
  auto& list = node.op == Op::Placeholder ? placeholders_ : calls_;
  list[static_cast<std::size_t>(node.index)] = std::move(made);
}

void FxBuilder::add_output() {
  const auto& values = source_.outputs();
  auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(fx_node(values[i])));
  }
  const bool gives_one = source_.body != nullptr && source_.body->gives_one;
  auto args = py::take(PyTuple_Pack(1, gives_one ? PyTuple_GET_ITEM(tuple.get(), 0) : tuple.get()));
  auto kwargs = py::take(PyDict_New());
  (void)create(Op::Output, py::str(source_.output_name()).get(), fx_types().output.get(), args.get(), kwargs.get());
}

// What Graph.create_node does, in its order.
py::Owned<> FxBuilder::create(Op op, PyObject* name, PyObject* target, PyObject* args, PyObject* kwargs) {
  const FxTypes& types = fx_types();
  auto made = py::take(types.node->tp_new(types.node, types.no_args.get(), nullptr));
  auto init =
      py::take(PyTuple_Pack(5, out_.get(), name, types.op_names[static_cast<std::size_t>(op)].get(), target, Py_None));
  py::check(types.node_base->tp_init(made.get(), init.get(), nullptr));
  PyObject* const update[] = {made.get(), args, kwargs};
  (void)py::take(PyObject_Vectorcall(types.update_args.get(), update, 3, nullptr));
  py::check(PyDict_SetItem(name_of_object_.get(), made.get(), name));
  PyObject* const prepend[] = {root_.get(), made.get()};
  (void)py::take(PyObject_Vectorcall(types.prepend.get(), prepend, 2, nullptr));
  enter_into_table(op, made.get(), target);
  ++count_;
  return made;
}

void FxBuilder::enter_into_table(Op op, PyObject* node, PyObject* target) {
  const FxTypes& types = fx_types();
  const auto kind = static_cast<std::size_t>(op);
  auto key = op == Op::CallFunction ? py::take(PyTuple_Pack(2, types.op_names[kind].get(), target))
                                    : types.key_of_op[kind].copy();
  auto row = py::Owned<>::share(PyDict_GetItemWithError(table_.get(), key.get()));
  if (!row) {
    if (PyErr_Occurred() != nullptr) py::throw_pending();
    row = py::take(PyDict_New());
    py::check(PyDict_SetItem(table_.get(), key.get(), row.get()));
  }
  py::check(PyDict_SetItem(row.get(), node, Py_None));
}

void FxBuilder::finish_names() {
  for (const std::string& name : source_.names().used()) py::check(PySet_Add(used_names_.get(), py::str(name).get()));
  for (const auto& [base, number] : source_.names().counters()) {
    auto value = py::take(PyLong_FromLong(number));
    py::check(PyDict_SetItem(base_count_.get(), py::str(base).get(), value.get()));
  }
}

py::Owned<> fx_graph(const graph::Graph& graph) { return FxBuilder(graph).build(); }

}  // namespace pellucid::backend
