// What enters a graph: tensors, numbers and arrays from outside become inputs, values become arguments of nodes.
#include <algorithm>
#include <unordered_map>

#include "aten/layers.h"
#include "aten/torch_function.h"
#include "py/cpython.h"
#include "py/numpy_array.h"
#include "region/arrays.h"
#include "region/jagged.h"
#include "region/objects.h"
#include "region/recorder.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/subclasses.h"
#include "symbolic/conditions.h"

namespace pellucid::region {
namespace {

// Something that torch is not given as it is: a tensor, or an open int.
bool holds_tensor(Region& region, PyObject* value, int depth = 0) {
  if (depth > 50) return false;
  switch (cat_of(value)) {
    case Cat::Tensor:
      return true;
    case Cat::Symbolic:
      return is_open_int(value) && enters_graph(region.numbers.policy, value);
    case Cat::List:
    case Cat::Tuple: {
      PyObject* view = region.shadows.readable(value);
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(view); ++i) {
        if (holds_tensor(region, PySequence_Fast_GET_ITEM(view, i), depth + 1)) return true;
      }
      return false;
    }
    case Cat::Dict: {
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      PyObject* view = region.shadows.readable(value);
      while (PyDict_Next(view, &position, &key, &item)) {
        if (holds_tensor(region, item, depth + 1)) return true;
      }
      return false;
    }
    case Cat::Slice: {
      auto* s = reinterpret_cast<PySliceObject*>(value);
      return holds_tensor(region, s->start, depth + 1) || holds_tensor(region, s->stop, depth + 1) ||
             holds_tensor(region, s->step, depth + 1);
    }
    default:
      return false;
  }
}

// What a tensor is that no fake can stand for.
std::string kind_of_tensor(PyObject* tensor, const py::PythonError& error) {
  auto layout = py::Owned<>::steal(PyObject_GetAttrString(tensor, "layout"));
  auto text = py::Owned<>::steal(layout ? PyObject_Str(layout.get()) : nullptr);
  PyErr_Clear();
  const std::string name = text ? py::text_of(text.get()) : "";
  return name.empty() || name == "torch.strided" ? py::repr_of(error.value()) : "a " + name + " tensor";
}

// torch._dynamo.mark_static_address(tensor, guard=True): the program promises to use this very object.
bool is_static(PyObject* tensor) {
  static PyObject* const mark = py::interned("_dynamo_static_input_type").release();
  PyObject* dict = py::instance_dict_if_any(tensor);
  PyObject* value = dict == nullptr ? nullptr : py::dict_get_str(dict, mark);
  return value != nullptr && PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, "guarded") == 0;
}

graph::Node* input_node(Region& region, const py::Owned<>& fake, const Source* source) {
  Capture& capture = *region.capture;
  InputName name = region.recorder.input_names.name_of(capture, source);
  return capture.graph.placeholder(std::move(name.identifier), fake.copy(), source->id, std::move(name.source));
}

graph::Node* attribute_node(Region& region, PyObject* tensor, const py::Owned<>& fake, const Source* source) {
  Capture& capture = *region.capture;
  std::string text = region.recorder.input_names.name_of(capture, source).source;
  auto key = py::str(attribute_key(capture, text));
  graph::Node* node = capture.graph.call(graph::Op::GetAttr, std::move(key), {}, {}, fake.copy());
  node->attribute = py::Owned<>::share(tensor);
  node->source_text = std::move(text);
  return node;
}

}  // namespace

// A graph gets an alias, which has no part in what is done to the tensor's own layout, and none in gradients when it is
// made in inference mode.
void Recorder::check_subclass(PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  static PyObject* const in_inference_mode = py::import_attr("torch", "is_inference_mode_enabled").release();
  const auto loses_gradients = [&] {
    return aten::meta_of(tensor).requires_grad && py::take(PyObject_CallNoArgs(in_inference_mode)).get() == Py_True;
  };
  if (!is_traced_subclass(type) || loses_gradients())  // a class with a __torch_dispatch__ may not say its sizes
    unsupported(Reason::UnsupportedTensor, {{"what", std::string("a tensor of class ") + type->tp_name}});
  guard_traced_subclass(region_, type);
}

py::Owned<> Recorder::as_class(PyObject* fake, PyTypeObject* type) {
  if (region_.capture->bodies->is_open())
    unsupported(Reason::UnsupportedTensor,
                {{"what", std::string("a tensor of class ") + type->tp_name + " in a body"}});
  static PyObject* const make = PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), "as_subclass");
  PyObject* values[] = {fake, reinterpret_cast<PyObject*>(type)};
  auto made = fakes_->call(make, values, 2, nullptr);
  region_.capture->node_of[made.get()] = node_of(fake);
  region_.provenance.keep(made.get());
  fake_of_.emplace(made.get(), py::Owned<>::share(fake));
  real_of_[fake] = made.get();
  return made;
}

