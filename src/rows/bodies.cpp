// Operators that take functions: the function becomes a graph inside of the graph. pellucid/polyfills_bodies.py calls
// these around it.
#include "graph/bodies.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "aten/layers.h"
#include "protocols/torch_function.h"
#include "py/traceback.h"
#include "region/body_audit.h"
#include "region/objects.h"
#include "region/snapshot.h"
#include "region/torch_module.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

[[noreturn]] void refuse_call(const std::string& callee, const char* what) {
  unsupported(Reason::ImpureBody, {{"callee", callee}, {"what", what}});
}

Result refuse_body(Interpreter&, PyObject*, Args args) {
  refuse_call(py::text_of(args[0]), py::text_of(args[1]).c_str());
}

Result open_body(Interpreter& t, PyObject* kind, PyObject* given, PyObject* roots) {
  const auto items = [](PyObject* tuple) {
    return std::vector<PyObject*>(PySequence_Fast_ITEMS(tuple), PySequence_Fast_ITEMS(tuple) + PyTuple_GET_SIZE(tuple));
  };
  t.region.recorder.bodies.open(PyUnicode_AsUTF8(kind), items(given));
  t.region.audits.push_back(std::make_unique<region::BodyAudit>(t.region, items(roots)));
  return Result::none();
}

// begin_body(kind, given, roots): what follows goes into a graph that gets the tensors `given` first.
Result begin_body(Interpreter& t, PyObject*, Args args) {
  if (aten::is_below_transform()) refuse_call(PyUnicode_AsUTF8(args[0]), "is below a transform of torch.func");
  return open_body(t, args[0], args[1], args[2]);
}

// current_level(): (number, size, randomness) of the innermost level of torch.func; of one that is no torch.vmap, the
// number and two None. None: there is none.
Result current_level(Interpreter& t, PyObject*, Args) {
  return aten::in_function_transform() ? parts_of_innermost_level(t) : Result::none();
}

// take_off_level(): what follows is below the innermost level, whose tensors stay alive, until put_on_level(). The
// region cannot end before.
Result take_off_level(Interpreter& t, PyObject*, Args) {
  static PyObject* const pop = py::import_attr("torch._C._functorch", "pop_dynamic_layer_stack").release();
  auto layer = py::take(PyObject_CallNoArgs(pop));
  region::OpenLevels& levels = t.region.recorder.levels;
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, pop, Args{}, Py_None, true);
  levels.taken_off.emplace_back(std::move(layer), node);
  ++levels.left;
  return Result::none();
}

Result put_on_level(Interpreter& t, PyObject*, Args) {
  static PyObject* const push = py::import_attr("torch._C._functorch", "push_dynamic_layer_stack").release();
  region::OpenLevels& levels = t.region.recorder.levels;
  const auto [layer, taken_off] = std::move(levels.taken_off.back());
  levels.taken_off.pop_back();
  const auto depth = py::take(PyObject_CallOneArg(push, layer.get()));
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, push, Args{}, Py_None, true);
  node->args.push_back(graph::Arg::of(taken_off));
  taken_off->users += 1;
  --levels.left;
  return Result::none();
}

// begin_function(roots): what follows goes into a graph of which nothing is left (end_function, discard_body), so it
// may be below a transform.
Result begin_function(Interpreter& t, PyObject*, Args args) {
  static PyObject* const kind = py::interned("function").release();
  static PyObject* const nothing = py::take(PyTuple_New(0)).release();
  return open_body(t, kind, nothing, args[0]);
}

using ObjectAt = std::unordered_map<const region::Source*, PyObject*>;

// The object there; null: nobody has kept it. Borrowed.
PyObject* owner_of(const region::Source* source, const ObjectAt& object_at) {
  if (source->step == source::Step::Const) return source->operand.get();
  if (const auto found = object_at.find(source); found != object_at.end()) return found->second;
  PyObject* base = source->base == nullptr ? nullptr : owner_of(source->base, object_at);
  if (base == nullptr) return nullptr;
  const auto value = source::evaluate_step(source, base, nullptr, nullptr);
  return value && PyTuple_Check(value.get()) ? value.get() : nullptr;  // `base` holds it
}

const char* kind_of(source::Step step) {
  if (step == source::Step::InstanceAttr) return "attribute";
  if (step == source::Step::CellContents) return "cell";
  return step == source::Step::Item ? "item" : "key";
}

