// Torch functions with a meaning beyond "one node": state queries and switches, and what must not enter a graph.
#include "aten/aten.h"
#include "aten/layers.h"
#include "protocols/containers.h"
#include "protocols/numbers.h"
#include "protocols/torch_function.h"
#include "region/known_elements.h"
#include "region/subclasses.h"
#include "region/torch_module.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// Global state of torch: guarded as a whole at the entry, and the thread really is in the state that the program has
// set.
Result query(Interpreter& t, PyObject* f, Args args) { return pure(t, f, args); }

// Of other devices no guard knows the dtype.
Result autocast_dtype(Interpreter& t, PyObject* f, Args args) {
  if (args.values.size() == 1 && PyUnicode_Check(args[0])) {
    const std::string device = py::text_of(args[0]);
    if (device == "cpu" || device == "cuda") return query(t, f, args);
  }
  unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of a device other than cpu and cuda"}});
}

Result always_true(Interpreter&, PyObject*, Args) { return Result::boolean(true); }

// Optimizers of torch compute with tensors in place of numbers where they are told that they are compiled, which rounds
// otherwise. Where numbers of tensors are part of graphs that is not needed.
Result is_compiling(Interpreter& t, PyObject*, Args) {
  const bool may_read = t.region.numbers.policy.runs_as_captured() && t.region.top != nullptr;
  return Result::boolean(!may_read || !region::is_of_torch_optim(t.region.top->code.get()));
}

// The capture's own state, which torch's flag of the process says nothing of.
Result is_exporting(Interpreter&, PyObject*, Args) {
  const auto ask = py::import_attr("pellucid._exporting", "is_exporting");
  return Result::of(py::take(PyObject_CallNoArgs(ask.get())));
}

Result nothing(Interpreter&, PyObject*, Args) { return Result::none(); }

// Of functions that are no operators torch asks modes, too, when it parses the arguments of these.
template <Result (*handler)(Interpreter&, PyObject*, Args)>
Result or_asks_a_mode(Interpreter& t, PyObject* f, Args args) {
  if (auto answer = protocols::by_torch_function(t, f, args)) return std::move(*answer);
  return handler(t, f, args);
}

}  // namespace

Result state_switch(Interpreter& t, PyObject* f, Args args) {
  for (PyObject* value : args.values) {
    if (!region::is_atom(region::cat_of(value))) unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  }
  return switch_level(t, f, args);
}

Result switch_level(Interpreter& t, PyObject* f, Args args) {
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) values.push_back(held.emplace_back(t.region.recorder.to_fake(value)).get());
  Result done = run_native(t, f, Args{values, args.kwnames});
  if (!done.is_value()) return done;
  t.region.recorder.record(graph::Op::CallFunction, f, args, Py_None, true);
  return done;
}

namespace {

// Context managers of torch whose state lives in C++ objects: entered and left for real, so that what is between is
// captured under them, and recorded as the functions that torch has for graphs.
py::Owned<> entered(Interpreter& t, PyObject* f, Args args, const char* what) {
  if (args.size() != 1 || t.region.provenance.is_outside(args[0]))
    unsupported(Reason::OutsideContext, {{"operation", std::string("entering ") + what + " object from outside"}});
  t.region.provenance.keep(args[0]);
  // Torch's code reads the attributes: numbers and texts that the program has only handed on are read here.
  const auto attributes = py::take(PyObject_GetAttrString(args[0], "__dict__"));
  const auto names_of_all = py::take(PyDict_Keys(attributes.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names_of_all.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(names_of_all.get(), i);
    PyObject* value = PyDict_GetItemWithError(attributes.get(), name);
    if (region::is_number(value)) protocols::setattr(t, args[0], name, t.region.numbers.plain(value));
  }
  return py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), 1, nullptr));
}
Result left(Interpreter& t, PyObject* f, PyObject* recorded, Args args, const char* what) {
  auto it = args.size() >= 1 ? t.region.recorder.contexts.find(args[0]) : t.region.recorder.contexts.end();
  if (it == t.region.recorder.contexts.end())
    unsupported(Reason::OutsideContext,
                {{"operation", std::string("leaving ") + what + " object that the region did not enter"}});
  PyObject* values[] = {args[0], Py_None, Py_None, Py_None};
  auto done = py::Owned<>::steal(PyObject_Vectorcall(f, values, 4, nullptr));
  if (!done) return t.raise_pending(py::PythonError());
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, recorded, Args{}, Py_None, true);
  node->args.push_back(graph::Arg::of(it->second));
  it->second->users += 1;
  t.region.recorder.contexts.erase(it);
  return Result::of(std::move(done));
}

PyObject* held_function(const char* module, const char* name) { return py::import_attr(module, name).release(); }

