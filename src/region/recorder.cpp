#include "region/recorder.h"

#include <algorithm>

#include "aten/layers.h"
#include "aten/torch_function.h"
#include "base/small_vector.h"
#include "base/text.h"
#include "py/cpython.h"
#include "py/numpy_array.h"
#include "region/arrays.h"
#include "region/custom_operators.h"
#include "region/jagged.h"
#include "region/known_elements.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/subclasses.h"
#include "region/torch_module.h"

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

bool holds_open_int(PyObject* value, int depth = 0) {
  if (depth > 50 || is_open_int(value)) return depth <= 50;
  if (PySlice_Check(value)) {
    auto* s = reinterpret_cast<PySliceObject*>(value);
    return is_open_int(s->start) || is_open_int(s->stop) || is_open_int(s->step);
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (holds_open_int(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

// A container of the same kind as `like` with these items.
py::Owned<> rebuilt(PyObject* like, py::Owned<> tuple) {
  if (PyList_Check(like)) return py::take(PySequence_List(tuple.get()));
  if (PyTuple_CheckExact(like)) return tuple;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(like));
  if (PyObject_HasAttrString(type, "_fields") && PyObject_HasAttrString(type, "_make")) {
    auto make = py::take(PyObject_GetAttrString(type, "_make"));
    return py::take(PyObject_CallOneArg(make.get(), tuple.get()));
  }
  return py::take(PyObject_CallOneArg(type, tuple.get()));
}

// What asks for the values of a tensor, as the user wrote it.
std::string needing_values(const std::string& target) {
  constexpr std::pair<std::string_view, const char*> words[] = {{"Tensor.__bool__", "a branch on a tensor (its truth)"},
                                                                {"Tensor.__int__", "int() of a tensor"},
                                                                {"Tensor.__float__", "float() of a tensor"},
                                                                {"Tensor.__complex__", "complex() of a tensor"},
                                                                {"Tensor.__index__", "a tensor as an index"},
                                                                {"Tensor.__contains__", "`in` a tensor"}};
  for (const auto& [name, text] : words) {
    if (target == name) return text;
  }
  return target + "()";
}

// What a tensor is that no fake can stand for.
std::string kind_of_tensor(PyObject* tensor, const py::PythonError& error) {
  auto layout = py::Owned<>::steal(PyObject_GetAttrString(tensor, "layout"));
  auto text = py::Owned<>::steal(layout ? PyObject_Str(layout.get()) : nullptr);
  PyErr_Clear();
  const std::string name = text ? py::text_of(text.get()) : "";
  return name.empty() || name == "torch.strided" ? py::repr_of(error.value()) : "a " + name + " tensor";
}

std::string name_of_target(PyObject* target) {
  if (PyUnicode_Check(target)) return "Tensor." + py::text_of(target);
  auto name = py::Owned<>::steal(PyObject_GetAttrString(target, "__name__"));
  if (!name) {
    PyErr_Clear();
    return py::repr_of(target);
  }
  return py::text_of(name.get());
}

// torch._dynamo.mark_static_address(tensor, guard=True): the program promises to use this very object.
bool is_static(PyObject* tensor) {
  static PyObject* const mark = py::interned("_dynamo_static_input_type").release();
  PyObject* dict = py::instance_dict_if_any(tensor);
  PyObject* value = dict == nullptr ? nullptr : py::dict_get_str(dict, mark);
  return value != nullptr && PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, "guarded") == 0;
}

// A compiler takes the parts of such a tensor for tensors that nobody else holds: it would not see them written.
constexpr const char* kBesideWrapper = "a tensor, beside a tensor subclass whose part it may be,";

bool is_memory_of(PyObject* tensor, const void* storage) { return aten::meta_of(tensor).storage == storage; }

bool is_memory_of_parts(PyObject* tensor, const void* storage) {
  if (!is_wrapper_subclass(tensor)) return false;
  bool is_part = false;
  each_part(tensor,
            [&](PyObject* part) { is_part |= is_memory_of(part, storage) || is_memory_of_parts(part, storage); });
  return is_part;
}

// A graph that raises takes back what it has written to its inputs, of which parts are none.
void refuse_writes_beside(const Capture& capture, const NumberPolicy& policy,
                          const std::vector<aten::HeldStorage>& written) {
  for (const aten::HeldStorage& held : written) {
    bool is_input = false, is_part = false;
    const auto look_at = [&](const graph::Node* node) {
      PyObject* example = node->example_value.get();
      if (example == nullptr || !aten::is_tensor(example)) return;
      is_input |= is_memory_of(example, held.get());
      is_part |= is_memory_of_parts(example, held.get());
    };
    for (const graph::Node* node : capture.graph.placeholders()) look_at(node);
    for (const graph::Node* node : capture.graph.nodes()) {
      if (node->op == graph::Op::GetAttr) look_at(node);
    }
    if (policy.runs_as_captured() ? is_part && !is_input : is_part || is_input)
      unsupported(Reason::UnsupportedMutation, {{"target", kBesideWrapper}});
  }
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

namespace {

// What opens levels for the program: torch's own code, and the blocks that it does so with.
bool opens_levels(PyObject* file) {
  static PyObject* const contextlib = py::import_attr("contextlib", "__file__").release();
  return py::text_of(file).starts_with(torch_directory()) || PyUnicode_Compare(file, contextlib) == 0;
}

}  // namespace

void OpenLevels::note_opening(const Region& region) {
  if (aten::is_below_transform()) return;
  for (const Frame* frame = region.top; frame != nullptr; frame = frame->back.get()) {
    if (frame->back && (frame->hidden || opens_levels(frame->code->co_filename))) continue;
    if (led_by.empty() || led_by.back() != frame->at_step) led_by.push_back(frame->at_step);
    return;
  }
}

Recorder::Recorder(Region& region)
    : bodies(region),
      wrappers(region),
      region_(region),
      fakes_(std::make_unique<aten::FakeScope>(region.numbers.scope())) {}

bool reads_unguarded_state(PyObject* name) {
  static const std::unordered_set<std::string> unguarded = {
      "storage_offset", "data_ptr",     "_version", "is_shared",       "is_pinned", "is_set_to",
      "output_nr",      "retains_grad", "_is_view", "_backward_hooks", "_base"};
  return PyUnicode_Check(name) && unguarded.contains(py::text_of(name));
}

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

// The graph has an alias of it: what is written to its layout would not be, and after a write gradients would no longer
// come to the tensor itself.
void Recorder::check_alias(PyObject* fake, std::uint32_t version) {
  const auto real = real_of_.find(fake);
  if (real == real_of_.end() || aten::is_fake(real->second) || !is_subclassed(real->second) || wrappers.is_fake(fake))
    return;
  const auto refuse = [](const std::string& target) { unsupported(Reason::UnsupportedMutation, {{"target", target}}); };
  const std::string name = std::string("a tensor of class ") + Py_TYPE(real->second)->tp_name;
  const aten::Meta now = aten::meta_of(fake), before = aten::meta_of(real->second);
  if (now.sizes != before.sizes || now.strides != before.strides || now.storage_offset != before.storage_offset)
    refuse("the shape of " + name);
  if (before.requires_grad && aten::version_of(fake) != version) refuse(name + " that requires gradients");
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
  if (wraps && !region_.numbers.policy.runs_as_captured()) {
    for (const graph::Node* node : region_.capture->graph.nodes())
      refuse_writes_beside(*region_.capture, region_.numbers.policy, node->written);
  }
  py::Owned<> fake;
  try {
    fake = wraps ? wrappers.fake_of(tensor) : fakes_->fake_of(tensor, region_.numbers.tensors.shape_of(tensor));
  } catch (const py::PythonError& error) {
    unsupported(Reason::UnsupportedTensor, {{"what", kind_of_tensor(tensor, error)}});
  }
  add_size_inputs(tensor);
  const bool is_aliased = subclassed && !wraps;
  const auto met = is_aliased ? aten::plain_alias(tensor) : py::Owned<>::share(tensor);
  if (is_aliased) source = region_.capture->sources.plain(source);
  graph::Node* node =
      is_static(met.get()) ? attribute_node(region_, tensor, fake, source) : input_node(region_, fake, source);
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

graph::Node* Recorder::node_of(PyObject* tensor) const {
  auto it = region_.capture->node_of.find(tensor);
  return it == region_.capture->node_of.end() ? nullptr : it->second;
}

// A size is an input before the tensor that it was first read of.
void Recorder::add_size_inputs(PyObject* tensor) {
  const aten::OpenShape* shape = region_.numbers.tensors.shape_of(tensor);
  if (shape == nullptr) return;
  for (const auto* exprs : {&shape->sizes, &shape->strides}) {
    for (const symbolic::Expr* expr : *exprs) {
      if (!expr->is(symbolic::Op::Symbol)) continue;
      const auto number = region_.numbers.said.of(expr);
      if (is_open(number.get())) (void)number_node(number.get());
    }
  }
}

// Backends that compile get each open size of a tensor as an input, used or not: torch's caches keep what was decided
// by the symbols among the inputs alone.
void Recorder::keep_size_inputs() {
  if (region_.numbers.policy.graph_numbers != GraphNumbers::Ints) return;
  for (const auto& [tensor, fake] : fake_of_) {
    const aten::OpenShape* shape = region_.numbers.tensors.shape_of(tensor);
    graph::Node* node = node_of(tensor);
    if (shape == nullptr || node == nullptr) continue;
    for (const auto* exprs : {&shape->sizes, &shape->strides}) {
      for (const symbolic::Expr* expr : *exprs) {
        if (!expr->is(symbolic::Op::Symbol)) continue;
        const auto number = region_.numbers.said.of(expr);
        const graph::Node* size = is_open(number.get()) ? node_of(number.get()) : nullptr;
        if (size != nullptr) node->sizes.push_back(size);
      }
    }
  }
}

// The torch.SymInt of an open int.
py::Owned<> Recorder::torch_number(PyObject* number) {
  py::Owned<>& made = torch_numbers_[number];
  if (!made) made = fakes_->number_of(as_number(number)->expr);
  return made.copy();
}

// The expression of a number that torch has given; of a float or bool that is what item() said.
const symbolic::Expr* Recorder::given_number(PyObject* value) const {
  const symbolic::Expr* item = region_.numbers.scope()->item;
  return item != nullptr ? item : fakes_->expr_of(value);
}

// Sizes as torch gives them, as numbers of the region.
py::Owned<> Recorder::from_torch(PyObject* value) {
  if (const symbolic::Expr* expr = fakes_->expr_of(value)) return region_.numbers.said.of(expr);
  if (cat_of(value) != Cat::Tuple && !PyList_CheckExact(value)) return py::Owned<>::share(value);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  std::vector<py::Owned<>> items;
  bool changed = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    items.push_back(from_torch(PySequence_Fast_GET_ITEM(value, i)));
    changed |= items.back().get() != PySequence_Fast_GET_ITEM(value, i);
  }
  if (!changed) return py::Owned<>::share(value);
  if (PyList_CheckExact(value)) {
    auto list = py::take(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(list.get(), i, items[static_cast<std::size_t>(i)].release());
    return list;
  }
  PyTypeObject* type = Py_TYPE(value);
  // torch.Size takes ints and torch's own numbers only when it is called; as a tuple it holds anything.
  auto tuple = py::take(type->tp_alloc(type, count));
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, items[static_cast<std::size_t>(i)].release());
  return tuple;
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
  } else {
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

void Recorder::give(PyObject* value, graph::Node* node) {
  region_.capture->node_of[value] = node;
  region_.provenance.keep(value);
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
    fake = recorder.fakes().fake_of(tensor.get(), nullptr);
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

namespace {

// Empty: the frame runs neither what torch.fx made of a graph nor what we did.
py::Owned<> graph_module_of(const Frame& frame) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(frame.code->co_filename, &length);
  if (text == nullptr) PyErr_Clear();
  if (text == nullptr) return {};
  const std::string_view file(text, static_cast<std::size_t>(length));
  if (file == "<pellucid graph>") {
    static PyObject* const name = py::interned("__graph_module__").release();
    return py::Owned<>::share(py::dict_get_str(frame.globals, name));
  }
  if (!file.starts_with("<eval_with_key>") || frame.code->co_argcount == 0 || !frame.fast[0]) return {};
  auto weak = py::Owned<>::steal(PyWeakref_NewRef(frame.fast[0].get(), nullptr));
  if (!weak) PyErr_Clear();
  return weak;
}

}  // namespace

std::shared_ptr<const graph::CallSite> Recorder::call_site() {
  // Innermost user frame first; each level is cached in its frame while that frame stays at the same instruction.
  SmallVector<Frame*, 128> frames;
  for (Frame* f = region_.top; f != nullptr; f = f->back.get()) {
    if (!f->hidden) frames.push_back(f);
  }
  std::shared_ptr<const graph::CallSite> caller;
  for (; !frames.empty(); frames.pop_back()) {
    Frame* const f = frames.back();
    if (f->site_at != f->at || f->site == nullptr || f->site->caller != caller) {
      auto site = std::make_shared<graph::CallSite>();
      site->code = py::Owned<PyCodeObject>::share(f->code.get());
      site->offset = f->at;
      site->caller = caller;
      site->module_path = f->module_path;
      site->module_key = f->module_key;
      site->module_type = f->module_type.copy();
      site->graph_module = graph_module_of(*f);
      f->site = std::move(site);
      f->site_at = f->at;
    }
    caller = f->site;
  }
  return caller;
}

namespace {

// A list or tuple of numbers, one of them open.
bool holds_open_numbers_alone(PyObject* value) { return holds_open(value) && holds_numbers_alone(value); }

struct ValueArguments {
  std::vector<std::size_t> positions;
  std::vector<std::string_view> keywords;
  bool as_tensors = false;     // in these positions
  bool are_fractions = false;  // between 0 and 1
  std::string_view as_tensor;  // the keyword of the one position where a tensor is as good; empty: all or none
};

// Null: none of its arguments is known to be one.
const ValueArguments* value_arguments(PyObject* target) {
#define VALUES(name, positions, keywords) {#name, ValueArguments{positions, keywords}},
#define SCALAR_TENSORS(name, positions, keywords) {#name, ValueArguments{positions, keywords, true}},
#define SCALAR_TENSOR(name, positions, keywords, one) {#name, ValueArguments{positions, keywords, true, false, one}},
#define FRACTIONS(name, positions, keywords) {#name, ValueArguments{positions, keywords, false, true}},
  static const std::unordered_map<std::string_view, ValueArguments> rows = {
#include "region/value_arguments.def"
  };
  std::string name = name_of_target(target);
  if (name.starts_with("Tensor.")) name.erase(0, 7);
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : &found->second;
}

// Whether the graph takes any number as argument `i` of this call.
bool takes_any_number(const ValueArguments* known, Args args, std::size_t i) {
  if (known == nullptr) return false;
  PyObject* keyword = args.keyword_of(i);
  if (keyword == nullptr) return std::ranges::find(known->positions, i) != known->positions.end();
  return std::ranges::find(known->keywords, py::text_of(keyword)) != known->keywords.end();
}

// Whether a float that changes may be a tensor of no dimension among these arguments: the result's dtype is that of the
// tensors with dimensions.
bool takes_scalar_tensors(const ValueArguments* known, Args args) {
  if (known == nullptr || !known->as_tensors || (args.keyword_count() != 0 && known->as_tensor.empty())) return false;
  bool any = false;
  for (PyObject* value : args.values) {
    if (cat_of(value) != Cat::Tensor) continue;
    if (!aten::is_float_with_dimensions(value)) return false;
    any = true;
  }
  return any;
}

// Whether argument `i` is one where it may.
bool may_be_tensor(const ValueArguments& known, Args args, std::size_t i) {
  if (known.as_tensor.empty()) return true;
  const auto keyword = std::ranges::find(known.keywords, known.as_tensor);
  const std::size_t at = known.positions[static_cast<std::size_t>(keyword - known.keywords.begin())];
  PyObject* name = args.keyword_of(i);
  return name == nullptr ? i == at : py::text_of(name) == known.as_tensor;
}

// Whether this is `number / tensor` with a number that is a tensor of no dimension in the graph.
bool divides_scalar_tensor(const NumberPolicy& policy, PyObject* target, Args args) {
  static PyObject* const truediv = py::import_attr("operator", "truediv").release();
  return target == truediv && args.size() == 2 && is_open(args[0]) && as_number(args[0])->as_tensor &&
         policy.graph_numbers == GraphNumbers::Ints && takes_scalar_tensors(value_arguments(target), args);
}

// A list as an index is a tensor of indices, of which the shape tells no more than how many they are.
bool is_list_of_indices(PyObject* index) { return PyList_CheckExact(index) && holds_open_numbers_alone(index); }

bool has_list_of_indices(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return is_list_of_indices(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (is_list_of_indices(PyTuple_GET_ITEM(key, i))) return true;
  }
  return false;
}

// Whether argument `i` is the key of an item of a tensor, with such lists.
bool is_key_with_indices(PyObject* target, Args args, std::size_t i) {
  if (i != 1 || i >= args.size() || !has_list_of_indices(args[1])) return false;
  const std::string name = name_of_target(target);
  return name == "getitem" || name == "setitem";
}

// Another number may be too large for a dtype, or zero.
bool takes_any_open_number(PyObject* target, Args args) {
  const auto is_one = [](PyObject* value) { return is_open(value) || holds_open(value); };
  if (std::ranges::none_of(args.values, is_one)) return false;
  const ValueArguments* known = value_arguments(target);
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    if (is_one(args.values[i]) && (takes_any_number(known, args, i) || is_key_with_indices(target, args, i)))
      return true;
  }
  return false;
}

// Whether a number lies between 0 and 1, which the region relies on then.
bool is_fraction(Numbers& numbers, PyObject* object) {
  const symbolic::Expr* number = numbers.expr_of(object);
  if (number == nullptr || number->type != symbolic::Type::Float || !(number->hint.f > 0 && number->hint.f < 1))
    return false;
  const auto compare = [&](symbolic::Comparison comparison, double bound) {
    return symbolic::compare(numbers.space(), comparison, number,
                             numbers.space().constant(symbolic::Value::real(bound)));
  };
  return numbers.decide(compare(symbolic::Comparison::Gt, 0.0)) &&
         numbers.decide(compare(symbolic::Comparison::Lt, 1.0));
}

}  // namespace

graph::Node* Recorder::record(graph::Op op, PyObject* target, Args args, PyObject* example, bool impure,
                              bool may_raise) {
  auto ran = aten::take_operators();
  aten::OpFacts facts = aten::take_facts();
  may_raise |= is_wrapper_subclass(example);  // code of the program runs in it
  may_raise |= facts.may_raise || takes_any_open_number(target, args);
  if (arrays.is_written && may_raise)
    unsupported(Reason::ArrayInGraph,
                {{"operation", name_of_target(target)}, {"why", "it may raise, behind a write to an array"}});
  const auto is_of_array = [&](const aten::HeldStorage& written) {
    return std::ranges::find(arrays.storages, written.get()) != arrays.storages.end();
  };
  if (std::ranges::any_of(facts.written, is_of_array))
    unsupported(Reason::ArrayInGraph, {{"operation", name_of_target(target)}, {"why", "it writes to an array"}});
  std::vector<graph::Arg> positional;
  for (PyObject* value : args.positional()) positional.push_back(to_arg(value));
  std::vector<std::pair<py::Owned<>, graph::Arg>> keywords;
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    keywords.emplace_back(py::Owned<>::share(PyTuple_GET_ITEM(args.kwnames, i)), to_arg(args.values[args.size() + i]));
  }
  graph::Node* node = region_.capture->bodies->graph().call(op, py::Owned<>::share(target), std::move(positional),
                                                            std::move(keywords), py::Owned<>::share(example));
  node->where = call_site();
  node->step = region_.steps;
  node->impure = impure || communicates(target);  // whoever looks at what it gives: other processes wait for it
  node->may_raise = may_raise;
  node->random = facts.random;
  node->overwrites = facts.overwrites;
  node->written = std::move(facts.written);
  region_.foresight.note(node, std::move(ran));
  return node;
}

// By the call of a torch function that has just ended. Not every write moves the version counter: those of statistics
// and of the operators that unscale gradients do not.
static bool is_written(PyObject* tensor) {
  const auto& written = aten::facts_so_far().written;
  if (written.empty()) return false;
  const void* storage = aten::meta_of(tensor).storage;
  return std::ranges::any_of(written, [&](const auto& held) { return held.get() == storage; });
}

namespace {

// The values of this capture, which no guard names.
py::Owned<> at_hand(PyObject* value) {
  if (!holds_open(value)) return py::Owned<>::share(value_at_hand(value));
  auto values = py::take(PySequence_List(value));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.get()); ++i) {
    auto item = py::Owned<>::share(value_at_hand(PyList_GET_ITEM(values.get(), i)));
    py::check(PyList_SetItem(values.get(), i, item.release()));
  }
  return values;
}

}  // namespace