py::Owned<> Recorder::lift(PyObject* tensor) {
  if (is_subclassed(tensor)) {
    const bool at_level = aten::is_below_transform();
    if (at_level || region_.capture->bodies->is_open())
      unsupported(Reason::UnsupportedTensor, {{"what", std::string("a tensor of class ") + Py_TYPE(tensor)->tp_name +
                                                           (at_level ? " below a transform" : " in a body")}});
  }
  if (aten::is_fake(tensor) && !is_subclassed(tensor)) {
    if (!region_.capture->node_of.contains(tensor))
      unsupported(Reason::UnknownOrigin, {{"detail", "a fake without a node"}});
    return py::Owned<>::share(tensor);
  }
  if (auto it = fake_of_.find(tensor); it != fake_of_.end()) return it->second.copy();
  const Source* source = region_.provenance.source_of(tensor);
  if (source == nullptr) unsupported(Reason::UnknownOrigin, {{"detail", std::string("a ") + Py_TYPE(tensor)->tp_name}});
  const bool subclassed = is_subclassed(tensor);
  const bool wraps = subclassed && is_wrapper_subclass(tensor);
  if (subclassed && !wraps) check_subclass(tensor);
  if (!wraps) sparse.check(tensor);
  py::Owned<> fake;
  try {
    fake = wraps ? wrappers.fake_of(tensor) : fakes_->fake_of(tensor, region_.numbers.tensors.shape_of(tensor));
  } catch (const py::PythonError& error) {
    unsupported(Reason::UnsupportedTensor, {{"what", kind_of_tensor(tensor, error)}});
  }
  if (const aten::OpenShape* shape = region_.numbers.tensors.shape_of(tensor)) add_size_inputs(*shape);
  if (wraps && region_.numbers.policy.graph_numbers == GraphNumbers::Ints)
    wrappers.each_open_part(fake.get(), [&](const aten::OpenShape& shape) { add_size_inputs(shape); });
  const bool is_aliased = subclassed && !wraps;
  if (is_aliased && aten::meta_of(tensor).requires_grad)
    instances_.note_input(aten::meta_of(fake.get()).storage, tensor);
  const auto met = is_aliased ? aten::plain_alias(tensor) : py::Owned<>::share(tensor);
  if (is_aliased) source = region_.capture->sources.plain(source);
  graph::Node* node =
      is_static(met.get()) ? attribute_node(region_, tensor, fake, source) : input_node(region_, fake, source);
  wrappers.note_input(fake.get());
  if (node->op == graph::Op::GetAttr) region_.provenance.guard(Kind::ID_MATCH, source, py::Owned<>::share(tensor));
  region_.capture->node_of[tensor] = node;
  region_.capture->node_of[fake.get()] = node;
  node->where = call_site();
  region_.capture->input_of[node] = met.get();
  region_.provenance.keep(met.get());
  region_.provenance.keep(tensor);
  region_.provenance.keep(fake.get());
  real_of_[fake.get()] = tensor;
  fake_of_.emplace(tensor, fake.copy());
  return fake;
}

py::Owned<> Recorder::to_fake(PyObject* value) {
  const Cat cat = cat_of(value);
  if (cat == Cat::Tensor) return lift(value);
  if (cat == Cat::Symbolic) {
    if (is_open_int(value) && enters_graph(region_.numbers.policy, value)) return torch_number(value);
    return py::Owned<>::share(region_.numbers.plain(value));
  }
  if (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Slice) {
    if (cat != Cat::Slice) value = region_.reads.touch(value);
    // Without tensors torch reads it as it is, all the way down.
    if (!holds_tensor(region_, value) && !region_.reads.deep_touch(value).shadowed) return py::Owned<>::share(value);
    if (cat == Cat::Dict) {
      const auto entries = entries_now(value);
      auto copy = py::take(PyDict_New());
      for (const auto& [key, item] : entries)
        py::check(PyDict_SetItem(copy.get(), key.get(), to_fake(item.get()).get()));
      return copy;
    }
    if (cat == Cat::Slice) {
      auto* s = reinterpret_cast<PySliceObject*>(value);
      return py::take(PySlice_New(to_fake(s->start).get(), to_fake(s->stop).get(), to_fake(s->step).get()));
    }
    const auto items = items_now(value);
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (std::size_t i = 0; i < items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), to_fake(items[i].get()).release());
    return rebuilt(value, std::move(tuple));
  }
  return py::Owned<>::share(region_.shadows.readable(value));
}

// A size is an input before the tensor that it was first read of.
void Recorder::add_size_inputs(const aten::OpenShape& shape) {
  for (const auto* exprs : {&shape.sizes, &shape.strides}) {
    for (const symbolic::Expr* expr : *exprs) {
      if (!expr->is(symbolic::Op::Symbol)) continue;
      const auto number = region_.numbers.said.of(expr);
      if (is_open(number.get())) (void)number_node(number.get());
    }
  }
}