// What a part of the graph that runs in the backward pass has read is compared then (pellucid/_late_guards.py). The
// call behind the graph knows where the values are.
void guard_late_reads(Interpreter& t, std::unique_ptr<region::BodyAudit> audit, const std::string& callee) {
  static PyObject* const watch = py::import_attr("pellucid._late_guards", "watch").release();
  static PyObject* const changed = py::import_attr("pellucid._late_guards", "CHANGED").release();
  if (audit->has_read_changed()) refuse_call(callee, "it reads what has been changed before");
  const region::Frame* frame = t.region.top;
  while (frame->back && frame->hidden) frame = frame->back.get();
  const auto place =
      py::take(Py_BuildValue("(Oi)", frame->code->co_filename, py::line_of(frame->code.get(), frame->at)));
  if (PyDict_Contains(changed, place.get()) == 1) refuse_call(callee, "what it reads has changed before it ran again");
  t.region.provenance.note_constant(changed);
  t.region.provenance.guard(region::Kind::DICT_CONTAINS, t.region.capture->sources.constant(changed),
                            py::Owned<>::share(place.get()), 0);
  ObjectAt object_at;
  for (const auto& [object, source] : t.region.capture->source_of) object_at.emplace(source, object);
  auto reads = py::take(PyList_New(0));
  for (const auto& read : audit->reads()) {
    PyObject* owner = owner_of(read.source->base, object_at);
    if (owner == nullptr) refuse_call(callee, "it reads what cannot be watched until it runs again");
    if (PyTuple_Check(owner)) continue;  // which never has other items
    if (!t.region.provenance.is_outside(owner)) t.region.provenance.note_constant(owner);
    const auto key = read.source->step == source::Step::Item ? py::take(PyLong_FromLongLong(read.source->index))
                     : read.source->operand                  ? read.source->operand.copy()
                                                             : py::Owned<>::share(Py_None);
    const auto row = py::take(Py_BuildValue("(sOOsOi)", kind_of(read.source->step), owner, key.get(),
                                            source::print(read.source).c_str(), read.code->co_filename,
                                            py::line_of(read.code.get(), read.offset)));
    py::check(PyList_Append(reads.get(), row.get()));
  }
  if (PyList_GET_SIZE(reads.get()) != 0) {
    const auto given = py::take(PyTuple_Pack(2, place.get(), py::take(PyList_AsTuple(reads.get())).get()));
    t.region.provenance.note_constant(watch);
    t.region.deferred.add_on_objects(watch, given.get());
    --t.region.outside_writes;  // of an outer body it changes nothing
  }
  t.region.late_audits.push_back(std::move(audit));
}

bool requires_grad(const py::Owned<>& example) {
  if (!example) return false;
  bool any = false;
  region::each_tensor(example.get(), [&](PyObject* fake) { any |= aten::meta_of(fake).requires_grad; });
  return any;
}

bool needs_gradients(const graph::Graph& body) {
  return std::ranges::any_of(body.nodes(), [](const graph::Node* node) { return requires_grad(node->example_value); });
}

// The same at every call: from outside, or made of such.
bool is_known(Interpreter& t, PyObject* object) {
  static PyObject* const partial = py::import_attr("functools", "partial").release();
  static PyObject* const none = py::import_attr("torch.utils.checkpoint", "noop_context_fn").release();
  if (object == none || region::is_atom(region::cat_of(object)) || t.region.provenance.is_outside(object)) return true;
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != partial) return false;
  const auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(object, name)); };
  const auto function = part("func"), given = part("args"), named = part("keywords");
  bool known = is_known(t, function.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i)
    known = known && is_known(t, PyTuple_GET_ITEM(given.get(), i));
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(named.get(), &at, &name, &value) != 0;) known = known && is_known(t, value);
  return known;
}

