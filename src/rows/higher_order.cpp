// The operators of torch.ops.higher_order that take functions, one row each. pellucid/polyfills_higher_order.py calls
// these around the functions.
#include <algorithm>
#include <unordered_set>

#include "aten/aten.h"
#include "aten/gradients.h"
#include "aten/layers.h"
#include "graph/bodies.h"
#include "graph/same.h"
#include "region/body_audit.h"
#include "region/snapshot.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// What an operator makes of its bodies. None of these may change anything but tensors of its own, nor give what it is
// given: an operator calls them when it likes, and keeps what they give.
struct Operator {
  const char* name;    // in torch.ops.higher_order
  const char* callee;  // as the program says it
  bool shares;         // each body gets what any of them uses
  // The function of pellucid._bodies that does the same where nobody but this process sees the graph.
  const char* plain;
};

constexpr Operator kOperators[] = {
    {"cond", "torch.cond()", true, "cond"},
    {"while_loop", "torch.while_loop()", true, "while_loop"},
    {"scan", "scan()", false, "scan"},
    {"map_impl", "map()", false, "map_each"},
    {"flex_attention", "flex_attention()", false, "flex_attention"},
    {"invoke_subgraph", "torch.compiler.nested_compile_region()", false, "call_region"},
};

const Operator& operator_of(PyObject* name) {
  return *std::ranges::find_if(
      kOperators, [&](const Operator& row) { return PyUnicode_CompareWithASCIIString(name, row.name) == 0; });
}

[[noreturn]] void refuse_body(const Operator& row, const char* what) {
  unsupported(Reason::ImpureBody, {{"callee", row.callee}, {"what", what}});
}

std::vector<PyObject*> items_of(PyObject* tuple) {
  return {PySequence_Fast_ITEMS(tuple), PySequence_Fast_ITEMS(tuple) + PyTuple_GET_SIZE(tuple)};
}

// body_input(like, how, requires_grad): a tensor that the operator makes when it calls the body.
Result body_input(Interpreter& t, PyObject*, Args args) {
  return Result::of(t.region.recorder.bodies.own_input(args[0], args[1], args[2] == Py_True));
}

// end_body(operator, tensors, gives_one): the body gives these. Its number.
Result end_body(Interpreter& t, PyObject*, Args args) {
  const Operator& row = operator_of(args[0]);
  const auto audit = std::move(t.region.audits.back());
  t.region.audits.pop_back();
  if (t.region.unbacked.any()) refuse_body(row, "in a program that computes with numbers of tensors");
  if (const char* change = audit->change()) refuse_body(row, change);
  graph::Body& body = *t.region.capture->bodies->graph().body;
  if (const char* why = t.region.recorder.bodies.set_outputs(items_of(args[1]))) refuse_body(row, why);
  body.gives_one = args[2] == Py_True;
  body.keeps_values = true;
  return Result::of(py::take(PyLong_FromSize_t(t.region.recorder.bodies.keep(t.region.recorder.bodies.close()))));
}

// discard_body(operator): what was followed since begin_body() is left out.
Result discard_body(Interpreter& t, PyObject*, Args args) {
  if (const char* change = t.region.audits.back()->change()) refuse_body(operator_of(args[0]), change);
  t.region.audits.pop_back();
  t.region.recorder.bodies.discard();
  return Result::none();
}

// Whether torch.cond() chooses for each row of the torch.vmap() around it.
Result chooses_by_row(Interpreter& t, PyObject*, Args args) {
  if (!aten::is_below_transform() || t.region.capture->bodies->is_open())
    return Result::of(py::Owned<>::share(Py_False));
  static PyObject* const chooses = py::import_attr("pellucid._bodies", "chooses_by_row").release();
  const auto fake = t.region.recorder.lift(args[0]);
  return Result::of(py::take(PyObject_CallOneArg(chooses, fake.get())));
}