// The arguments of a torch function as torch gets them, over fakes.
struct Recorder::TorchArguments {
  std::vector<PyObject*> given;                               // as the node names them
  std::vector<py::Owned<>> held;                              // as torch gets them
  std::vector<PyObject*> values;                              // of these
  std::vector<std::pair<PyObject*, std::uint32_t>> versions;  // of every tensor among them
  bool open = false;                                          // torch gets open ints
};

Recorder::TorchArguments Recorder::arguments_of(PyObject* target, Args args, bool may_be_open) {
  TorchArguments made;
  made.held.reserve(args.values.size());
  const auto is_or_holds_one = [](PyObject* value) {
    return is_number(value) || holds_open(value) || has_list_of_indices(value);
  };
  const bool any = std::ranges::any_of(args.values, is_or_holds_one);
  const bool in_graph = region_.numbers.policy.graph_numbers != GraphNumbers::None && may_be_open;
  if (any) region_.doing = "passes a number to torch";
  const ValueArguments* known = any && may_be_open ? value_arguments(target) : nullptr;
  const auto& policy = region_.numbers.policy;
  const bool scalars = any && policy.graph_numbers == GraphNumbers::Ints && takes_scalar_tensors(known, args);
  std::size_t at = 0;
  const auto enters = [&](PyObject* value) {
    if (!may_be_open) return false;
    return enters_graph(policy, value) ||
           (scalars && is_open(value) && as_number(value)->as_tensor && may_be_tensor(*known, args, at));
  };
  const auto all_enter = [&](PyObject* sequence) {
    if (!holds_open_numbers_alone(sequence)) return false;
    const std::span items(PySequence_Fast_ITEMS(sequence),
                          static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence)));
    return std::ranges::all_of(items, [&](PyObject* item) { return !is_open(item) || enters(item); });
  };
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    PyObject* value = args.values[i];
    at = i;
    bool is_value = (enters(value) || all_enter(value)) && takes_any_number(known, args, i);
    const bool has_indices = in_graph && is_key_with_indices(target, args, i);
    if (is_value && known != nullptr && known->are_fractions) is_value = is_fraction(region_.numbers, value);
    if (is_number(value) && !is_value && !(is_open_int(value) && enters(value))) value = region_.numbers.plain(value);
    if (!may_be_open && !is_number(value)) region_.reads.deep_touch(value);
    made.given.push_back(value);
    made.open |= !is_value && holds_open_int(value) && !(has_indices && PyList_CheckExact(value));
    made.held.push_back(is_value ? at_hand(value) : has_indices ? key_at_hand(value) : to_fake(value));
    made.values.push_back(made.held.back().get());
    each_tensor(made.values.back(),
                [&](PyObject* tensor) { made.versions.emplace_back(tensor, aten::version_of(tensor)); });
  }
  return made;
}