// A backend that compiles would look at it when it traces, and again when what it made runs.
Result set_default_dtype(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const native = held_function("torch._C", "_set_default_dtype");
  if (!only_positional(args, 1, 1) || !t.region.numbers.policy.runs_as_captured()) return refuse(t, f, args);
  return state_switch(t, native, args);
}

// ---- an autocast object that existed before: what it finds when it is entered is kept in its attributes

struct Cast {
  py::Owned<> device, dtype, enabled, cache;
};

py::Owned<> part_of(Interpreter& t, PyObject* object, const char* name) {
  Result part = protocols::getattr(t, object, py::interned(name).get());
  if (!part.is_value()) unsupported(Reason::OutsideContext, {{"operation", "entering an autocast of another make"}});
  return py::Owned<>::share(t.region.numbers.plain(part.value.get()));
}

py::Owned<> torch_state(const char* function, PyObject* device = nullptr) {
  auto ask = py::import_attr("torch", function);
  return py::take(device != nullptr ? PyObject_CallOneArg(ask.get(), device) : PyObject_CallNoArgs(ask.get()));
}

// The thread's state becomes this; the node does the same, until leave_contexts() or `_exit_autocast` ends it.
graph::Node* switch_cast(Interpreter& t, const Cast& cast) {
  static PyObject* const enter = held_function("torch.amp.autocast_mode", "_enter_autocast");
  const auto set = [](const char* function, PyObject* a, PyObject* b) {
    auto setter = py::import_attr("torch", function);
    const auto done = py::take(PyObject_CallFunctionObjArgs(setter.get(), a, b, nullptr));
  };
  set("set_autocast_enabled", cast.device.get(), cast.enabled.get());
  set("set_autocast_dtype", cast.device.get(), cast.dtype.get());
  set("set_autocast_cache_enabled", cast.cache.get(), nullptr);
  PyObject* recorded[] = {cast.device.get(), cast.dtype.get(), cast.enabled.get(), cast.cache.get()};
  return t.region.recorder.record(graph::Op::CallFunction, enter, Args{recorded, nullptr}, Py_None, true);
}

Result enter_outside_cast(Interpreter& t, PyObject* self) {
  const Cast cast{part_of(t, self, "device"), part_of(t, self, "fast_dtype"), part_of(t, self, "_enabled"),
                  part_of(t, self, "_cache_enabled")};
  const auto keep = [&](const char* name, py::Owned<> value) {
    protocols::setattr(t, self, py::interned(name).get(), value.get());
  };
  keep("prev_cache_enabled", torch_state("is_autocast_cache_enabled"));
  keep("prev", torch_state("is_autocast_enabled", cast.device.get()));
  keep("prev_fastdtype", torch_state("get_autocast_dtype", cast.device.get()));
  t.region.recorder.contexts[self] = switch_cast(t, cast);
  const auto depth = torch_state("autocast_increment_nesting");
  return Result::of(py::Owned<>::share(self));
}

void record_exit(Interpreter& t, graph::Node* entered) {
  static PyObject* const exit = held_function("torch.amp.autocast_mode", "_exit_autocast");
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, exit, Args{}, Py_None, true);
  node->args.push_back(graph::Arg::of(entered));
  entered->users += 1;
}

Result exit_outside_cast(Interpreter& t, PyObject* self) {
  const Cast before{part_of(t, self, "device"), part_of(t, self, "prev_fastdtype"), part_of(t, self, "prev"),
                    part_of(t, self, "prev_cache_enabled")};
  const auto depth = torch_state("autocast_decrement_nesting");
  if (PyLong_AsLong(depth.get()) == 0) {
    static PyObject* const clear = held_function("torch", "clear_autocast_cache");
    auto none = py::take(PyTuple_New(0)), keywords = py::take(PyDict_New());
    t.region.provenance.note_constant(clear);
    t.region.deferred.add(clear, none.get(), keywords.get());
  }
  graph::Node* entered = switch_cast(t, before);
  if (auto it = t.region.recorder.contexts.find(self); it != t.region.recorder.contexts.end()) {
    record_exit(t, entered);
    record_exit(t, it->second);
    t.region.recorder.contexts.erase(it);
  } else {
    t.region.recorder.contexts[self] = entered;
  }
  return Result::boolean(false);
}

bool is_from_outside(Interpreter& t, Args args) { return args.size() > 0 && t.region.provenance.is_outside(args[0]); }