// begin_row(roots): a function of torch.cond() that runs for every row, whatever its predicate is there. Its operations
// go into the graph that is open.
Result begin_row(Interpreter& t, PyObject*, Args args) {
  t.region.audits.push_back(std::make_unique<region::BodyAudit>(t.region, items_of(args[0])));
  return Result::of(py::take(PyLong_FromSize_t(t.region.capture->bodies->graph().nodes().size())));
}

// end_row(begun, result): the function is over, and gives this tensor. Whether it has rows.
Result end_row(Interpreter& t, PyObject*, Args args) {
  const Operator& row = kOperators[0];
  const auto audit = std::move(t.region.audits.back());
  t.region.audits.pop_back();
  if (t.region.unbacked.any()) refuse_body(row, "in a program that computes with numbers of tensors");
  if (const char* change = audit->change()) refuse_body(row, change);
  const graph::Graph& graph = t.region.capture->bodies->graph();
  const auto& nodes = graph.nodes();
  const auto first = nodes.begin() + static_cast<std::ptrdiff_t>(std::min(PyLong_AsSize_t(args[0]), nodes.size()));
  std::unordered_set<const void*> known;
  const auto note = [&](const graph::Node* node) {
    if (node->example_value && aten::is_tensor(node->example_value.get()))
      known.insert(aten::meta_of(node->example_value.get()).storage);
  };
  std::ranges::for_each(graph.placeholders(), note);
  std::for_each(nodes.begin(), first, note);
  if (std::any_of(first, nodes.end(), [&](const graph::Node* node) {
        return std::ranges::any_of(node->written, [&](const auto& written) { return known.contains(written.get()); });
      }))
    refuse_body(row, "it writes to tensors that it is given");
  const auto result = t.region.recorder.lift(args[1]);
  if (known.contains(aten::meta_of(result.get()).storage))
    refuse_body(row, "it gives a tensor that it is given, or a view");
  static PyObject* const has_rows = py::import_attr("pellucid._bodies", "has_rows").release();
  return Result::of(py::take(PyObject_CallOneArg(has_rows, result.get())));
}

// ---- torch.compiler.nested_compile_region

constexpr const char* kRegionBody = "subgraph";  // torch._dynamo's word

bool is_region(const graph::Graph& graph) { return graph.body != nullptr && graph.body->name.starts_with(kRegionBody); }

// Whether the function becomes a graph of its own: where a compiler sees the graph, and may call the operator there.
Result makes_region(Interpreter& t, PyObject*, Args args) {
  const graph::Graph& graph = t.region.capture->bodies->graph();
  const bool plain = std::ranges::none_of(items_of(args[0]), [](PyObject* value) {
    return region::cat_of(value) == Cat::Tensor && region::is_subclassed(value);
  });
  const bool makes = plain && !t.region.numbers.policy.runs_as_captured() && !aten::is_below_transform() &&
                     (!t.region.capture->bodies->is_open() || is_region(graph));
  return Result::of(py::Owned<>::share(makes ? Py_True : Py_False));
}

bool needs_gradient(const graph::Node* node) {
  return node->example_value && aten::is_tensor(node->example_value.get()) &&
         aten::meta_of(node->example_value.get()).requires_grad;
}

// What no operator does: it switches the state of the thread, or holds an operator of another kind.
bool is_beyond_operator(const graph::Node* node) {
  return (node->impure && node->written.empty()) || (node->body != nullptr && !is_region(node->body->graph));
}