// end_checkpoint(result, options, given): the graph is what torch.utils.checkpoint.checkpoint gets.
Result end_checkpoint(Interpreter& t, PyObject*, Args args) {
  static PyObject* const target = region::torch_operator("higher_order", "tag_activation_checkpoint").release();
  const std::string callee = "torch.utils.checkpoint.checkpoint()";
  auto audit = std::move(t.region.audits.back());
  t.region.audits.pop_back();
  graph::Node* given = t.region.recorder.bodies.close();
  const graph::Body& body = *given->body;
  const auto reentrant_option = py::str("use_reentrant");
  PyObject* is_reentrant = PyDict_GetItem(args[1], reentrant_option.get());
  const bool reentrant = PyObject_IsTrue(is_reentrant) == 1;
  if (!is_known(t, PyDict_GetItemString(args[1], "context_fn")))
    refuse_call(callee, "its context_fn is made anew at each call");
  if (t.region.unbacked.any()) refuse_call(callee, "in a program that computes with numbers of tensors");
  if (needs_gradients(body.graph) || reentrant) {
    if (const char* change = audit->change()) refuse_call(callee, change);
    if (!t.region.numbers.policy.runs_as_captured() && region::writes_operands(body))
      refuse_call(callee, "it writes to tensors that it is given");
  }
  if (reentrant) {
    // All that the operator gives depends on its arguments then, for autograd.
    region::each_tensor(args[0], [&](PyObject* tensor) {
      const graph::Node* node = t.region.recorder.node_of(tensor);
      const bool is_made = node != nullptr && node->graph == &body.graph;
      if (!is_made || !aten::meta_of(t.region.recorder.lift(tensor).get()).requires_grad)
        refuse_call(callee, "it gives a tensor that it does not compute of its arguments");
    });
  }
  auto shown = py::take(PyDict_New());
  py::check(PyDict_SetItem(shown.get(), reentrant_option.get(), is_reentrant));
  static PyObject* const plain_class = py::import_attr("pellucid._bodies", "Checkpoint").release();
  auto options = py::take(PyDict_Copy(args[1]));
  auto plain = py::take(PyObject_CallFunctionObjArgs(plain_class, args[2], options.get(), nullptr));
  t.region.recorder.bodies.call(target, std::move(plain), given, shown.get(), args[0]);
  if (needs_gradients(body.graph) || reentrant) guard_late_reads(t, std::move(audit), callee);
  return Result::none();
}

// ---- autograd.Function

constexpr const char* kFunction = "an autograd.Function";

// What a node may hold of the arguments of a function that runs for real: nothing that the region made but tensors,
// numbers and containers of these.
bool is_plain_argument(Interpreter& t, PyObject* value, int depth = 0) {
  const Cat cat = region::cat_of(value);
  if (cat == Cat::Tensor || region::is_atom(cat) || cat == Cat::Symbolic) return true;
  if (cat == Cat::Type || cat == Cat::Function) return t.region.provenance.is_outside(value);
  // The graph of a compiler has a plain tuple in the place of a torch.Size of open numbers.
  const bool may_be_size = t.region.numbers.policy.runs_as_captured();
  const bool is_container = PyTuple_CheckExact(value) || PyList_CheckExact(value) ||
                            (may_be_size && Py_IS_TYPE(value, region::torch_size_type()));
  if (!is_container || depth > 10) return false;
  const auto items = region::items_now(value);
  return std::ranges::all_of(items, [&](const auto& item) { return is_plain_argument(t, item.get(), depth + 1); });
}

// What pellucid._bodies answers of a class.
bool asked_of(PyObject* cls, const char* question) {
  const auto ask = py::import_attr("pellucid._bodies", question);
  return py::take(PyObject_CallOneArg(ask.get(), cls)).get() == Py_True;
}

// Whether a backend may trace its backward once for all calls: it reads nothing that may be another at that time.
bool has_constant_backward(PyObject* cls) { return asked_of(cls, "has_constant_backward"); }

// The same of its forward. Another may read a number that changes where nobody sees it, as a global that is an argument
// as well.
bool has_constant_forward(PyObject* cls) { return asked_of(cls, "has_constant_forward"); }

void add_lists(PyObject* value, std::unordered_set<PyObject*>& lists) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return;
  if (PyList_Check(value)) lists.insert(value);
  for (const auto& item : region::items_now(value)) add_lists(item.get(), lists);
}

// keeps_list(ctx, args): whether forward keeps a list that it was given. The node gets one with the same elements: the
// program would not see what backward does to it, nor backward what becomes of the program's.
Result keeps_list(Interpreter& t, PyObject*, Args args) {
  std::unordered_set<PyObject*> lists, met;
  add_lists(args[1], lists);
  if (lists.empty()) return Result::boolean(false);
  bool keeps = false;
  std::vector<py::Owned<>> open;
  open.push_back(py::Owned<>::share(args[0]));
  while (!open.empty()) {
    const auto object = std::move(open.back());
    open.pop_back();
    if (!met.insert(object.get()).second) continue;
    const bool is_outside = t.region.provenance.is_outside(object.get());
    if (lists.contains(object.get())) {
      if (is_outside) refuse_call(kFunction, "it keeps a list that it is given");
      keeps = true;
    }
    if (is_outside || aten::is_tensor(object.get())) continue;
    for (auto& part : region::parts_of(object.get())) open.push_back(std::move(part));
  }
  return Result::boolean(keeps);
}