Result autocast_enter(Interpreter& t, PyObject* f, Args args) {
  if (is_from_outside(t, args)) return enter_outside_cast(t, args[0]);
  static PyObject* enter = held_function("torch.amp.autocast_mode", "_enter_autocast");
  auto self = entered(t, f, args, "an autocast");
  if (!self) return t.raise_pending(py::PythonError());
  auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(args[0], name)); };
  auto device = part("device"), dtype = part("fast_dtype"), enabled = part("_enabled"), cache = part("_cache_enabled");
  PyObject* recorded[] = {device.get(), dtype.get(), enabled.get(), cache.get()};
  t.region.recorder.contexts[args[0]] =
      t.region.recorder.record(graph::Op::CallFunction, enter, Args{recorded, nullptr}, Py_None, true);
  return Result::of(std::move(self));
}
Result autocast_exit(Interpreter& t, PyObject* f, Args args) {
  if (is_from_outside(t, args)) return exit_outside_cast(t, args[0]);
  static PyObject* exit = held_function("torch.amp.autocast_mode", "_exit_autocast");
  return left(t, f, exit, args, "an autocast");
}

Result inference_enter(Interpreter& t, PyObject* f, Args args) {
  static PyObject* enter = held_function("torch.autograd.grad_mode", "_enter_inference_mode");
  auto none = entered(t, f, args, "an inference_mode");
  if (!none) return t.raise_pending(py::PythonError());
  auto mode = py::take(PyObject_GetAttrString(args[0], "mode"));
  PyObject* recorded[] = {mode.get()};
  t.region.recorder.contexts[args[0]] =
      t.region.recorder.record(graph::Op::CallFunction, enter, Args{recorded, nullptr}, Py_None, true);
  return Result::of(std::move(none));
}
Result inference_exit(Interpreter& t, PyObject* f, Args args) {
  static PyObject* exit = held_function("torch.autograd.grad_mode", "_exit_inference_mode");
  return left(t, f, exit, args, "an inference_mode");
}

// torch.Size(iterable)
Result size(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  auto items = protocols::native_elements(t, args[0]);
  if (!items) {
    PyObject* values[] = {f, args[0]};
    return protocols::call_polyfill(t, "made_of_items", values);
  }
  if (auto open = protocols::sizes_made(t, items.get())) return std::move(*open);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (region::cat_of(item) == Cat::Instance)
      unsupported(Reason::UserDunder, {{"operation", "torch.Size"}, {"callee", "__index__ of an item"}});
  }
  PyObject* values[] = {items.get()};
  return run_native(t, f, Args{values, nullptr});
}

// The product of a sequence, in Python's ints.
Result product(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 1 && args.keyword_count() == 0) {
    if (auto open = protocols::product_of_items(t, t.region.shadows.original(args[0]))) return std::move(*open);
  }
  return pure(t, f, args);
}

// What matters of the tensors that an autograd.Function is given below vmap. What vmap puts around a tensor says of
// itself that it requires no gradients.
struct Given {
  bool asks_for_more = false;          // gradients, at some level, or a class of its own; or it is not looked into
  bool has_tangents = false;           // of forward mode, at some level
  bool is_of_innermost_level = false;  // the innermost vmap goes over one of them
};

void look_at(Interpreter& t, PyObject* value, Given& given) {
  const Cat cat = region::cat_of(value);
  if (cat == Cat::Tensor) {
    const auto fake = t.region.recorder.lift(value);
    aten::each_layer(fake.get(), [&](PyObject* layer) {
      given.asks_for_more |= aten::meta_of(layer).requires_grad;
      given.has_tangents |= static_cast<bool>(aten::tangent_of(layer));
    });
    given.asks_for_more |= region::is_subclassed(value);
    given.is_of_innermost_level |= aten::is_of_innermost_level(fake.get());
  } else if (cat == Cat::List || cat == Cat::Tuple) {
    const auto elements = protocols::native_elements(t, value);
    if (!elements) given.asks_for_more = true;
    for (Py_ssize_t i = 0; elements && i < PyTuple_GET_SIZE(elements.get()); ++i)
      look_at(t, PyTuple_GET_ITEM(elements.get(), i), given);
  } else {
    given.asks_for_more |= t.region.reads.deep_touch(value).tensor;
  }
}

// vmap calls the rule of a function, one level below. It calls the forward of a function that has asked for a rule to
// be made; without gradients nothing else of the function shows. Where there are gradients or tangents the function is
// a node, and torch does at each level what it does in eager.
Result autograd_function_below_transform(Interpreter& t, Args args) {
  const aten::LevelKinds levels = aten::level_kinds();
  if (levels.others)
    unsupported(Reason::UntracedCallable, {{"callee", "an autograd.Function below this transform of torch.func"}});
  Given given;
  for (std::size_t i = 1; i < args.size(); ++i) look_at(t, args[i], given);
  const auto of = [](bool value) { return value ? Py_True : Py_False; };
  const bool is_forward = !levels.grad && !given.has_tangents && !given.asks_for_more && given.is_of_innermost_level;
  auto values = tuple_of(args.values.subspan(1));
  if (levels.innermost == aten::LevelKind::Vmap) {
    PyObject* polyfill_args[] = {
        args[0], values.get(), of(is_forward), of(given.has_tangents), of(given.asks_for_more), of(levels.one_forward)};
    return protocols::call_polyfill(t, "autograd_function_below_vmap", polyfill_args);
  }
  static PyObject* const grad = py::interned("grad").release();
  static PyObject* const jvp = py::interned("jvp").release();
  static PyObject* const dual = py::interned("dual").release();
  PyObject* innermost = levels.innermost == aten::LevelKind::Grad  ? grad
                        : levels.innermost == aten::LevelKind::Jvp ? jvp
                                                                   : dual;
  PyObject* polyfill_args[] = {args[0], values.get(), innermost, of(levels.vmap || levels.forward)};
  return protocols::call_polyfill(t, "autograd_function_below_gradients", polyfill_args);
}