// fits_region(leaves): whether the operator can give what the open body gives: tensors of its own, each once, that need
// gradients when anything does that it uses, and constants.
Result fits_region(Interpreter& t, PyObject*, Args args) {
  const graph::Graph& graph = t.region.capture->bodies->graph();
  std::unordered_set<const void*> known;
  for (const graph::Node* node : graph.placeholders()) {
    if (node->example_value && aten::is_tensor(node->example_value.get()))
      known.insert(aten::meta_of(node->example_value.get()).storage);
  }
  const bool differentiable = std::ranges::any_of(graph.placeholders(), needs_gradient);
  std::unordered_set<PyObject*> met;
  bool any = false;
  const auto fits = [&](PyObject* leaf) {
    if (region::cat_of(leaf) != Cat::Tensor) return region::is_atom(region::cat_of(leaf));
    if (region::is_subclassed(leaf)) return false;
    any = true;
    if (!met.insert(leaf).second) return true;
    const auto fake = t.region.recorder.lift(leaf);
    const aten::Meta meta = aten::meta_of(fake.get());
    return known.insert(meta.storage).second && meta.requires_grad == differentiable;
  };
  const bool fit =
      std::ranges::all_of(items_of(args[0]), fits) && any && std::ranges::none_of(graph.nodes(), is_beyond_operator);
  return Result::of(py::Owned<>::share(fit ? Py_True : Py_False));
}

// As values inside of a body, where it does not count whether one is a leaf.
bool are_alike(PyObject* one, PyObject* other) {
  if (one == other) return true;
  if (PyTuple_CheckExact(one) && PyTuple_CheckExact(other))
    return std::ranges::equal(items_of(one), items_of(other), are_alike);
  if (!aten::is_tensor(one) || !aten::is_tensor(other)) return false;
  if (aten::meta_of(one).requires_grad != aten::meta_of(other).requires_grad) return false;
  const auto detached = aten::detached(one), other_detached = aten::detached(other);
  return aten::TensorSpec::of(detached.get())->matches(other_detached.get());
}

// What the node of a region begins with: the body and the name by which compilers know it. Bodies that are equal have
// one name, those of one graph are one. While sizes are open, equal ones are not told from others.
void name_region(Interpreter& t, std::size_t number, graph::Node*& given, std::vector<graph::Arg>& to) {
  const graph::Body& body = *given->body;
  const graph::Body* first = nullptr;
  graph::Node* here = nullptr;
  const std::size_t earlier = t.region.numbers.space().symbols() > 0 ? 0 : number;
  for (std::size_t i = 0; i < earlier && here == nullptr; ++i) {
    graph::Node* other = t.region.recorder.bodies.kept(i);
    if (!is_region(other->body->graph) || !graph::are_same(other->body->graph, body.graph, are_alike)) continue;
    if (first == nullptr) first = other->body;
    if (other->graph == given->graph) here = other;
  }
  if (here != nullptr) given = here;
  to.push_back(graph::Arg::of(given));
  to.push_back(graph::Arg::of(py::str(first == nullptr ? body.name : first->name)));
  for (graph::Node* operand : body.operands) to.push_back(graph::Arg::of(operand));
}

// The arguments of the node. An instance of Slot stands for a body, or for the tensors that one uses besides those that
// its operator makes for it.
graph::Arg node_argument(Interpreter& t, PyObject* value, std::span<graph::Node* const> given) {
  static PyObject* const slot = py::import_attr("pellucid.polyfills_higher_order", "Slot").release();
  graph::Arg arg;
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) == slot) {
    const auto number = py::take(PyObject_GetAttrString(value, "number"));
    const auto kind = py::take(PyObject_GetAttrString(value, "kind"));
    graph::Node* body = given[PyLong_AsSize_t(number.get())];
    if (kind.get() == Py_None) return graph::Arg::of(body);
    arg.kind =
        reinterpret_cast<PyTypeObject*>(kind.get()) == &PyList_Type ? graph::Arg::Kind::List : graph::Arg::Kind::Tuple;
    for (graph::Node* operand : body->body->operands) {
      if (operand != nullptr) arg.items.push_back(graph::Arg::of(operand));
    }
    return arg;
  }
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return t.region.recorder.to_arg(value);
  arg.kind = PyList_CheckExact(value) ? graph::Arg::Kind::List : graph::Arg::Kind::Tuple;
  for (const auto& item : region::items_now(value)) arg.items.push_back(node_argument(t, item.get(), given));
  return arg;
}

// torch's checkpointing, as AOTAutograd runs it, calls no such operators.
bool is_in_checkpoint(const graph::Graph& graph) {
  return graph.body != nullptr && (graph.body->name == "wrap_body" || is_in_checkpoint(graph.body->outer));
}