// Backends that compile get each symbol in the sizes and strides of a tensor as an input, once, whether the graph's
// code names it or not: torch's caches keep what was decided by the symbols among the inputs alone. A size that has
// turned out to be an expression of others is none.
void Recorder::keep_size_inputs() {
  if (region_.numbers.policy.graph_numbers != GraphNumbers::Ints) return;
  symbolic::Space& space = region_.numbers.space();
  std::unordered_map<int, const symbolic::Expr*> now;  // by the id of the source
  for (const OpenNumbers::Symbol& symbol : region_.capture->open.symbols) {
    if (symbol.source != nullptr && symbol.expr->type == symbolic::Type::Int)
      now.emplace(symbol.source->id, space.simplify(symbol.expr));
  }
  std::unordered_map<std::uint32_t, graph::Node*> input_of;
  for (graph::Node* node : region_.capture->graph.placeholders()) {
    const auto found = now.find(node->source_id);
    if (found == now.end() || !found->second->is(symbolic::Op::Symbol)) continue;
    const auto [at, is_first] = input_of.try_emplace(found->second->operation.symbol, node);
    if (!is_first) node->same_as = at->second;
  }
  const auto keep = [&](graph::Node& node, const aten::OpenShape& shape) {
    for (const auto* exprs : {&shape.sizes, &shape.strides}) {
      for (const symbolic::Expr* expr : *exprs) {
        if (!expr->is(symbolic::Op::Symbol)) continue;
        std::vector<std::uint32_t> symbols;
        symbolic::collect_symbols(space.simplify(expr), symbols);
        const auto has_input = [&](std::uint32_t symbol) { return input_of.contains(symbol); };
        const auto number = region_.numbers.said.of(expr);
        if (std::ranges::all_of(symbols, has_input)) {
          for (const std::uint32_t symbol : symbols) node.sizes.push_back(input_of.at(symbol));
        } else if (const graph::Node* size = is_open(number.get()) ? node_of(number.get()) : nullptr) {
          node.sizes.push_back(size);
        }
      }
    }
  };
  for (const auto& [tensor, fake] : fake_of_) {
    graph::Node* const node = node_of(tensor);
    if (node == nullptr) continue;
    const auto keep_sizes = [&](const aten::OpenShape& shape) { keep(*node, shape); };
    if (const aten::OpenShape* shape = region_.numbers.tensors.shape_of(tensor)) keep_sizes(*shape);
    wrappers.each_open_part(fake.get(), keep_sizes);
  }
  for (const auto& [array, fake] : arrays.tensors) {
    const aten::OpenShape* shape = region_.numbers.tensors.shape_of(array);
    graph::Node* const node = node_of(array);
    if (shape != nullptr && node != nullptr) keep(*node, *shape);
  }
}

// The torch.SymInt of an open int.
py::Owned<> Recorder::torch_number(PyObject* number) {
  py::Owned<>& made = torch_numbers_[number];
  if (!made) made = fakes_->number_of(as_number(number)->expr);
  return made.copy();
}

// What the graph computes of the numbers that it is given.
graph::Node* Recorder::number_node(PyObject* object) {
  if (graph::Node* known = node_of(object); known != nullptr && region_.capture->bodies->reaches(*known)) return known;
  const Number* number = as_number(object);
  Capture& capture = *region_.capture;
  auto value = py::Owned<>::share(number->value);
  graph::Node* node = nullptr;
  if (number->source != nullptr) {
    const Source* source = number->source;
    if (source->root()->step == source::Step::Drawn && PyLong_CheckExact(value.get()) &&
        region_.numbers.policy.graph_numbers == GraphNumbers::Ints) {
      value = py::take(PyNumber_Float(value.get()));
      source = region_.draws.as_float(source);
      region_.provenance.keep(value.get());
    }
    node = input_node(region_, value, source);
    capture.input_of[node] = value.get();
  } else if (node = sizes.read(object, value.copy()); node == nullptr) {
    std::vector<graph::Arg> operands;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(number->arguments); ++i)
      operands.push_back(to_arg(PyTuple_GET_ITEM(number->arguments, i)));
    const bool as_torch_does = region_.numbers.policy.graph_numbers == GraphNumbers::Ints;
    PyObject* function = as_torch_does ? symbolic_twin(number->function) : number->function;
    node = capture.bodies->graph().call(graph::Op::CallFunction, py::Owned<>::share(function), std::move(operands), {},
                                        value.copy());
  }
  node->where = call_site();
  capture.node_of[object] = node;
  region_.provenance.keep(object);
  return node;
}