// Without gradients a custom autograd function is its forward. With them it is a node that calls the class.
Result autograd_function(Interpreter& t, PyObject* f, Args args) {
  protocols::refuse_asked(t, f);  // what is read and set around `forward` a mode would hear, which torch does in C
  bool needs_grad = false;
  if (args.kwnames != nullptr)
    unsupported(Reason::BadArguments, {{"callee", "an autograd.Function with keyword arguments"}});
  if (aten::is_below_transform()) return autograd_function_below_transform(t, args);
  for (PyObject* value : args.values) {
    if (region::cat_of(value) == Cat::Tensor && region::is_subclassed(value))
      unsupported(Reason::UntracedCallable, {{"callee", "an autograd.Function of a tensor subclass"}});
    if (region::cat_of(value) == Cat::Tensor)
      needs_grad |= aten::meta_of(t.region.recorder.lift(value).get()).requires_grad;
    else if (region::cat_of(value) == Cat::List || region::cat_of(value) == Cat::Tuple)
      needs_grad |= t.region.reads.deep_touch(value).tensor;
  }
  static PyObject* grad_enabled = py::import_attr("torch", "is_grad_enabled").release();
  if (!needs_grad) return protocols::call_polyfill(t, "autograd_function_forward", args);
  const bool is_on = py::take(PyObject_CallNoArgs(grad_enabled)).get() == Py_True;
  return is_on ? function_as_node(t, args) : protocols::call_polyfill(t, "autograd_function_under_no_grad", args);
}

// Of a leaf from outside it is set for good behind the graph; a tensor that the graph made it may make a leaf.
Result requires_grad_(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0 || region::cat_of(args[0]) != Cat::Tensor) return refuse(t, f, args);
  PyObject* on = args.size() > 1 ? args[1] : args.keyword("requires_grad");
  const bool requires_grad = aten::meta_of(t.region.recorder.lift(args[0]).get()).requires_grad;
  if (t.region.deferred.is_hooked(args[0])) return refuse(t, f, args);
  if (!aten::is_fake(args[0])) {
    const bool stays = on == Py_False ? !requires_grad : (on == nullptr || on == Py_True) && requires_grad;
    if (stays) return Result::of(py::Owned<>::share(args[0]));
    const bool is_flag = args.size() + args.keyword_count() <= 2 && (on == nullptr || PyBool_Check(on));
    if (!is_flag) return refuse(t, f, args);
    if (const std::string why = t.region.grad_flags.obstacle(args[0]); !why.empty())
      unsupported(Reason::SideEffect, {{"callee", describe(f) + " " + why}});
    t.region.grad_flags.set(args[0], on != Py_False);
    return Result::of(py::Owned<>::share(args[0]));
  }
  // The graph has a plain tensor in its place, and gives it its class as a view: that is no leaf.
  if (!requires_grad && region::is_subclassed(args[0]) && !region::is_wrapper_subclass(args[0]))
    return refuse(t, f, args);
  // Refused behind the call it would stay in the graph, and what it is called on with gradients.
  if (!requires_grad && on != Py_False) region::refuse_lost_leaf(t.region, "requires_grad_()");
  auto name = py::interned("requires_grad_");
  Result result = t.region.recorder.torch_call(graph::Op::CallMethod, f, name.get(), args);
  if (!requires_grad && aten::is_leaf_with_grad(args[0])) t.region.recorder.note_leaf(args[0], "requires_grad_()");
  return result;
}

