// The hand-off itself: the fx graph, the native forward, and the facts from which pellucid/_fx.py makes the costly
// metadata when somebody looks at the graph.
#include <algorithm>
#include <unordered_map>

#include "backend/fx.h"
#include "backend/fx_builder.h"
#include "graph/bodies.h"

namespace pellucid::backend {
namespace {
using graph::CallSite;
using graph::Node;

py::Owned<> none() { return py::Owned<>::share(Py_None); }

// Call chains as nested tuples (code, offset, caller, module_key, module_path, module_type): shared like the chains
// themselves, and visible to the garbage collector.
class Sites {
 public:
  // The operators whose bodies are being made, outermost first: pairs (name, operator).
  py::Owned<> operators = py::take(PyTuple_New(0));

  PyObject* tuple_of(const CallSite* site) {
    if (site == nullptr) return Py_None;
    auto& made = tuples_[site];
    if (!made) made = build(*site);
    return made.get();
  }

 private:
  py::Owned<> build(const CallSite& site) {
    auto caller = py::Owned<>::share(tuple_of(site.caller.get()));
    auto offset = py::take(PyLong_FromLong(site.offset));
    auto key = site.module_key.empty() ? none() : py::str(site.module_key);
    auto path = site.module_path.empty() ? none() : py::str(site.module_path);
    PyObject* type = site.module_type ? site.module_type.get() : Py_None;
    PyObject* module = site.graph_module ? site.graph_module.get() : Py_None;
    return py::take(
        PyTuple_Pack(7, site.code.object(), offset.get(), caller.get(), key.get(), path.get(), type, module));
  }
  std::unordered_map<const CallSite*, py::Owned<>> tuples_;
};

// The real tensor behind a placeholder, weakly: a compiled graph keeps no input alive. None when there is none.
py::Owned<> weak_input(const region::Capture& capture, const Node* node) {
  const auto found = capture.input_of.find(node);
  if (found == capture.input_of.end()) return none();
  auto weak = py::Owned<>::steal(PyWeakref_NewRef(found->second, nullptr));
  if (weak) return weak;
  PyErr_Clear();
  return none();
}

py::Owned<> facts_of(const FxBuilder& builder, const Node& node, Sites& sites) {
  auto name = node.recorded_name == node.name ? none() : py::str(node.recorded_name);
  return py::take(PyTuple_Pack(3, builder.fx_node(&node), name.get(), sites.tuple_of(node.where.get())));
}

py::Owned<> input_facts_of(const FxBuilder& builder, const Node& node, Sites& sites, PyObject* weak) {
  auto source = py::str(node.source_text);
  return py::take(PyTuple_Pack(4, builder.fx_node(&node), source.get(), sites.tuple_of(node.where.get()), weak));
}

// The module of a graph without its inputs' sources, and what get_attr nodes read of it, for those who run or copy it
// as torch.fx does: bodies too.
py::Owned<> module_of(const graph::Graph& graph, const FxBuilder& builder, PyObject* fx_graph, PyObject* input_facts,
                      Sites& sites);

py::Owned<> module_of_body(const graph::Body& body, Sites& sites) {
  FxBuilder builder(body.graph);
  auto fx_graph = builder.build();
  auto no_inputs = py::take(PyList_New(0));
  const auto outer = sites.operators.copy();
  const auto pair = py::take(PyTuple_Pack(2, py::str(body.call->recorded_name).get(), body.call->target.get()));
  sites.operators = py::take(PySequence_Concat(outer.get(), py::take(PyTuple_Pack(1, pair.get())).get()));
  auto module = module_of(body.graph, builder, fx_graph.get(), no_inputs.get(), sites);
  sites.operators = outer.copy();
  if (body.call->plain) {
    auto mark = py::import_attr("pellucid._bodies", "describe_body");
    (void)py::take(PyObject_CallFunctionObjArgs(mark.get(), module.get(), body.call->plain.get(), nullptr));
  }
  return module;
}

void add_attributes(const graph::Graph& graph, PyObject* module, Sites& sites) {
  py::Owned<> add;
  for (const Node* node : graph.nodes()) {
    if (node->op != graph::Op::GetAttr) continue;
    if (!add) add = py::import_attr("pellucid._fx", "add_attribute");
    auto source = py::str(node->source_text);
    auto attribute = node->body == nullptr ? node->attribute.copy() : module_of_body(*node->body, sites);
    PyObject* const args[] = {module, node->target.get(), attribute.get(), source.get()};
    (void)py::take(PyObject_Vectorcall(add.get(), args, 4, nullptr));
  }
}

// Who traces an operator calls the modules of its bodies: these call the operators inside of them, not what is plain.
bool is_traced_as_it_is(const graph::Graph& graph) {
  return graph.body == nullptr ||
         std::ranges::none_of(graph.nodes(), [](const Node* node) { return static_cast<bool>(node->plain); });
}

py::Owned<> module_of(const graph::Graph& graph, const FxBuilder& builder, PyObject* fx_graph, PyObject* input_facts,
                      Sites& sites) {
  auto forward = is_traced_as_it_is(graph) ? native_forward(graph) : none();
  auto call_facts = py::take(PyList_New(0));
  for (const Node* node : graph.nodes()) {
    auto facts = facts_of(builder, *node, sites);
    py::check(PyList_Append(call_facts.get(), facts.get()));
  }
  auto make = py::import_attr("pellucid._fx", "make_graph_module");
  PyObject* const args[] = {fx_graph, forward.get(), input_facts, call_facts.get(), sites.operators.get()};
  auto module = py::take(PyObject_Vectorcall(make.get(), args, 5, nullptr));
  add_attributes(graph, module.get(), sites);
  return module;
}

// Under the names that torch._dynamo's metrics have for them.
void add_operators(const region::Capture& capture, PyObject* module) {
  if (capture.compliant_operators.empty() && capture.other_operators.empty()) return;
  const auto meta = py::take(PyObject_GetAttrString(module, "meta"));
  const auto set = [&](const char* name, const std::vector<py::Owned<>>& operators) {
    const auto names = py::take(PySet_New(nullptr));
    for (const py::Owned<>& one : operators) py::check(PySet_Add(names.get(), py::take(PyObject_Str(one.get())).get()));
    py::check(PyDict_SetItemString(meta.get(), name, names.get()));
  };
  set("compliant_custom_ops", capture.compliant_operators);
  set("non_compliant_ops", capture.other_operators);
}

}  // namespace

py::Owned<> graph_module(const region::Capture& capture) {
  FxBuilder builder(capture.graph);
  auto fx_graph = builder.build();
  Sites sites;
  auto input_facts = py::take(PyList_New(0));
  for (const Node* node : capture.graph.placeholders()) {
    auto facts = input_facts_of(builder, *node, sites, weak_input(capture, node).get());
    py::check(PyList_Append(input_facts.get(), facts.get()));
  }
  auto module = module_of(capture.graph, builder, fx_graph.get(), input_facts.get(), sites);
  add_operators(capture, module.get());
  return module;
}

}  // namespace pellucid::backend