namespace {

// For backends that compile an array from outside is an input as a tensor over its memory, which nothing writes.
graph::Node* tensor_over(Region& region, PyObject* array, const Source* source) {
  Recorder& recorder = region.recorder;
  if (!py::is_plain_memory(array))
    unsupported(Reason::ArrayInGraph, {{"operation", "an array"}, {"why", "its memory is no plain one"}});
  py::Owned<> tensor, fake;
  try {
    tensor = py::take(PyObject_CallOneArg(of_numpy_module("tensor_over"), array));
    fake = recorder.fakes().fake_of(tensor.get(), region.numbers.tensors.shape_of(array));
  } catch (const py::PythonError& error) {
    unsupported(Reason::ArrayInGraph, {{"operation", "an array"}, {"why", "there are no such tensors"}});
  }
  graph::Node* node = input_node(region, fake, region.capture->sources.over_array(source));
  node->where = recorder.call_site();
  region.capture->input_of[node] = tensor.get();
  region.provenance.keep(tensor.get());
  recorder.give(fake.get(), node);
  recorder.give(array, node);
  recorder.arrays.storages.push_back(aten::meta_of(fake.get()).storage);
  recorder.arrays.tensors[array] = std::move(fake);
  region.capture->computes_arrays = true;
  return node;
}

}  // namespace

// An array from outside is an input as it is.
graph::Node* Recorder::array_node(PyObject* array) {
  if (graph::Node* known = node_of(array)) {
    if (!arrays.is_noted && is_stand_in(array)) (void)py::take(PyObject_CallNoArgs(of_numpy_module("note_write")));
    return known;
  }
  const Source* source = region_.provenance.source_of(array);
  if (source == nullptr || is_stand_in(array)) unsupported(Reason::UnknownOrigin, {{"detail", "an array"}});
  if (const aten::OpenShape* shape = region_.numbers.tensors.shape_of(array)) add_size_inputs(*shape);
  if (!region_.numbers.policy.runs_as_captured()) return tensor_over(region_, array, source);
  const auto example = py::take(PyObject_CallOneArg(of_numpy_module("example"), array));
  graph::Node* node = input_node(region_, example, source);
  node->where = call_site();
  region_.capture->input_of[node] = array;
  give(array, node);
  return node;
}

graph::Arg Recorder::to_arg(PyObject* value) {
  const Cat cat = cat_of(value);
  if (cat == Cat::Array) return graph::Arg::of(array_node(value));
  if (cat == Cat::Tensor) {
    const py::Owned<> fake = lift(value);
    return graph::Arg::of(bodies.here(value));
  }
  if (is_open(value)) return graph::Arg::of(region_.capture->bodies->here(number_node(value)));
  if (is_number(value)) region_.late_items.refuse_in_graph(value);
  value = region_.numbers.plain(value);
  PyObject* view = region_.shadows.readable(value);
  graph::Arg arg;
  if (cat == Cat::List || cat == Cat::Tuple) {
    arg.kind = cat == Cat::List ? graph::Arg::Kind::List : graph::Arg::Kind::Tuple;
    if (cat == Cat::Tuple && !PyTuple_CheckExact(view))
      arg.constant = py::Owned<>::share(reinterpret_cast<PyObject*>(Py_TYPE(view)));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(view); ++i) {
      arg.items.push_back(to_arg(PySequence_Fast_GET_ITEM(view, i)));
      // A torch.Size takes numbers alone; torch's functions take any tuple of sizes.
      if (arg.items.back().kind == graph::Arg::Kind::Node && is_number(PySequence_Fast_GET_ITEM(view, i)))
        arg.constant = {};
    }
    return arg;
  }
  if (cat == Cat::Dict) {
    arg.kind = graph::Arg::Kind::Dict;
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(view, &position, &key, &item)) {
      arg.keys.push_back(py::Owned<>::share(key));
      arg.items.push_back(to_arg(item));
    }
    return arg;
  }
  if (cat == Cat::Slice) {
    auto* s = reinterpret_cast<PySliceObject*>(view);
    arg.kind = graph::Arg::Kind::Slice;
    for (PyObject* part : {s->start, s->stop, s->step}) arg.items.push_back(to_arg(part));
    return arg;
  }
  if (cat == Cat::Instance && is_nested_int(view)) {
    if (graph::Node* size = nested_int_node(region_, view)) return graph::Arg::of(size);
  }
  const bool is_value = cat == Cat::Other && (is_numpy_scalar(view) || is_numpy_dtype(view));
  if (cat == Cat::Instance || cat == Cat::Generator || cat == Cat::Iterator || (cat == Cat::Other && !is_value)) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "an argument of a torch function"}, {"type", Py_TYPE(view)->tp_name}});
  }
  return graph::Arg::of(py::Owned<>::share(view));
}

}  // namespace pellucid::region