// torch.nn.Parameter(data, requires_grad=False), to a compiler: what it gives is a plain tensor, so emitted code makes
// the parameter of that, in the same memory. No gradients come to it that would have to be those of a leaf.
Result late_parameter(Interpreter& t, PyObject* f, PyObject* data) {
  static PyObject* const detach = PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), "detach");
  static PyObject* const name = py::interned("detach").release();
  PyObject* values[] = {data, Py_False};
  Result elements = t.region.recorder.torch_call(graph::Op::CallMethod, detach, name, Args{{values, 1}, nullptr});
  if (!elements.is_value()) return elements;
  const auto fake = t.region.recorder.lift(elements.value.get());
  values[0] = fake.get();
  auto made = t.region.recorder.fakes().call(f, values, 2, nullptr);
  t.region.recorder.give(made.get(), t.region.recorder.node_of(fake.get()));
  t.region.capture->late_parameters.insert(made.get());
  return Result::of(std::move(made));
}

bool makes_late_parameter(Interpreter& t, PyObject* f, Args args, PyObject* data) {
  PyObject* requires_grad = args.size() > 1 ? args[1] : args.keyword("requires_grad");
  const bool is_known = requires_grad == Py_False && args.size() + args.keyword_count() == 2 &&
                        (region::is_exact_tensor(data) || reinterpret_cast<PyObject*>(Py_TYPE(data)) == f);
  return is_known && !t.region.numbers.policy.runs_as_captured() && !t.region.capture->bodies->is_open() &&
         !aten::is_below_transform();
}

// torch.nn.Parameter(data, requires_grad): of another class than these two torch asks for more.
Result parameter(Interpreter& t, PyObject* f, Args args) {
  PyObject* data = args.size() > 0 ? args[0] : args.keyword("data");
  if (data == nullptr || region::cat_of(data) != Cat::Tensor) return refuse(t, f, args);
  if (!aten::is_plain_tensor(data)) return refuse(t, f, args);
  if (makes_late_parameter(t, f, args, data)) return late_parameter(t, f, data);
  region::refuse_lost_leaf(t.region, "torch.nn.Parameter()");
  Result result = t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
  if (result.is_value()) t.region.recorder.note_leaf(result.value.get(), "torch.nn.Parameter()");
  return result;
}

// A list of many numbers is one step of the interpreter at a break, and would be a node for each in the graph, which is
// taken only where everything that depends on values is asked for. What is read behind the graph is read one by one.
bool is_long_list(const region::NumberPolicy& policy, PyObject* tensor) {
  const std::int64_t most = policy.late_items ? 16 : 64;
  if (!(policy.runs_as_captured() || policy.late_items) || policy.long_lists) return false;
  if (region::cat_of(tensor) != Cat::Tensor || region::is_subclassed(tensor)) return false;
  std::int64_t count = 1;
  for (const std::int64_t size : aten::meta_of(tensor).sizes) count *= size;
  return count > most;
}

// Lengths in tensors are read while it runs, for which torch's tracing has no numbers.
Result ctc_loss(Interpreter& t, PyObject* f, Args args) {
  constexpr std::size_t kInputLengths = 2;
  PyObject* const lengths = args.size() > kInputLengths ? args[kInputLengths] : args.keyword("input_lengths");
  const bool is_tensor = lengths != nullptr && region::cat_of(lengths) == Cat::Tensor;
  if (is_tensor && !t.region.numbers.policy.runs_as_captured())
    unsupported(Reason::DataDependent, {{"operation", describe(f) + " with lengths in tensors"}});
  return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
}

Result tolist(Interpreter& t, PyObject* f, Args args) {
  const region::NumberPolicy& policy = t.region.numbers.policy;
  const auto is_refused = [](PyObject* tensor) {  // by torch
    if (region::is_wrapper_subclass(tensor)) return true;
    return region::cat_of(tensor) == Cat::Tensor && aten::layout_kind(tensor) != aten::Layout::Strided;
  };
  if (args.size() > 0 && is_refused(args[0])) return refuse(t, f, args);
  const bool by_elements = !policy.scalar_outputs || region::goes_by_elements(t.region);
  if (by_elements && only_positional(args, 1, 1)) {
    if (const auto known = protocols::elements_if_known(t, args[0]))
      return Result::of(py::take(PyObject_CallMethod(known.get(), "tolist", nullptr)));
  }
  // How long the list is has to be known.
  if (only_positional(args, 1, 1) && aten::is_fake(args[0])) {
    const aten::OpenShape shape = t.region.recorder.fakes().open_shape(args[0]);
    for (const symbolic::Expr* size : shape.sizes) t.region.unbacked.refuse_if_named(size);
  }
  const bool gives_items = policy.scalar_outputs || (args.size() == 1 && t.region.late_items.may_read(args[0]));
  if (!gives_items || !only_positional(args, 1, 1) || is_long_list(policy, args[0]))
    unsupported(Reason::DataDependent, {{"operation", describe(f)}});
  return protocols::call_polyfill(t, "tolist_of", args.values);
}