// lies_in_any(tensor, values)
Result lies_in_any(Interpreter& t, PyObject*, Args args) {
  const void* storage = aten::meta_of(t.region.recorder.lift(args[0]).get()).storage;
  bool lies = false;
  region::each_tensor(args[1], [&](PyObject* tensor) {
    const aten::Meta meta = aten::meta_of(t.region.recorder.lift(tensor).get());
    lies = lies || (storage != nullptr && meta.storage == storage && meta.requires_grad);
  });
  return Result::boolean(lies);
}

using NodeSet = std::unordered_set<const graph::Node*>;

// What the levels of torch.func unwrap, and the tangents at each, are given with a tensor. Where one was met first in
// what is discarded, it has no place in the graph yet.
void note_layers(Interpreter& t, PyObject* fake, NodeSet& given) {
  aten::each_layer(fake, [&](PyObject* layer) {
    if (graph::Node* node = t.region.recorder.node_of(layer)) {
      if (t.region.capture->bodies->reaches(*node)) {
        given.insert(t.region.recorder.bodies.here(layer));
      } else {
        t.region.capture->node_of.erase(layer);
      }
    }
    if (const auto tangent = aten::tangent_of(layer)) note_layers(t, tangent.get(), given);
  });
}

// The nodes of a number, and of those that it is computed of.
void note_number(Interpreter& t, const symbolic::Expr* expr, NodeSet& given) {
  const bool is_symbol = expr->is(symbolic::Op::Symbol);
  const auto number =
      is_symbol ? t.region.numbers.said.of(expr) : py::Owned<>::share(t.region.numbers.said.known(expr));
  if (number.get() != nullptr) given.insert(t.region.recorder.node_of(number.get()));
  for (const symbolic::Expr* part : expr->args) note_number(t, part, given);
}

// What a tensor is given with: each of its sizes that is open.
void note_sizes(Interpreter& t, PyObject* fake, NodeSet& given) {
  const aten::OpenShape shape = t.region.recorder.fakes().open_shape(fake);
  for (const auto* exprs : {&shape.sizes, &shape.strides}) {
    for (const symbolic::Expr* expr : *exprs) {
      note_number(t, expr, given);
      note_number(t, t.region.numbers.space().simplify(expr), given);
    }
  }
}

void note_numbers(Interpreter& t, PyObject* value, NodeSet& given) {
  if (region::cat_of(value) == Cat::Symbolic) {
    given.insert(t.region.recorder.node_of(value));
    if (const symbolic::Expr* expr = t.region.numbers.expr_of(value)) note_number(t, expr, given);
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    for (const auto& item : region::items_now(value)) note_numbers(t, item.get(), given);
  }
}

bool gives_number(const graph::Node* node) {
  PyObject* value = node->example_value.get();
  return value != nullptr && (PyLong_Check(value) || PyFloat_Check(value));
}

// Whether a compiler makes the backward pass, or, below a transform, capture does, on fakes.
bool traces_backward(const Interpreter& t) {
  return !t.region.numbers.policy.runs_as_captured() || aten::is_below_transform();
}