// call_operator(operator, bodies, arguments, likes, how, others): a node, which gives tensors like `likes`; they need
// gradients when one of these or of `others` does.
Result call_operator(Interpreter& t, PyObject*, Args args) {
  const Operator& row = operator_of(args[0]);
  if (!t.region.numbers.policy.runs_as_captured() && is_in_checkpoint(t.region.capture->bodies->graph()))
    refuse_body(row, "below torch.utils.checkpoint.checkpoint()");
  std::vector<graph::Node*> given;
  std::vector<graph::Body*> bodies;
  for (PyObject* number : items_of(args[1])) {
    given.push_back(t.region.recorder.bodies.kept(PyLong_AsSize_t(number)));
    bodies.push_back(const_cast<graph::Body*>(given.back()->body));
  }
  if (row.shares) t.region.capture->bodies->share_operands(bodies);
  std::vector<PyObject*> likes = items_of(args[3]);
  const std::size_t count = likes.size();
  for (PyObject* other : items_of(args[5])) likes.push_back(other);
  for (const graph::Body* body : bodies) {
    for (const graph::Node* operand : body->operands) {
      if (operand != nullptr && operand->example_value && aten::is_tensor(operand->example_value.get()))
        likes.push_back(operand->example_value.get());
    }
  }
  const auto result = t.region.recorder.bodies.fresh(args[4], count, likes);
  std::vector<graph::Arg> arguments;
  if (is_region(bodies.front()->graph))
    name_region(t, PyLong_AsSize_t(PyTuple_GET_ITEM(args[1], 0)), given.front(), arguments);
  for (PyObject* value : items_of(args[2])) arguments.push_back(node_argument(t, value, given));
  if (!t.region.numbers.policy.runs_as_captured()) t.region.recorder.bodies.copy_aliases(arguments);
  const auto target = region::torch_operator("higher_order", row.name);
  return Result::of(t.region.recorder.bodies.call(target.get(), py::import_attr("pellucid._bodies", row.plain), given,
                                                  std::move(arguments), result));
}

Result refuse_operator(Interpreter&, PyObject*, Args args) {
  refuse_body(operator_of(args[0]), PyUnicode_AsUTF8(args[1]));
}

template <const char* kName>
Result polyfill(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, kName, args);
}
constexpr char kCond[] = "choose_branch", kWhileLoop[] = "repeat_body", kScan[] = "scan_rows", kMap[] = "map_rows",
               kRegion[] = "call_region";

const Row rows[] = {
    {"torch.cond", polyfill<kCond>},
    {"torch._higher_order_ops.while_loop.while_loop", polyfill<kWhileLoop>},
    {"torch._higher_order_ops.scan.scan", polyfill<kScan>},
    {"torch._higher_order_ops.map.map", polyfill<kMap>},
    {"torch._higher_order_ops.invoke_subgraph.invoke_subgraph_placeholder", polyfill<kRegion>},
    {"pellucid.polyfills_higher_order.body_input", body_input},
    {"pellucid.polyfills_higher_order.end_body", end_body},
    {"pellucid.polyfills_higher_order.discard_body", discard_body},
    {"pellucid.polyfills_higher_order.chooses_by_row", chooses_by_row},
    {"pellucid.polyfills_higher_order.begin_row", begin_row},
    {"pellucid.polyfills_higher_order.end_row", end_row},
    {"pellucid.polyfills_higher_order.call_operator", call_operator},
    {"pellucid.polyfills_higher_order.refuse_operator", refuse_operator},
    {"pellucid.polyfills_higher_order.makes_region", makes_region},
    {"pellucid.polyfills_higher_order.fits_region", fits_region},
};

}  // namespace

Result flex_attention(Interpreter& t, PyObject*, Args args) { return protocols::call_polyfill(t, "attend", args); }

const std::span<const Row> kHigherOrderRows = rows;

}  // namespace pellucid::rows