// Whether a backend compiles, and these are ints of which some may be others at the next call.
bool are_open_ints(Interpreter& t, PyObject* data) {
  if (t.region.numbers.policy.graph_numbers != region::GraphNumbers::Ints) return false;
  if (region::is_open_int(data)) return true;
  if ((!PyList_CheckExact(data) && !PyTuple_CheckExact(data)) || !region::holds_open(data)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
    if (!PyLong_CheckExact(region::value_at_hand(PySequence_Fast_GET_ITEM(data, i)))) return false;
  }
  return true;
}

// torch.tensor() reads the values of its numbers when it is traced; scalar_tensor() takes open ones.
Result tensor(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const int64 = py::import_attr("torch", "int64").release();
  PyObject* dtype = args.keyword("dtype");
  PyObject* device = args.keyword("device");
  const std::size_t known = static_cast<std::size_t>(dtype != nullptr) + static_cast<std::size_t>(device != nullptr);
  const bool plain =
      args.size() == 1 && args.keyword_count() == known && (dtype == nullptr || dtype == Py_None || dtype == int64);
  if (!plain || !are_open_ints(t, args[0])) return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
  PyObject* values[] = {args[0], device == nullptr ? Py_None : device};
  return protocols::call_polyfill(t, "tensor_of_ints", values);
}

// tensor.new_tensor(data, *, dtype, device): torch finds the device by keys that a fake has not. Of other data, and for
// a leaf, the call is refused as it stands.
Result new_tensor(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const name = py::interned("new_tensor").release();
  static PyObject* const on_fakes = py::import_attr("pellucid._copying", "new_tensor_on_fakes").release();
  const std::size_t known =
      static_cast<std::size_t>(args.keyword("dtype") != nullptr) + (args.keyword("device") != nullptr);
  const bool is_known = args.size() == 2 && args.keyword_count() == known && region::cat_of(args[0]) == Cat::Tensor &&
                        !region::is_subclassed(args[0]);
  const bool of_numbers = is_known && (region::is_number(args[1]) || region::cat_of(args[1]) == Cat::Number ||
                                       PyList_CheckExact(args[1]) || PyTuple_CheckExact(args[1]));
  return t.region.recorder.torch_call(graph::Op::CallMethod, of_numbers ? on_fakes : f, name, args);
}

// torch._check and its like. What only the graph knows is checked by the graph; when that fails, the call runs eagerly
// and raises what the program asks for.
Result check(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 2 || !region::is_open(args[1])) return t.inline_function(f, args);
  t.region.doing = "checks";
  const symbolic::Expr* condition = t.region.numbers.expr_of(args[1]);
  if (condition->type != symbolic::Type::Bool) return t.inline_function(f, args);
  t.region.unbacked.assert_that(condition);
  return Result::none();
}

Result explicit_break(Interpreter&, PyObject*, Args args) {
  unsupported(Reason::ExplicitBreak, {{"message", args.size() > 0                  ? py::text_of(args[0])
                                                  : args.keyword("msg") != nullptr ? py::text_of(args.keyword("msg"))
                                                                                   : ""}});
}

// torch._dynamo.graph_break. What torch's own code asks of torch._dynamo (its optimizers do, so that AOTAutograd sees
// their grad mode) is about the graphs of that one.
Result explicit_break_of_torch(Interpreter& t, PyObject* f, Args args) {
  const region::Frame* caller = t.region.top;
  if (caller != nullptr && py::text_of(caller->code->co_filename).starts_with(region::torch_directory()))
    return Result::none();
  return explicit_break(t, f, args);
}

// pellucid.error_on_graph_break: open for what follows in this capture, and for the real steps and calls after it.
Result break_block(Interpreter& t, PyObject* f, Args args) {
  auto values = tuple_of(args.positional());
  auto keywords = py::take(PyDict_New());
  t.region.provenance.note_constant(f);
  t.region.deferred.add(f, values.get(), keywords.get());
  return pure(t, f, args);
}

}  // namespace

bool leave_contexts(Interpreter& t) {
  static PyObject* const enter = held_function("torch.amp.autocast_mode", "_enter_autocast");
  std::vector<graph::Node*> open;
  for (graph::Node* node : t.region.capture->graph.nodes()) {
    for (const auto& [object, entered] : t.region.recorder.contexts) {
      if (entered == node) open.push_back(node);
    }
  }
  for (const graph::Node* node : open) {
    if (node->target.get() != enter && !graph::begins_range(*node)) return false;
  }
  for (auto at = open.rbegin(); at != open.rend(); ++at)
    graph::begins_range(**at) ? end_range(t, *at) : record_exit(t, *at);
  return true;
}

