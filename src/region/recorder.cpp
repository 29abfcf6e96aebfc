#include "region/recorder.h"

#include <algorithm>

#include "aten/layers.h"
#include "aten/torch_function.h"
#include "base/text.h"
#include "py/cpython.h"
#include "region/assertions.h"
#include "region/custom_operators.h"
#include "region/jagged.h"
#include "region/known_elements.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "region/value_arguments.h"

namespace pellucid::region {
namespace {

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

// What opens levels for the program: torch's own code, and the blocks that it does so with.
bool opens_levels(PyObject* file) {
  static PyObject* const contextlib = py::import_attr("contextlib", "__file__").release();
  return py::text_of(file).starts_with(torch_directory()) || PyUnicode_Compare(file, contextlib) == 0;
}

}  // namespace

void OpenLevels::note_opening(const Region& region) {
  if (aten::is_below_transform() || left > 0) return;
  for (const Frame* frame = region.top; frame != nullptr; frame = frame->back.get()) {
    if (frame->back && (frame->hidden || opens_levels(frame->code->co_filename))) continue;
    if (led_by.empty() || led_by.back() != frame->at_step) led_by.push_back(frame->at_step);
    return;
  }
}

Recorder::Recorder(Region& region)
    : bodies(region),
      wrappers(region),
      sizes(region),
      sparse(region),
      region_(region),
      fakes_(std::make_unique<aten::FakeScope>(region.numbers.scope())) {}

bool reads_unguarded_state(PyObject* name) {
  static const std::unordered_set<std::string> unguarded = {
      "storage_offset", "data_ptr",     "_version", "is_shared",       "is_pinned", "is_set_to",
      "output_nr",      "retains_grad", "_is_view", "_backward_hooks", "_base"};
  return PyUnicode_Check(name) && unguarded.contains(py::text_of(name));
}

// The graph has an alias of it: what is written to its layout would not be, and after a write gradients would no longer
// come to the tensor itself.
void Recorder::check_alias(PyObject* fake, std::uint32_t version) {
  if (aten::version_of(fake) != version) instances_.note_write(aten::meta_of(fake).storage);
  const auto real = real_of_.find(fake);
  if (real == real_of_.end() || aten::is_fake(real->second) || !is_subclassed(real->second) || wrappers.is_fake(fake))
    return;
  const auto refuse = [](const std::string& target) { unsupported(Reason::UnsupportedMutation, {{"target", target}}); };
  const std::string name = std::string("a tensor of class ") + Py_TYPE(real->second)->tp_name;
  const aten::Meta now = aten::meta_of(fake), before = aten::meta_of(real->second);
  if (now.sizes != before.sizes || now.strides != before.strides || now.storage_offset != before.storage_offset)
    refuse("the shape of " + name);
}

graph::Node* Recorder::node_of(PyObject* tensor) const {
  auto it = region_.capture->node_of.find(tensor);
  return it == region_.capture->node_of.end() ? nullptr : it->second;
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

void Recorder::give(PyObject* value, graph::Node* node) {
  region_.capture->node_of[value] = node;
  region_.provenance.keep(value);
}

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
  region_.late_items.keep(facts.written);
  std::vector<graph::Arg> positional;
  for (PyObject* value : args.positional()) positional.push_back(to_arg(value));
  std::vector<std::pair<py::Owned<>, graph::Arg>> keywords;
  // A compiler's symbols are sizes of what draws without a generator alone, and None is one to torch as well.
  const bool says_no_generator = facts.random && region_.numbers.policy.graph_numbers == GraphNumbers::Ints;
  for (std::size_t i = 0; i < args.keyword_count(); ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(args.kwnames, i);
    if (says_no_generator && args.values[args.size() + i] == Py_None &&
        PyUnicode_CompareWithASCIIString(keyword, "generator") == 0)
      continue;
    keywords.emplace_back(py::Owned<>::share(keyword), to_arg(args.values[args.size() + i]));
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

std::vector<const symbolic::Expr*> open_sizes_of_array(Region& region, PyObject* array) {
  symbolic::Space& space = region.numbers.space();
  if (space.symbols() == 0) return {};
  std::vector<const symbolic::Expr*> sizes;
  const auto& made = region.recorder.arrays.tensors;
  if (const aten::OpenShape* shape = region.numbers.tensors.shape_of(array)) {
    sizes = shape->sizes;
  } else if (const auto found = made.find(array); found != made.end()) {
    sizes = region.recorder.fakes().open_shape(found->second.get()).sizes;
  }
  for (const symbolic::Expr*& size : sizes) size = space.simplify(size);
  const bool any = std::ranges::any_of(sizes, [](const symbolic::Expr* size) { return !size->is_constant(); });
  return any ? sizes : std::vector<const symbolic::Expr*>();
}

namespace {

// Torch gets an array itself, of which it reads the sizes at hand. Lists of these are no lists of tensors to a
// compiler.
void fix_array_sizes(Region& region, PyObject* value) {
  if (is_number(value)) return;
  const Cat cat = cat_of(value);
  if (cat == Cat::Tuple || cat == Cat::List) {
    const bool is_list = cat == Cat::List && !region.numbers.policy.runs_as_captured();
    for (const auto& item : items_now(value)) {
      if (is_list && !is_number(item.get()) && cat_of(item.get()) == Cat::Array)
        unsupported(Reason::ArrayInGraph,
                    {{"operation", "a list of arrays"}, {"why", "torch gets it, and takes no tensors there"}});
      fix_array_sizes(region, item.get());
    }
  } else if (cat == Cat::Array) {
    for (const symbolic::Expr* size : open_sizes_of_array(region, value))
      (void)region.numbers.fix(size, "gives an array to torch");
  }
}

}  // namespace

Recorder::TorchArguments Recorder::arguments_of(PyObject* target, Args args, bool may_be_open) {
  refuse_read_in_python(region_, target, args);
  for (PyObject* value : args.values) region_.late_items.refuse_in_graph(value);
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
  const bool has_symbols = region_.numbers.space().symbols() > 0;
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
    if (has_symbols || !policy.runs_as_captured()) fix_array_sizes(region_, value);
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
    region_.numbers.tensors.fix(*shape, "a change of the tensor's shape");
  }
}

PyObject* for_open(PyObject* callable, bool ints) {
  static PyObject* const of_ints = py::import_attr("pellucid.polyfills_torch", "FOR_OPEN_INTS").release();
  static PyObject* const of_sizes = py::import_attr("pellucid.polyfills_torch", "FOR_OPEN_SIZES").release();
  PyObject* table = ints ? of_ints : of_sizes;
  PyObject* found = PyDict_GetItemWithError(table, callable);
  if (found == nullptr) PyErr_Clear();
  return found == nullptr ? callable : found;
}

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

// A float that changes is a tensor of double precision in the graphs of backends that compile, and gives way to the
// dtype of a tensor with dimensions alone: so the other operand has one for the length of the operator.
Result between_scalars(Recorder& recorder, graph::Op op, PyObject* callable, PyObject* target, Args args) {
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  static PyObject* const method = PyObject_GetAttrString(tensor, "reshape");
  static PyObject* const name = PyUnicode_InternFromString("reshape");
  const auto reshaped = [&](PyObject* value, PyObject* shape) {
    PyObject* given[] = {value, shape};
    return recorder.torch_call(graph::Op::CallMethod, method, name, Args{given, nullptr});
  };
  const bool is_left = cat_of(args[0]) == Cat::Tensor;
  const auto one = py::take(Py_BuildValue("(i)", 1)), none = py::take(PyTuple_New(0));
  Result vector = reshaped(args[is_left ? 0 : 1], one.get());
  if (!vector.is_value()) return vector;
  PyObject* operands[] = {is_left ? vector.value.get() : args[0], is_left ? args[1] : vector.value.get()};
  Result result = recorder.torch_call(op, callable, target, Args{operands, nullptr});
  if (!result.is_value()) return result;
  return reshaped(result.value.get(), none.get());
}

}  // namespace

Result Recorder::torch_call(graph::Op op, PyObject* callable, PyObject* target, Args args) {
  if (has_two_scalar_tensors(region_.numbers.policy, target, args))
    return between_scalars(*this, op, callable, target, args);
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
  for (const auto& [fake, version] : arguments.versions) region_.grad_flags.check_given(fake);
  sparse.check_call();
  const bool makes_one = (PyType_Check(callable) && is_wrapper_class(reinterpret_cast<PyTypeObject*>(callable))) ||
                         WrapperSubclasses::is_bound(callable) || makes_jagged(callable);
  const bool wraps = makes_one || wrappers.are_among(arguments.values);
  note_operator(region_, callable, Args{arguments.values, args.kwnames});
  py::Owned<> result;
  bool may_stand_in = true, stands_in = false;
  DecisionMark before(region_.numbers);
  const auto call = [&] {
    before = DecisionMark(region_.numbers);
    (void)aten::take_facts();
    region_.doing = "calls torch";
    const bool sizes = region_.numbers.space().symbols() > 0;
    PyObject* on_fakes = may_stand_in && (arguments.open || sizes) ? for_open(callable, arguments.open) : callable;
    if (looks_up_items(region_.capture->bodies->graph()) && is_item_of(target)) on_fakes = look_up();
    stands_in = on_fakes != callable;
    Ahead::look(region_.unbacked, is_item(target) ? arguments.values.front() : nullptr);
    const Unbacked::InTorch asks(region_.unbacked);
    region_.numbers.scope()->item = nullptr;
    region_.numbers.scope()->known_items.clear();
    region_.numbers.scope()->has_known_sizes = false;
    result = wraps ? wrappers.call(callable, arguments.values, args.size(), args.kwnames)
                   : fakes_->call(on_fakes, arguments.values.data(), args.size(), args.kwnames);
  };
  const auto is_untouched = [](const auto& tensor) { return aten::version_of(tensor.first) == tensor.second; };
  const auto refuse = [&](const py::PythonError& error) {
    const bool needs_data = aten::FakeScope::is_data_dependent(error.value());
    const bool untouched = std::ranges::all_of(arguments.versions, is_untouched);
    // Other faults may be those of the sizes at hand: with others the call may be part of a region.
    if (needs_data && untouched && !wraps && !region_.unbacked.has_refused()) before.take_back(region_.numbers);
    const std::string name = name_of_target(target);
    const bool is_conversion = region_.unbacked.has_refused() && name.starts_with("Tensor.__");
    if (is_conversion || needs_data) unsupported(Reason::DataDependent, {{"operation", needing_values(name)}});
    region_.unbacked.rethrow();
    region_.unbacked.wish_for_fitting_sizes(arguments.values);
    auto text = py::Owned<>::steal(PyObject_Str(error.value()));
    if (!text) PyErr_Clear();
    unsupported(Reason::OpFailed, {{"operation", name},
                                   {"error", std::string(Py_TYPE(error.value())->tp_name) + ": " +
                                                 shortened(py::text_of(text.get()), 300)}});
  };
  try {
    call();
  } catch (const py::PythonError& error) {
    // Some of torch's functions take ints alone.
    const bool untouched = std::ranges::all_of(arguments.versions, is_untouched);
    const bool needs_data = aten::FakeScope::is_data_dependent(error.value());
    if (needs_data && untouched && !wraps && region_.numbers.policy.runs_as_captured())
      result = known_result(region_, callable, arguments.values, args.size(), args.kwnames);
    if (needs_data && untouched && !wraps && is_item(target)) {
      if (auto number = region_.late_items.read(args[0])) return Result::of(std::move(number));
    }
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
  sparse.check_operators(target);
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
  const auto known = std::exchange(region_.numbers.scope()->known_items, {});
  const bool says_sizes = std::exchange(region_.numbers.scope()->has_known_sizes, false);
  bool gives_tensor = false;
  each_tensor(result.get(), [&](PyObject*) { gives_tensor = true; });
  if (!known.empty() && gives_tensor && !region_.numbers.policy.runs_as_captured()) {
    const bool untouched = std::ranges::all_of(versions, is_untouched);
    const std::size_t first = op == graph::Op::CallMethod ? 1 : 0;
    const auto numbers =
        untouched ? with_items(args.values, arguments.values, first, known) : std::vector<py::Owned<>>();
    const bool is_changed =
        !std::ranges::equal(numbers, args.values, {}, [](const auto& value) { return value.get(); });
    if (numbers.empty() || !is_changed)
      unsupported(Reason::DataDependent, {{"operation", needing_values(name_of_target(target))}});
    std::vector<PyObject*> values;
    values.reserve(numbers.size());
    for (const auto& value : numbers) values.push_back(value.get());
    return torch_call(op, callable, target, Args{values, args.kwnames});
  }
  bool mutated = false;
  for (const auto& [tensor, version] : versions)
    mutated |= aten::version_of(tensor) != version || is_written(tensor) || aten::is_functional(tensor);
  if (mutated) region_.deferred.freeze_written();
  if (mutated && !region_.numbers.policy.runs_as_captured()) {
    std::vector<aten::HeldStorage> written = aten::facts_so_far().written;
    for (const auto& [tensor, version] : versions) {
      if (aten::version_of(tensor) != version) written.emplace_back(aten::meta_of(tensor).storage, [](const void*) {});
    }
    region_.late_items.keep(written);
    wrappers.note_writes(written);
    sparse.note_writes(written);
  }
  if (mutated && region_.numbers.space().symbols() > 0) fix_reshaped(versions);
  for (const auto& [fake, version] : versions) {
    check_alias(fake, version);
    region_.grad_flags.check_done(fake);
  }
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
  Result wrapped = wrap_result(op, target, args, std::move(result), mutated);
  if (says_sizes && wrapped.is_value() && !region_.numbers.policy.runs_as_captured())
    say_sizes(region_, wrapped.value.get());
  return wrapped;
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
    if (region_.numbers.space().symbols() > 0) {
      result = from_torch(result.get());
      sizes.note(target, args, result.get());
    }
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
    const bool is_tensor = cat_of(result.get()) == Cat::Tensor && !is_subclassed(result.get());
    if (!is_tensor || region_.provenance.is_outside(result.get())) {
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