// end_function(cls, args): forward, and for backends that differentiate backward, were followed to know what they read
// and that they change nothing. The node calls the class.
Result end_function(Interpreter& t, PyObject*, Args args) {
  static PyObject* const call_class = py::import_attr("pellucid._bodies", "FunctionCall").release();
  PyObject* cls = args[0];
  const auto audit = std::move(t.region.audits.back());
  t.region.audits.pop_back();
  const graph::Body& body = *t.region.capture->bodies->graph().body;
  t.region.recorder.bodies.discard();
  if (const char* change = audit->change()) refuse_call(kFunction, change);
  if (audit->has_read_changed()) refuse_call(kFunction, "it reads what has been changed before");
  if (!t.region.provenance.is_outside(cls)) refuse_call(kFunction, "its class is made by the program");
  std::vector<PyObject*> values;
  NodeSet given;
  // Where the class runs for real it reads each number itself, as it is then. A compiler reads it once for all.
  const bool runs_for_real = !traces_backward(t);
  const bool may_give_numbers =
      !runs_for_real && std::ranges::any_of(body.operands, gives_number) && has_constant_forward(cls);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
    values.push_back(PyTuple_GET_ITEM(args[1], i));
    if (!is_plain_argument(t, values.back())) refuse_call(kFunction, "it is given more than tensors and numbers");
    if (may_give_numbers) note_numbers(t, values.back(), given);
    region::each_tensor(values.back(), [&](PyObject* tensor) {
      const auto fake = t.region.recorder.lift(tensor);
      given.insert(t.region.recorder.bodies.here(tensor));
      if (may_give_numbers) note_sizes(t, fake.get(), given);
      note_layers(t, fake.get(), given);
    });
  }
  const auto is_given = [&](const graph::Node* operand) {
    return given.contains(operand) || (runs_for_real && gives_number(operand));
  };
  if (!std::ranges::all_of(body.operands, is_given)) refuse_call(kFunction, "it uses tensors that it is not given");
  if (!runs_for_real && !has_constant_backward(cls))
    refuse_call(kFunction, "its backward reads what may change until it runs");
  const std::int64_t before = t.region.recorder.bodies.function_views_before;
  if (before >= 0 && t.region.steps >= before)
    refuse_call(kFunction, "it gives a view, and what shares memory with it leaves the graph, or writes to an input");
  auto apply = py::take(PyObject_GetAttrString(cls, "apply"));
  auto target = py::take(PyObject_CallOneArg(call_class, cls));
  return t.region.recorder.torch_call(graph::Op::CallFunction, apply.get(), target.get(), Args{values, nullptr});
}

// A mode of the program hears what torch's function reads of its arguments. Numbers that its function gets are operands
// of the body; its own options are constants.
Result activation_checkpoint(Interpreter& t, PyObject* f, Args args) {
  static constexpr std::array<std::string_view, 7> kOptions{
      "use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state", "function"};
  protocols::refuse_asked(t, f);
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  for (std::size_t i = args.size(); i < values.size(); ++i) {
    if (std::ranges::find(kOptions, py::text_of(args.keyword_of(i))) != kOptions.end())
      values[i] = t.region.numbers.plain(values[i]);
  }
  return protocols::call_polyfill(t, "activation_checkpoint", Args{values, args.kwnames});
}

// torch compares the ids of tensors, which each are another at each call.
Result wrap_outputs(Interpreter& t, PyObject*, Args args) {
  return protocols::call_polyfill(t, "wrap_outputs_by_identity", args);
}

const Row rows[] = {
    {"torch._functorch.autograd_function.wrap_outputs_maintaining_identity", wrap_outputs},
    {"torch.utils.checkpoint.checkpoint", activation_checkpoint, true, true},
    {"pellucid.polyfills_bodies.begin_body", begin_body},
    {"pellucid.polyfills_bodies.begin_function", begin_function},
    {"pellucid.polyfills_bodies.current_level", current_level},
    {"pellucid.polyfills_bodies.take_off_level", take_off_level},
    {"pellucid.polyfills_bodies.put_on_level", put_on_level},
    {"pellucid.polyfills_bodies.end_checkpoint", end_checkpoint},
    {"pellucid.polyfills_bodies.end_function", end_function},
    {"pellucid.polyfills_bodies.keeps_list", keeps_list},
    {"pellucid.polyfills_bodies.lies_in_any", lies_in_any},
    {"pellucid.polyfills_bodies.refuse_body", refuse_body},
};

}  // namespace

Result parts_of_innermost_level(Interpreter& t) {
  static PyObject* const ask = py::import_attr("pellucid._bodies", "innermost_level").release();
  const auto level = py::take(PyObject_CallNoArgs(ask));
  PyObject* size = PyTuple_GET_ITEM(level.get(), 1);
  const symbolic::Expr* expr = t.region.recorder.fakes().expr_of(size);
  const auto number = expr != nullptr ? t.region.numbers.said.of(expr) : py::Owned<>::share(size);
  PyObject* parts[] = {PyTuple_GET_ITEM(level.get(), 0), number.get(), PyTuple_GET_ITEM(level.get(), 2)};
  return Result::of(tuple_of(parts));
}

Result function_as_node(Interpreter& t, Args args) {
  auto given = tuple_of(args.values.subspan(1));
  PyObject* values[] = {args[0], given.get(), traces_backward(t) ? Py_True : Py_False};
  return protocols::call_polyfill(t, "run_function_as_node", values);
}

const std::span<const Row> kBodyRows = rows;

}  // namespace pellucid::rows