namespace {

Result enter_dispatch_mode(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return refuse(t, f, args);
  unsupported(Reason::TorchDispatchMode,
              {{"mode", std::string("the torch dispatch mode ") + Py_TYPE(args[0])->tp_name}});
}

// In compiled code these would go on into operators with functions as arguments, which only a graph can call rightly: a
// derivative by what such a function closes over is missing otherwise.
Result higher_order(Interpreter&, PyObject* callable, Args) {
  unsupported(Reason::UntracedCallable, {{"callee", describe(callable)}});
}

// torch.ops makes an operator when it is first asked for, and keeps it: the same one at every call.
Result made_operator(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || !PyUnicode_Check(args[1])) return refuse(t, f, args);
  t.region.provenance.guard_identity(args[0]);
  auto made = py::Owned<>::steal(PyObject_GetAttr(args[0], args[1]));
  if (!made) return t.raise_pending(py::PythonError());
  t.region.provenance.note_constant(made.get());
  return Result::of(std::move(made));
}

const Row rows[] = {
    {"torch._ops.OpOverloadPacket.__getattr__", made_operator},
    {"torch._ops._OpNamespace.__getattr__", made_operator},
    {"torch._ops._Ops.__getattr__", made_operator},
    {"torch.ctc_loss", ctc_loss, true, true},
    {"torch.nn.functional.ctc_loss", ctc_loss, true, true},
    {"torch.tensor", tensor, true, true},
    {"torch.as_tensor", tensor, true, true},
    {"pellucid._module.is_compiling", is_compiling},  // torch.compiler's, also while install() has it replaced
    {"torch.compiler.is_dynamo_compiling", always_true},
    {"pellucid.is_dynamo_compiling", always_true},
    {"torch._utils.is_compiling", always_true},
    {"torch.compiler.is_exporting", is_exporting},
    {"pellucid.is_compiling", always_true},
    {"pellucid.graph_break", explicit_break},
    {"pellucid.skip_frame", explicit_break},
    {"pellucid._core.open_break_block", break_block},
    {"pellucid._core.close_break_block", break_block},
    {"torch._C._get_tracing_state", query},
    {"torch._C._is_tracing", query},
    {"torch.is_grad_enabled", query},
    {"torch.is_inference_mode_enabled", query},
    {"torch.get_default_dtype", query},
    {"torch._C._get_default_device", query},
    {"torch.is_autocast_enabled", query},
    {"torch.is_autocast_cpu_enabled", query},
    {"torch.get_autocast_dtype", autocast_dtype},
    {"torch.get_autocast_gpu_dtype", query},
    {"torch.get_autocast_cpu_dtype", query},
    {"torch.is_autocast_cache_enabled", query},
    {"torch._C._is_autocast_available", query},
    {"torch.is_anomaly_enabled", query},
    {"torch._C._is_torch_function_enabled", query},
    {"torch._C._is_torch_function_all_disabled", query},
    {"torch._C._len_torch_dispatch_stack", query},
    {"torch._C._get_deterministic_algorithms", query},
    {"torch._C._get_flash_sdp_enabled", query},
    {"torch._C._get_mem_efficient_sdp_enabled", query},
    {"torch._C._get_math_sdp_enabled", query},
    {"torch._C._has_storage", refuse},
    {"torch._C._cuda_getDeviceCount", query, false},
    {"torch._C._log_api_usage_once", nothing},
    {"torch._C._cuda_isCurrentStreamCapturing", query},
    {"torch._C._get_privateuse1_backend_name", query},
    {"torch._C._get_accelerator", query},
    {"torch._C._is_alias_of", refuse},
    {"torch.cuda.is_available", query},
    {"torch._C._accelerator_getAccelerator", query},
    {"torch.accelerator.is_available", query},
    {"torch._C._get_cudnn_enabled", query},
    {"torch._C._get_mkldnn_enabled", query, false},
    {"torch._C._set_grad_enabled", or_asks_a_mode<state_switch>},
    {"torch.utils._python_dispatch.TorchDispatchMode.__enter__", enter_dispatch_mode},
    {"torch.set_autocast_enabled", refuse},
    {"torch.set_autocast_dtype", refuse},
    {"torch.set_autocast_cache_enabled", refuse},
    {"torch.autocast_increment_nesting", refuse},
    {"torch.autocast_decrement_nesting", refuse},
    {"torch.clear_autocast_cache", refuse},
    {"torch.autograd.function.Function.apply", autograd_function, true, true},
    {"torch._functorch.autograd_function.custom_function_call", autograd_function},
    {"torch._C._are_functorch_transforms_active", query},
    {"torch.amp.autocast_mode.autocast.__enter__", autocast_enter},
    {"torch.amp.autocast_mode.autocast.__exit__", autocast_exit},
    {"torch.autograd.grad_mode.inference_mode.__enter__", inference_enter},
    {"torch.autograd.grad_mode.inference_mode.__exit__", inference_exit},
    {"torch.device", or_asks_a_mode<pure>},
    {"torch.finfo", pure},
    {"torch.iinfo", pure},
    {"torch.Size", size},
    {"torch.dtype", refuse},
    {"torch.Generator", refuse},
    {"torch.Size.numel", product},
    {"math.prod", product},
    {"torch._C.TensorBase.tolist", tolist},
    {"torch._C.TensorBase.new_tensor", new_tensor, true, true},
    {"torch._check_with", check, true, true},
    // Effects on tensors that a graph does not carry, or that need data.
    {"torch._C.TensorBase.requires_grad_", requires_grad_},
    {"torch.nn.parameter.Parameter", parameter},
    {"torch._C.TensorBase.detach_", refuse},
    {"torch._C.TensorBase.set_", refuse},
    {"torch._C.TensorBase.resize_", refuse},
    {"torch._C.TensorBase.resize_as_", refuse},
    {"torch.Tensor.resize", refuse},
    {"torch.Tensor.share_memory_", refuse},
    {"torch.Tensor.storage", refuse},
    {"torch.Tensor.untyped_storage", refuse},
    {"torch.Tensor.__reduce_ex__", refuse},
    {"torch._C.TensorBase.data_ptr", refuse},
    {"torch._C.TensorBase.apply_", refuse},
    {"torch._C.TensorBase.map_", refuse},
    {"torch.Tensor.__repr__", refuse},
    {"torch.Tensor.__format__", refuse},
    {"torch.Tensor.__array__", refuse},
    {"torch.frombuffer", refuse},
    {"torch.from_file", refuse},
    {"torch.manual_seed", refuse},
    {"torch.seed", refuse},
    {"torch.set_rng_state", refuse},
    {"torch.get_rng_state", refuse},
    {"torch.set_default_dtype", set_default_dtype},
    {"torch.set_default_device", refuse},
    {"torch.use_deterministic_algorithms", refuse},
    {"torch.set_num_threads", refuse},
    {"torch.save", refuse},
    {"torch.load", refuse},
    {"torch._higher_order_ops.strict_mode.strict_mode", higher_order},
    {"torch._higher_order_ops.utils._maybe_compile_and_run_fn", higher_order},
};