// A key whose lists of indices are those at hand.
py::Owned<> Recorder::key_at_hand(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return at_hand(key);
  auto made = py::take(PyTuple_New(PyTuple_GET_SIZE(key)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* part = PyTuple_GET_ITEM(key, i);
    PyTuple_SET_ITEM(made.get(), i, (is_list_of_indices(part) ? at_hand(part) : to_fake(part)).release());
  }
  return made;
}

// A size of a tensor from outside is read by its path, also behind the graph: one that the region gives another shape
// has to have the sizes that it has here.
void Recorder::fix_reshaped(const std::vector<std::pair<PyObject*, std::uint32_t>>& tensors) {
  for (const auto& [fake, version] : tensors) {
    const auto real = real_of_.find(fake);
    const aten::OpenShape* shape = real == real_of_.end() ? nullptr : region_.numbers.tensors.shape_of(real->second);
    if (shape == nullptr || fakes_->has_shape(fake, *shape)) continue;
    for (const auto* exprs : {&shape->sizes, &shape->strides}) {
      for (const symbolic::Expr* expr : *exprs) (void)region_.numbers.fix(expr, "a change of the tensor's shape");
    }
  }
}

namespace {

// What does the same on fakes as a function of torch that takes plain ints alone, or reads plain sizes. Borrowed; the
// function itself where there is none.
PyObject* for_open(PyObject* callable, bool ints) {
  static PyObject* const of_ints = py::import_attr("pellucid.polyfills_torch", "FOR_OPEN_INTS").release();
  static PyObject* const of_sizes = py::import_attr("pellucid.polyfills_torch", "FOR_OPEN_SIZES").release();
  PyObject* table = ints ? of_ints : of_sizes;
  PyObject* found = PyDict_GetItemWithError(table, callable);
  if (found == nullptr) PyErr_Clear();
  return found == nullptr ? callable : found;
}

}  // namespace

namespace {

// Whether an item of a tensor by tensors without dimensions is looked up by these, as in the functions that torch's
// flex_attention calls; elsewhere their values are asked for.
bool looks_up_items(const graph::Graph& graph) {
  if (graph.body == nullptr) return false;
  const std::string& kind = graph.body->name;
  return kind == "score_mod" || kind == "mask_fn" || looks_up_items(graph.body->outer);
}

bool is_item_of(PyObject* target) {
  static PyObject* const getitem = py::import_attr("operator", "getitem").release();
  return target == getitem;
}

PyObject* look_up() {
  static PyObject* const function = py::import_attr("pellucid._bodies", "look_up").release();
  return function;
}

bool is_item(PyObject* target) {
  return PyUnicode_Check(target) && PyUnicode_CompareWithASCIIString(target, "item") == 0;
}

}  // namespace

Result Recorder::torch_call(graph::Op op, PyObject* callable, PyObject* target, Args args) {
  if (divides_scalar_tensor(region_.numbers.policy, target, args)) {
    // torch divides a number by a tensor in this method, as the reciprocal times the number, which has other bits than
    // a quotient of tensors.
    static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
    static PyObject* const method = PyObject_GetAttrString(tensor, "__rdiv__");
    static PyObject* const name = PyUnicode_InternFromString("__rdiv__");
    PyObject* reflected[] = {args[1], args[0]};
    return torch_call(graph::Op::CallMethod, method, name, Args{reflected, nullptr});
  }
  TorchArguments arguments = arguments_of(target, args, true);
  const bool makes_one = (PyType_Check(callable) && is_wrapper_class(reinterpret_cast<PyTypeObject*>(callable))) ||
                         WrapperSubclasses::is_bound(callable) || makes_jagged(callable);
  const bool wraps = makes_one || wrappers.are_among(arguments.values);
  const bool stays_open = wraps && (makes_jagged(callable) || are_jagged(arguments.values));
  if (wraps && arguments.open && !stays_open) arguments = arguments_of(target, args, false);
  note_operator(region_, callable, Args{arguments.values, args.kwnames});
  py::Owned<> result;
  bool may_stand_in = true, stands_in = false;
  const auto call = [&] {
    (void)aten::take_facts();
    region_.doing = "calls torch";
    const bool sizes = region_.numbers.space().symbols() > 0;
    PyObject* on_fakes = may_stand_in && (arguments.open || sizes) ? for_open(callable, arguments.open) : callable;
    if (looks_up_items(region_.capture->bodies->graph()) && is_item_of(target)) on_fakes = look_up();
    stands_in = on_fakes != callable;
    Ahead::look(region_.unbacked, is_item(target) ? arguments.values.front() : nullptr);
    const Unbacked::InTorch asks(region_.unbacked);
    region_.numbers.scope()->item = nullptr;
    region_.numbers.scope()->gave_known_item = false;
    result = wraps ? wrappers.call(callable, arguments.values, args.size(), args.kwnames)
                   : fakes_->call(on_fakes, arguments.values.data(), args.size(), args.kwnames);
  };
  const auto refuse = [&](const py::PythonError& error) {
    const std::string name = name_of_target(target);
    const bool is_conversion = region_.unbacked.has_refused() && name.starts_with("Tensor.__");
    if (is_conversion || aten::FakeScope::is_data_dependent(error.value()))
      unsupported(Reason::DataDependent, {{"operation", needing_values(name)}});
    region_.unbacked.rethrow();
    region_.unbacked.wish_for_fitting_sizes(arguments.values);
    auto text = py::Owned<>::steal(PyObject_Str(error.value()));
    if (!text) PyErr_Clear();
    unsupported(Reason::OpFailed, {{"operation", name},
                                   {"error", std::string(Py_TYPE(error.value())->tp_name) + ": " +
                                                 shortened(py::text_of(text.get()), 300)}});
  };
  const auto is_untouched = [](const auto& tensor) { return aten::version_of(tensor.first) == tensor.second; };
  try {
    call();
  } catch (const py::PythonError& error) {
    // Some of torch's functions take ints alone.
    const bool untouched = std::ranges::all_of(arguments.versions, is_untouched);
    const bool needs_data = aten::FakeScope::is_data_dependent(error.value());
    if (needs_data && untouched && !wraps && region_.numbers.policy.runs_as_captured())
      result = known_result(region_, callable, arguments.values, args.size(), args.kwnames);
    const bool again = (arguments.open || stands_in) && untouched && !needs_data && !region_.unbacked.has_refused();
    if (!result && !again) refuse(error);
    if (!result) {
      may_stand_in = false;
      arguments = arguments_of(target, args, false);
      try {
        call();
      } catch (const py::PythonError& second) {
        refuse(second);
      }
    }
  }
  const auto& versions = arguments.versions;
  args.values = arguments.given;
  if (region_.unbacked.any()) {
    // A function that goes on with what item() gave has gone by a value that nobody knows.
    const symbolic::Expr* item = region_.numbers.scope()->item;
    if (item != nullptr && !is_item(target)) {
      wish_for_elements(region_, item);
      unsupported(Reason::DataDependent, {{"operation", needing_values(name_of_target(target))}});
    }
    region_.unbacked.check_before(result.get(), given_number(result.get()));
  }
  if (region_.numbers.scope()->gave_known_item && !is_item(target) && !region_.numbers.policy.runs_as_captured())
    unsupported(Reason::DataDependent, {{"operation", needing_values(name_of_target(target))}});
  bool mutated = false;
  for (const auto& [tensor, version] : versions)
    mutated |= aten::version_of(tensor) != version || is_written(tensor) || aten::is_functional(tensor);
  if (mutated) region_.deferred.freeze_written();
  if (mutated && wrappers.any()) {
    std::vector<aten::HeldStorage> written = aten::facts_so_far().written;
    for (const auto& [tensor, version] : versions) {
      if (aten::version_of(tensor) != version) written.emplace_back(aten::meta_of(tensor).storage, [](const void*) {});
    }
    refuse_writes_beside(*region_.capture, region_.numbers.policy, written);
  }
  if (mutated && region_.numbers.space().symbols() > 0) fix_reshaped(versions);
  for (const auto& [fake, version] : versions) check_alias(fake, version);
  each_tensor(result.get(), [&](PyObject* tensor) {
    const bool is_known = region_.capture->node_of.contains(tensor);
    if (!is_known && aten::is_fake(tensor) && aten::is_leaf_with_grad(tensor))
      note_leaf(tensor, name_of_target(target));
  });
  if (wraps) {
    each_tensor(result.get(), [&](PyObject* tensor) {
      if (!is_subclassed(tensor)) return;
      wrappers.check_result(tensor, target);
      if (!real_of_.contains(tensor)) fake_of_.emplace(tensor, py::Owned<>::share(tensor));
    });
  }
  return wrap_result(op, target, args, std::move(result), mutated);
}

// The fake of a tensor with data that torch has just made of numbers. A level of torch.func is around it as around the
// real one.
py::Owned<> Recorder::fake_of_made(PyObject* made) {
  if (!aten::is_wrapper(made)) return aten::fake_like(made);
  static PyObject* const lift_fresh = torch_operator("aten", "lift_fresh").release();
  const auto fake = aten::fake_like(aten::innermost(made).get());
  PyObject* argument = fake.get();
  return fakes_->call(lift_fresh, &argument, 1, nullptr);
}

void refuse_lost_leaf(const Region& region, const std::string& operation) {
  const std::int64_t before = region.recorder.leaves_before;
  if (before >= 0 && region.steps >= before) unsupported(Reason::LeafInGraph, {{"operation", operation}});
}

void Recorder::note_leaf(PyObject* fake, const std::string& operation) {
  refuse_lost_leaf(region_, operation);
  region_.provenance.keep(fake);
  region_.capture->leaves.try_emplace(fake, region_.steps);
}

Result Recorder::wrap_result(graph::Op op, PyObject* target, Args args, py::Owned<> result, bool mutated) {
  if (reads_unguarded_state(target))
    unsupported(Reason::UnsupportedTensor,
                {{"what", "what " + name_of_target(target) + " gives, which is not guarded"}});
  bool any = false, real = false;
  each_tensor(result.get(), [&](PyObject* t) {
    any = true;
    real |= !aten::is_fake(t) && !wrappers.is_fake(t);
  });
  if (!any) {
    if (const symbolic::Expr* number = region_.unbacked.any() ? given_number(result.get()) : nullptr;
        number != nullptr && region_.unbacked.is_new(number)) {
      auto value = region_.unbacked.number_at_hint(number);
      return Result::of(region_.unbacked.give(number, record(op, target, args, value.get(), mutated)));
    }
    if (region_.numbers.space().symbols() > 0) result = from_torch(result.get());
    const bool checks = result.get() == Py_None && aten::facts_so_far().may_raise;  // torch._assert_async
    if (mutated || checks) record(op, target, args, result.get(), true);
    const Cat cat = cat_of(result.get());
    if (wrappers.any()) check_nested_ints(region_, result.get());
    if (wrappers.any() && is_nested_int(result.get())) return Result::of(std::move(result));
    if (!is_atom(cat) && cat != Cat::Tuple && cat != Cat::List && cat != Cat::Type && cat != Cat::Symbolic) {
      unsupported(Reason::UntracedCallable,
                  {{"callee", name_of_target(target) + " (it gives a " + Py_TYPE(result.get())->tp_name + ")"}});
    }
    return Result::of(std::move(result));
  }
  py::Owned<> made_with_data;
  if (real) {
    if (cat_of(result.get()) != Cat::Tensor || region_.provenance.is_outside(result.get())) {
      unsupported(Reason::UnknownOrigin, {{"detail", name_of_target(target) + " gives a tensor with data"}});
    }
    made_with_data = result.copy();
    result = fake_of_made(result.get());
    if (aten::is_leaf_with_grad(result.get())) note_leaf(result.get(), name_of_target(target));
  }
  graph::Node* node = record(op, target, args, result.get(), mutated);
  if (made_with_data) region_.foresight.note_made(node, result.get(), made_with_data.get());
  if (cat_of(result.get()) == Cat::Tensor) {
    set_node(result.get(), node);
    region_.provenance.keep(result.get());
    region_.unbacked.give_sizes(result.get());
    auto it = real_of_.find(result.get());
    if (it == real_of_.end()) return Result::of(std::move(result));
    set_node(it->second, node);  // the same tensor object: later uses name the newest node
    return Result::of(py::Owned<>::share(it->second));
  }
  auto parts = unpack(result.get(), node, node->where);
  each_tensor(result.get(), [&](PyObject* tensor) { region_.unbacked.give_sizes(tensor); });
  return Result::of(std::move(parts));
}

// One getitem for each tensor in a tuple or list, as its elements are used one by one.
py::Owned<> Recorder::unpack(PyObject* value, graph::Node* owner, const std::shared_ptr<const graph::CallSite>& site) {
  static PyObject* const getitem = py::import_attr("operator", "getitem").release();
  const auto holds_any = [](PyObject* object) {
    bool any = false;
    each_tensor(object, [&](PyObject*) { any = true; });
    return any;
  };
  if (cat_of(value) == Cat::Tensor) {
    if (const auto real = real_of_.find(value); real != real_of_.end()) value = real->second;
    region_.capture->node_of.try_emplace(value, owner);
    region_.provenance.keep(value);
    return py::Owned<>::share(value);
  }
  if (!holds_any(value)) return region_.numbers.space().symbols() > 0 ? from_torch(value) : py::Owned<>::share(value);
  if (!PyTuple_Check(value) && !PyList_Check(value)) {
    unsupported(Reason::UntracedCallable,
                {{"callee", std::string("a torch function that gives a ") + Py_TYPE(value)->tp_name}});
  }
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  auto items = py::take(PyTuple_New(size));
  bool changed = false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(value, i);
    py::Owned<> out = py::Owned<>::share(item);
    if (holds_any(item)) {
      std::vector<graph::Arg> args;
      args.push_back(graph::Arg::of(owner));
      args.push_back(graph::Arg::of(py::take(PyLong_FromSsize_t(i))));
      graph::Node* child = owner->graph->call(graph::Op::CallFunction, py::Owned<>::share(getitem), std::move(args), {},
                                              py::Owned<>::share(item));
      child->where = site;
      out = unpack(item, child, site);
    }
    changed |= out.get() != item;
    PyTuple_SET_ITEM(items.get(), i, out.release());
  }
  return changed ? rebuilt(value, std::move(items)) : py::Owned<>::share(value);
}

// A tensor that an operator wrote to and gave is what the operator gives, from here on; behind a body, what it was.
void Recorder::set_node(PyObject* tensor, graph::Node* node) {
  graph::Node*& known = region_.capture->node_of[tensor];
  if (known != nullptr && known->graph != node->graph) bodies.note_written(tensor, known);
  known = node;
}

PyObject* Recorder::tensor_behind(PyObject* fake) const {
  const auto real = real_of_.find(fake);
  return real == real_of_.end() ? fake : real->second;
}

PyObject* Recorder::fake_or_itself(PyObject* tensor) const {
  const auto fake = aten::is_fake(tensor) && !is_subclassed(tensor) ? fake_of_.end() : fake_of_.find(tensor);
  return fake == fake_of_.end() ? tensor : fake->second.get();
}

}  // namespace pellucid::region