// What traces the functions that it calls into a graph of its own. It is to see their operators as eager makes them,
// and what could be captured of a tracer would serve one call.
Result makes_own_graph(Interpreter& t, PyObject* callable, Args args) { return runs_as_it_is(t, callable, args); }

// Once torch._dynamo has run in the process, nn.Module.__init__ tells its tracker of each new module; a module that the
// region makes is none of its business.
const NamedRow named_rows[] = {
    {"torch", "compile", refuse},  // by its name: install() puts another function in its place
    {"torch._dynamo.decorators", "graph_break", explicit_break_of_torch},
    {"torch._dynamo.decorators", "skip_frame", explicit_break},  // these ask for more than a break, and need no more:
    {"torch._dynamo.decorators", "step_unsupported", explicit_break},  // the program's results are the same
    {"torch._dynamo.comptime", "_Comptime.__call__", run_comptime},
    {"torch._dynamo.mutation_guard", "GenerationTracker.tag", nothing},
    {"torch.nn.attention.flex_attention", "flex_attention", flex_attention},
    {"torch.fx._symbolic_trace", "symbolic_trace", makes_own_graph},
    {"torch.fx._symbolic_trace", "Tracer.trace", makes_own_graph},
    {"torch.fx.experimental.proxy_tensor", "_MakefxTracer.trace", makes_own_graph},
    {"torch.jit._trace", "trace", makes_own_graph},
    {"torch.jit._trace", "trace_module", makes_own_graph},
    {"torch.export", "export", makes_own_graph},
    {"torch.export.exported_program", "ExportedProgram.module", makes_own_graph},
    {"torch.optim.lbfgs", "LBFGS.step", runs_as_it_is},
    {"torch.optim.sparse_adam", "SparseAdam.step", runs_as_it_is},
    {"torch.distributed.tensor._api", "DTensor.from_local", distributed_tensor},
    {"torch.distributed.tensor._api", "DTensor.to_local", distributed_tensor},
    {"torch.distributed.tensor._api", "DTensor.redistribute", distributed_tensor},
    {"torch.distributed.tensor._api", "DTensor.full_tensor", distributed_tensor},
    {"torch.distributed.tensor._api", "DTensor.device_mesh", distributed_property},
    {"torch.distributed.tensor._api", "DTensor.placements", distributed_property},
    {"torch.fx.experimental.symbolic_shapes", "has_free_unbacked_symbols", has_free_unbacked_symbols},
};

}  // namespace

bool is_tracer(PyObject* function) { return protocols::find(function) == makes_own_graph; }

const std::span<const Row> kTorchRows = rows;
const std::span<const NamedRow> kNamedTorchRows = named_rows;

}  // namespace pellucid::rows
