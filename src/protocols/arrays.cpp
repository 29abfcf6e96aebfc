#include "protocols/arrays.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "protocols/open_arrays.h"
#include "protocols/policies.h"
#include "protocols/protocols.h"
#include "protocols/table.h"
#include "py/cpython.h"
#include "region/arrays.h"

namespace pellucid::protocols {
namespace {

// What `answer` says beside the value, as python/pellucid/_numpy.py has it.
enum Flags : unsigned { kConstant = 1, kWrites = 2, kWritesOutside = 4, kMayRaise = 8 };

std::string name_of(PyObject* callable) {
  if (PyUnicode_Check(callable)) return py::text_of(callable) + "()";
  auto name = py::Owned<>::steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name) PyErr_Clear();
  return (name ? py::text_of(name.get()) : py::repr_of(callable)) + "()";
}

// An argument in two forms: as the node names it, and as the oracle gets it.
struct Argument {
  py::Owned<> given, at_hand;
};

class Arguments {
 public:
  // `fixes`: numbers and sizes that change are constants of the region from now on.
  Arguments(Interpreter& t, PyObject* callable, Args args, bool fixes)
      : positional(py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size())))),
        keywords(py::take(PyDict_New())),
        t_(t),
        callable_(callable),
        fixes_(fixes) {
    for (std::size_t i = 0; i < args.values.size(); ++i) {
      Argument argument = of(args.values[i]);
      if (PyObject* keyword = args.keyword_of(i)) {
        py::check(PyDict_SetItem(keywords.get(), keyword, argument.at_hand.get()));
      } else {
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), argument.at_hand.release());
      }
      values_.push_back(argument.given.get());
      held_.push_back(std::move(argument.given));
    }
    given = Args{values_, args.kwnames};
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  py::Owned<> positional, keywords;  // as the oracle gets them
  Args given;                        // as the node names them
  bool has_open = false;             // a number that changes

 private:
  static constexpr int kDeepest = 20;

  Argument of(PyObject* value, int depth = 0) {
    if (region::is_number(value)) {
      if (!fixes_ && region::enters_graph(t_.region.numbers.policy, value)) {
        has_open = true;
        return {py::Owned<>::share(value), py::Owned<>::share(region::value_at_hand(value))};
      }
      value = t_.region.numbers.plain(value);
      return {py::Owned<>::share(value), py::Owned<>::share(value)};
    }
    value = t_.region.shadows.original(value);
    if (depth > kDeepest) refuse(value);
    switch (cat_of(value)) {
      case Cat::Array:
        if (fixes_) fix_sizes(t_, value, name_of(callable_));
        return {py::Owned<>::share(value), py::Owned<>::share(value)};
      case Cat::List:
      case Cat::Tuple:
        return of_sequence(value, depth);
      case Cat::Slice:
        return of_slice(value, depth);
      case Cat::Singleton:
      case Cat::Number:
      case Cat::Text:
      case Cat::Range:
      case Cat::Type:
        break;
      case Cat::Other:
        if (region::is_numpy_scalar(value)) break;
        if (!region::is_numpy_dtype(value)) refuse(value);
        t_.region.provenance.guard_identity(value);
        break;
      default:
        refuse(value);
    }
    return {py::Owned<>::share(value), py::Owned<>::share(value)};
  }

  [[noreturn]] void refuse(PyObject* value) {
    unsupported(Reason::ArrayInGraph, {{"operation", name_of(callable_)},
                                       {"why", std::string("an argument is a ") + Py_TYPE(value)->tp_name}});
  }

  Argument of_sequence(PyObject* value, int depth) {
    const bool is_list = PyList_CheckExact(value);
    static PyObject* const size_type = py::import_attr("torch", "Size").release();
    if (!is_list && !PyTuple_CheckExact(value) && reinterpret_cast<PyObject*>(Py_TYPE(value)) != size_type)
      refuse(value);
    auto items = native_elements(t_, value);
    if (!items) refuse(value);
    const Py_ssize_t size = PyTuple_GET_SIZE(items.get());
    Argument made{py::take(PyTuple_New(size)), py::take(PyTuple_New(size))};
    for (Py_ssize_t i = 0; i < size; ++i) {
      Argument item = of(PyTuple_GET_ITEM(items.get(), i), depth + 1);
      PyTuple_SET_ITEM(made.given.get(), i, item.given.release());
      PyTuple_SET_ITEM(made.at_hand.get(), i, item.at_hand.release());
    }
    if (!is_list) return made;
    return {py::take(PySequence_List(made.given.get())), py::take(PySequence_List(made.at_hand.get()))};
  }

  Argument of_slice(PyObject* value, int depth) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    const Argument start = of(slice->start, depth + 1), stop = of(slice->stop, depth + 1),
                   step = of(slice->step, depth + 1);
    return {py::take(PySlice_New(start.given.get(), stop.given.get(), step.given.get())),
            py::take(PySlice_New(start.at_hand.get(), stop.at_hand.get(), step.at_hand.get()))};
  }

  Interpreter& t_;
  PyObject* callable_;
  bool fixes_;
  std::vector<PyObject*> values_;
  std::vector<py::Owned<>> held_;
};

[[noreturn]] void refuse_answer(PyObject* callable, const py::PythonError& error) {
  auto text = py::Owned<>::steal(PyObject_Str(error.value()));
  if (!text) PyErr_Clear();
  const std::string said = text ? shortened(py::text_of(text.get()), 300) : std::string();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(error.value()));
  if (type == region::of_numpy_module("NeedsData"))
    unsupported(Reason::ArrayData, {{"operation", said + " (" + name_of(callable) + ")"}});
  if (type == region::of_numpy_module("Unsupported"))
    unsupported(Reason::ArrayInGraph, {{"operation", name_of(callable)}, {"why", said}});
  unsupported(Reason::OpFailed, {{"operation", name_of(callable)},
                                 {"error", std::string(Py_TYPE(error.value())->tp_name) + ": " + said}});
}

void record_before_first_write(Interpreter& t) {
  if (t.region.recorder.arrays.is_written) return;
  t.region.recorder.record(graph::Op::CallFunction, region::of_numpy_module("check_errors"), Args{}, Py_None, true);
  t.region.recorder.arrays.is_written = true;
}

bool is_new_array(Interpreter& t, PyObject* value) {
  return cat_of(value) == Cat::Array && t.region.recorder.node_of(value) == nullptr && region::is_stand_in(value);
}

// The containers of a constant are the region's own.
void note_containers(Interpreter& t, PyObject* value) {
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    note_containers(t, PySequence_Fast_GET_ITEM(value, i));
  t.region.provenance.note_made(value);
}

// Each array of a container that numpy gives, as a part of it.
void give_parts(Interpreter& t, PyObject* container, graph::Node* node) {
  static PyObject* const getitem = py::import_attr("operator", "getitem").release();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(container, i);
    if (!is_new_array(t, item)) {
      if (cat_of(item) == Cat::List || cat_of(item) == Cat::Tuple)
        unsupported(Reason::ArrayInGraph, {{"operation", "a call"}, {"why", "it gives containers of containers"}});
      continue;
    }
    std::vector<graph::Arg> args;
    args.push_back(graph::Arg::of(node));
    args.push_back(graph::Arg::of(py::take(PyLong_FromSsize_t(i))));
    graph::Node* part = t.region.capture->graph.call(graph::Op::CallFunction, py::Owned<>::share(getitem),
                                                     std::move(args), {}, py::Owned<>::share(item));
    part->where = node->where;
    t.region.recorder.give(item, part);
  }
}

// The fake tensor that stands for an array.
py::Owned<> tensor_for(Interpreter& t, PyObject* array) {
  const region::NotesArrays noted(t.region.recorder.arrays);
  (void)t.region.recorder.to_arg(array);  // the input, if it is one
  const auto& tensors = t.region.recorder.arrays.tensors;
  const auto found = tensors.find(array);
  if (found == tensors.end()) unsupported(Reason::UnknownOrigin, {{"detail", "an array"}});
  return found->second.copy();
}

// What a tree of calls of torch gives (pellucid._numpy_torch.Call), each of them a node.
py::Owned<> evaluated(Interpreter& t, PyObject* value) {
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    auto items = py::take(PySequence_List(value));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      PyList_SetItem(items.get(), i, evaluated(t, PyList_GET_ITEM(items.get(), i)).release());
    if (PyTuple_CheckExact(value)) items = py::take(PyList_AsTuple(items.get()));
    t.region.provenance.note_made(items.get());
    return items;
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return py::take(PySlice_New(evaluated(t, slice->start).get(), evaluated(t, slice->stop).get(),
                                evaluated(t, slice->step).get()));
  }
  static PyObject* const call_type = py::import_attr("pellucid._numpy_torch", "Call").release();
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != call_type) return numbers_of_torch(t, value);
  const auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(value, name)); };
  const auto function = part("function"), positional = part("args"), keywords = part("kwargs");
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> values;
  const auto add = [&](PyObject* argument) {
    held.push_back(evaluated(t, argument));
    values.push_back(held.back().get());
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional.get()); ++i) add(PyTuple_GET_ITEM(positional.get(), i));
  auto names = py::take(PyDict_Keys(keywords.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    add(PyDict_GetItem(keywords.get(), PyList_GET_ITEM(names.get(), i)));
  const auto kwnames = PyList_GET_SIZE(names.get()) == 0 ? py::Owned<>() : py::take(PyList_AsTuple(names.get()));
  const bool is_method = Py_IS_TYPE(function.get(), &PyMethodDescr_Type);
  PyObject* target = is_method ? PyDescr_NAME(function.get()) : function.get();
  Result result = t.region.recorder.torch_call(is_method ? graph::Op::CallMethod : graph::Op::CallFunction,
                                               function.get(), target, Args{values, kwnames.get()});
  if (!result.is_value()) unsupported(Reason::ArrayInGraph, {{"operation", "a call"}, {"why", "it gives no value"}});
  t.region.provenance.keep(result.value.get());
  return std::move(result.value);
}

// The calls of torch that stand for a call of numpy; where there are none, an operator that calls numpy.
py::Owned<> calls_of_torch(Interpreter& t, PyObject* callable, Args given, PyObject* value, const CallOnFakes& on_fakes,
                           bool open) {
  static PyObject* const translated = py::import_attr("pellucid._numpy_torch", "translated").release();
  static PyObject* const called = py::import_attr("pellucid._numpy_operator", "called").release();
  PyObject *const positional = on_fakes.positional.get(), *const keywords = on_fakes.keywords.get();
  try {
    return py::take(PyObject_CallFunctionObjArgs(translated, callable, positional, keywords, value, nullptr));
  } catch (const py::PythonError& error) {
    const bool has_none = reinterpret_cast<PyObject*>(Py_TYPE(error.value())) == region::of_numpy_module("Unsupported");
    if (!has_none || t.region.numbers.policy.exports) throw;
    const auto sizes = open ? sizes_of_call(t, callable, given, value) : py::Owned<>::share(Py_None);
    auto call = sizes ? py::Owned<>::steal(PyObject_CallFunctionObjArgs(called, callable, positional, keywords, value,
                                                                        sizes.get(), nullptr))
                      : py::Owned<>();
    if (call) return call;
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(region::of_numpy_module("Unsupported")) == 0)
      throw py::PythonError();
    PyErr_Clear();
    throw;
  }
}

// For backends that compile: torch's functions stand for numpy's, and give what numpy has said.
// `open`: it has to be understood for other sizes than those at hand. `is_translated`: there are such functions.
Result call_as_torch(Interpreter& t, PyObject* callable, Args given, py::Owned<> value, unsigned flags, bool open,
                     bool* is_translated) {
  const auto refuse = [&](const char* why) {
    unsupported(Reason::ArrayInGraph, {{"operation", name_of(callable)}, {"why", why}});
  };
  if ((flags & kWrites) != 0) refuse("it writes, and the backend compiles it for torch");
  if (cat_of(value.get()) == Cat::Array && !is_new_array(t, value.get())) return Result::of(std::move(value));
  const bool gives_several = PyTuple_Check(value.get()) || PyList_Check(value.get());
  if (!gives_several && !is_new_array(t, value.get())) refuse("it gives no array");
  const CallOnFakes on_fakes = with_fakes(t, given, [&](PyObject* array) { return tensor_for(t, array); });
  static PyObject* const agrees = py::import_attr("pellucid._numpy_torch", "agrees").release();
  py::Owned<> result;
  try {
    (void)py::take(PyObject_CallNoArgs(region::of_numpy_module("check_errors")));
    const auto calls = calls_of_torch(t, callable, given, value.get(), on_fakes, open);
    *is_translated = true;
    result = evaluated(t, calls.get());
    const auto tensor = at_hand(t, result.get()), values = at_hand(t, on_fakes.positional.get()),
               named = at_hand(t, on_fakes.keywords.get());
    (void)py::take(
        PyObject_CallFunctionObjArgs(agrees, value.get(), tensor.get(), callable, values.get(), named.get(), nullptr));
  } catch (const py::PythonError& error) {
    refuse_answer(callable, error);
  }
  const auto give = [&](PyObject* array, PyObject* tensor) {
    if (!is_new_array(t, array)) {
      if (cat_of(array) == Cat::Array) return;  // an argument
      refuse("it gives what is no array");
    }
    graph::Node* node = t.region.recorder.node_of(tensor);
    if (node == nullptr) refuse("torch computes nothing");
    t.region.recorder.give(array, node);
    t.region.recorder.arrays.tensors[array] = py::Owned<>::share(tensor);
  };
  if (gives_several) {
    const auto tensors = native_elements(t, result.get());
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value.get()); ++i)
      give(PySequence_Fast_GET_ITEM(value.get(), i), PyTuple_GET_ITEM(tensors.get(), i));
  } else {
    give(value.get(), result.get());
  }
  t.region.capture->computes_arrays = true;
  return Result::of(std::move(value));
}

// What numpy's function comes to for these arguments (pellucid._numpy_steps); null: the call itself.
std::shared_ptr<const graph::Steps> steps_of(PyObject* callable, PyObject* positional, PyObject* keywords,
                                             bool has_open, PyObject* open_sizes) {
  static PyObject* const steps_of_call = py::import_attr("pellucid._numpy_steps", "steps_of").release();
  static PyObject* const argument_type = py::import_attr("pellucid._numpy_steps", "Argument").release();
  static PyObject* const result_type = py::import_attr("pellucid._numpy_steps", "Result").release();
  const auto found = py::take(PyObject_CallFunctionObjArgs(steps_of_call, callable, positional, keywords,
                                                           has_open ? Py_True : Py_False, open_sizes, nullptr));
  if (found.get() == Py_None) return nullptr;
  using Kind = graph::Steps::Value::Kind;
  const auto value_of = [&](PyObject* value) {
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(value));
    const bool is_argument = type == argument_type;
    if (!is_argument && type != result_type) return graph::Steps::Value{Kind::Constant, 0, py::Owned<>::share(value)};
    return graph::Steps::Value{is_argument ? Kind::Argument : Kind::Result, PyLong_AsSize_t(value), {}};
  };
  auto steps = std::make_shared<graph::Steps>();
  PyObject* const calls = PyTuple_GET_ITEM(found.get(), 0);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); ++i) {
    PyObject* const given = PyTuple_GET_ITEM(calls, i);
    graph::Steps::Call& call = steps->calls.emplace_back();
    call.callable = py::Owned<>::share(PyTuple_GET_ITEM(given, 0));
    PyObject* const args = PyTuple_GET_ITEM(given, 1);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); ++k) call.args.push_back(value_of(PyTuple_GET_ITEM(args, k)));
    PyObject* const names = PyTuple_GET_ITEM(given, 2);
    if (PyTuple_GET_SIZE(names) > 0) call.kwnames = py::Owned<>::share(names);
  }
  steps->gives = PyLong_AsSize_t(PyTuple_GET_ITEM(found.get(), 1));
  return steps;
}

// A call of numpy. `open`: it has to be understood for other sizes than those at hand; nothing where it is not.
std::optional<Result> call_of(Interpreter& t, graph::Op op, PyObject* callable, const Arguments& arguments,
                              bool writes_first, bool open) {
  py::Owned<> answer;
  try {
    const region::NumberPolicy& policy = t.region.numbers.policy;
    const bool takes_unknown = policy.runs_as_captured() ? policy.scalar_outputs : policy.dynamic_output_shapes;
    answer = py::take(PyObject_CallFunctionObjArgs(
        region::of_numpy_module("answer"), callable, arguments.positional.get(), arguments.keywords.get(),
        writes_first ? Py_True : Py_False, takes_unknown ? Py_True : Py_False, arguments.has_open ? Py_True : Py_False,
        nullptr));
  } catch (const py::PythonError& error) {
    refuse_answer(callable, error);
  }
  auto value = py::Owned<>::share(PyTuple_GET_ITEM(answer.get(), 0));
  const auto flags = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(answer.get(), 1)));
  const Args as_given = arguments.given;
  if ((flags & kConstant) != 0) {
    if (open) {
      value = sizes_of_call(t, callable, as_given, value.get());
      if (!value) return std::nullopt;
    } else if (arguments.has_open) {
      unsupported(Reason::ArrayInGraph, {{"operation", name_of(callable)}, {"why", "a number changes"}});
    }
    note_containers(t, value.get());
    return Result::of(std::move(value));
  }
  if (!t.region.numbers.policy.runs_as_captured()) {
    bool is_translated = false;
    try {
      return call_as_torch(t, callable, as_given, std::move(value), flags, open, &is_translated);
    } catch (const GraphBreak&) {
      // For the sizes or the numbers at hand it may be understood.
      if (!arguments.has_open && !(open && is_translated)) throw;
      return std::nullopt;
    }
  }
  py::Owned<> sizes;
  if (open) {
    sizes = sizes_of_call(t, callable, as_given, value.get());
    if (!sizes) return std::nullopt;
  }
  const bool may_raise = (flags & kMayRaise) != 0 || arguments.has_open;
  (void)aten::take_facts();
  if ((flags & kWritesOutside) != 0) record_before_first_write(t);
  const region::NotesArrays noted(t.region.recorder.arrays);
  graph::Node* node = t.region.recorder.record(op, callable, as_given, value.get(), (flags & kWrites) != 0, may_raise);
  node->steps = steps_of(callable, arguments.positional.get(), arguments.keywords.get(), arguments.has_open,
                         open_dims(t, as_given).get());
  if (is_new_array(t, value.get())) {
    t.region.recorder.give(value.get(), node);
    if (sizes) note_sizes(t, value.get(), sizes.get());
  } else if (cat_of(value.get()) == Cat::Tuple || cat_of(value.get()) == Cat::List) {
    give_parts(t, value.get(), node);
    for (Py_ssize_t i = 0; sizes && i < PySequence_Fast_GET_SIZE(value.get()); ++i)
      note_sizes(t, PySequence_Fast_GET_ITEM(value.get(), i), PySequence_Fast_GET_ITEM(sizes.get(), i));
  }
  return Result::of(std::move(value));
}

}  // namespace

Result array_call(Interpreter& t, graph::Op op, PyObject* callable, Args args, bool writes_first) {
  t.region.doing = "calls numpy";
  // What is computed of numbers alone is known for the values at hand.
  if (std::ranges::none_of(args.values, holds_array) && !makes_sizes(callable)) {
    for (PyObject* value : args.values) (void)t.region.numbers.plain(value);
  }
  {
    const Arguments arguments(t, callable, args, false);
    const bool open = depends_on_sizes(t, callable, arguments.given);
    if (auto result = call_of(t, op, callable, arguments, writes_first, open)) return std::move(*result);
  }
  const Arguments arguments(t, callable, args, true);
  auto result = call_of(t, op, callable, arguments, writes_first, false);
  if (!result) unsupported(Reason::ArrayInGraph, {{"operation", name_of(callable)}, {"why", "a number changes"}});
  return std::move(*result);
}

Result array_getattr(Interpreter& t, PyObject* array, PyObject* name) {
  const auto presented = region::of_presented_type(array);
  PyTypeObject* type = Py_TYPE(presented.get());
  if (name == region::names().__class__) {
    t.region.provenance.note_constant(reinterpret_cast<PyObject*>(type));
    return Result::of(py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
  }
  const auto is_among = [&](const char* set) { return PySet_Contains(region::of_numpy_module(set), name) == 1; };
  if (is_among("ATTRIBUTES")) {
    if (has_open_size(t, array)) {
      if (auto known = open_attribute(t, array, py::text_of(name))) return Result::of(std::move(known));
    }
    try {
      return Result::of(
          py::take(PyObject_CallFunctionObjArgs(region::of_numpy_module("attribute"), array, name, nullptr)));
    } catch (const py::PythonError& error) {
      refuse_answer(name, error);
    }
  }
  if (is_among("VIEW_ATTRIBUTES")) {
    static PyObject* const getattr = py::import_attr("builtins", "getattr").release();
    PyObject* args[] = {array, name};
    return array_call(t, graph::Op::CallFunction, getattr, Args{args, nullptr});
  }
  // A method of a scalar cannot be bound to what stands for it.
  PyObject* method = py::type_lookup(type, name);
  const bool is_method = method != nullptr && Py_IS_TYPE(method, &PyMethodDescr_Type) && find(method) != nullptr;
  if (is_method && !region::is_scalar_stand_in(array))
    return Result::of(py::take(Py_TYPE(method)->tp_descr_get(method, array, reinterpret_cast<PyObject*>(type))));
  unsupported(Reason::ArrayData, {{"operation", "attribute '" + py::text_of(name) + "' of an array"}});
}

Result array_method(Interpreter& t, PyObject* array, PyObject* name, bool* unbound) {
  // Where the call breaks the method is called with what `array` stands for.
  const auto presented = region::of_presented_type(array);
  PyObject* method = py::type_lookup(Py_TYPE(presented.get()), name);
  if (method == nullptr || !Py_IS_TYPE(method, &PyMethodDescr_Type) || find(method) == nullptr)
    return array_getattr(t, array, name);
  *unbound = true;
  return Result::of(py::Owned<>::share(method));
}

namespace {

// The first size, which may be a number that changes.
py::Owned<> first_size(Interpreter& t, PyObject* array) {
  static PyObject* const shape = py::interned("shape").release();
  const Result sizes = array_getattr(t, array, shape);
  if (PyTuple_GET_SIZE(sizes.value.get()) == 0)
    unsupported(Reason::ArrayData, {{"operation", "len() of an array without dimensions"}});
  return py::Owned<>::share(PyTuple_GET_ITEM(sizes.value.get(), 0));
}

PyObject* operator_named(const char* name) {
  auto function = py::import_attr("operator", name);
  return function.get();  // its module keeps it
}

}  // namespace

Result array_length(Interpreter& t, PyObject* array) { return Result::of(first_size(t, array)); }

Result array_iterator(Interpreter& t, PyObject* array) {
  constexpr std::int64_t kMost = 1000;
  const std::int64_t size = PyLong_AsLongLong(t.region.numbers.plain(first_size(t, array).get()));
  if (size > kMost)
    unsupported(Reason::ArrayInGraph, {{"operation", "a loop over an array"}, {"why", "it has too many elements"}});
  auto items = py::take(PyTuple_New(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const auto index = py::take(PyLong_FromLongLong(i));
    PyTuple_SET_ITEM(items.get(), i, array_item(t, array, index.get()).value.release());
  }
  return Result::of(py::take(PyObject_GetIter(items.get())));
}

Result array_item(Interpreter& t, PyObject* array, PyObject* key) {
  PyObject* args[] = {array, key};
  return array_call(t, graph::Op::CallFunction, operator_named("getitem"), Args{args, nullptr});
}

Result set_array_item(Interpreter& t, PyObject* array, PyObject* key, PyObject* value) {
  if (value == nullptr) unsupported(Reason::ArrayData, {{"operation", "deleting elements"}});
  PyObject* args[] = {array, key, value};
  array_call(t, graph::Op::CallFunction, operator_named("setitem"), Args{args, nullptr}, true);
  return Result::done();
}

namespace {

bool is_plain(PyObject* value) {
  const Cat cat = cat_of(value);
  return cat == Cat::Singleton || cat == Cat::Number || region::is_numpy_scalar(value);
}

Result fold(Interpreter& t, PyObject* function, std::initializer_list<PyObject*> operands) {
  std::vector<PyObject*> values{function};
  for (PyObject* operand : operands) values.push_back(t.region.numbers.plain(operand));
  try {
    return Result::of(
        py::take(PyObject_Vectorcall(region::of_numpy_module("fold"), values.data(), values.size(), nullptr)));
  } catch (const py::PythonError& error) {
    refuse_answer(function, error);
  }
}

// A scalar of numpy beside a tensor is the number that it holds: torch takes it for that. Of a complex one that is no
// Python complex it takes the real part, and numpy warns.
py::Owned<> as_number(PyObject* value, PyObject* function) {
  if (!region::is_numpy_scalar(value)) return py::Owned<>::share(value);
  if (region::numpy_kind(value) == 'c' && PyComplex_Check(value) == 0)
    unsupported(Reason::ArrayInGraph,
                {{"operation", name_of(function)},
                 {"why", std::string("torch takes the real part of a ") + Py_TYPE(value)->tp_name}});
  return py::take(PyObject_CallMethod(value, "item", nullptr));
}

// A scalar that the graph computes is the number that it holds there, too; nothing where no number is asked for.
std::optional<Result> beside_tensor(Interpreter& t, PyObject* scalar) {
  if (!region::is_scalar_stand_in(scalar) || !t.region.numbers.policy.runs_as_captured()) return std::nullopt;
  const auto dtype = py::take(PyObject_GetAttrString(scalar, "dtype"));
  const std::string kind = py::text_of(py::take(PyObject_GetAttrString(dtype.get(), "kind")).get());
  if (kind != "f" && kind != "i" && kind != "u") return std::nullopt;
  return array_number(t, reinterpret_cast<PyObject*>(kind == "f" ? &PyFloat_Type : &PyLong_Type), scalar);
}

std::optional<Result> operation(Interpreter& t, PyObject* left, PyObject* right, const char* name, bool in_place) {
  const Cat a = cat_of(left), b = cat_of(right);
  const bool is_of_arrays = a == Cat::Array || b == Cat::Array;
  const bool is_of_scalars = !is_of_arrays && (region::is_numpy_scalar(left) || region::is_numpy_scalar(right));
  if (!is_of_arrays && !is_of_scalars) return std::nullopt;
  PyObject* function = operator_named(name);
  if (is_of_scalars) {
    PyObject* args[] = {left, right};
    if (a == Cat::Tensor || b == Cat::Tensor) {
      const auto x = as_number(left, function), y = as_number(right, function);
      args[0] = x.get(), args[1] = y.get();
      return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
    }
    if (is_plain(t.region.numbers.plain(left)) && is_plain(t.region.numbers.plain(right)))
      return fold(t, function, {left, right});
    return std::nullopt;
  }
  if (a == Cat::Tensor || b == Cat::Tensor) {
    if (const auto number = beside_tensor(t, a == Cat::Tensor ? right : left)) {
      t.region.provenance.keep(number->value.get());
      PyObject* args[] = {left, right};
      args[a == Cat::Tensor ? 1 : 0] = number->value.get();
      return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
    }
  }
  const bool is_container = a == Cat::List || a == Cat::Dict || a == Cat::Set || a == Cat::Deque;
  if (is_container && in_place)
    unsupported(Reason::ArrayInGraph, {{"operation", name_of(function)}, {"why", "it changes a container"}});
  PyObject* args[] = {left, right};
  const bool writes = in_place && a == Cat::Array && !region::is_scalar_stand_in(left);
  return array_call(t, graph::Op::CallFunction, function, Args{args, nullptr}, writes);
}

}  // namespace

std::optional<Result> numpy_binary(Interpreter& t, PyObject* left, PyObject* right, const py::BinaryOperator& op) {
  return operation(t, left, right, op.function, op.inplace != nullptr);
}

namespace {

// Whether a dtype is that of a name, of a class of numbers or of another dtype.
std::optional<Result> compare_dtypes(Interpreter& t, PyObject* left, PyObject* right, int op) {
  for (PyObject* value : {left, right}) {
    if (region::is_numpy_dtype(value)) {
      t.region.provenance.guard_identity(value);
    } else if (const Cat cat = cat_of(value); cat != Cat::Type && cat != Cat::Text && cat != Cat::Singleton) {
      return std::nullopt;
    }
  }
  auto value = py::Owned<>::steal(PyObject_RichCompare(left, right, op));
  return value ? Result::of(std::move(value)) : t.raise_pending(py::PythonError());
}

}  // namespace

std::optional<Result> numpy_compare(Interpreter& t, PyObject* left, PyObject* right, int op) {
  if (region::is_numpy_dtype(left) || region::is_numpy_dtype(right)) return compare_dtypes(t, left, right, op);
  return operation(t, left, right, py::comparison(op).function, false);
}

Result numpy_unary(Interpreter& t, PyObject* value, PyObject* function) {
  if (cat_of(value) != Cat::Array) return fold(t, function, {value});
  return array_call(t, graph::Op::CallFunction, function, Args{{&value, 1}, nullptr});
}

namespace {

// What is said of the data of an array that is known.
Result of_data(Interpreter& t, PyObject* function, std::initializer_list<PyObject*> args) {
  return array_call(t, graph::Op::CallFunction, function, Args{{args.begin(), args.size()}, nullptr});
}

}  // namespace

Result array_truth(Interpreter& t, PyObject* array) {
  return of_data(t, reinterpret_cast<PyObject*>(&PyBool_Type), {array});
}

Result array_contains(Interpreter& t, PyObject* array, PyObject* item) {
  return of_data(t, operator_named("contains"), {array, item});
}

Result array_number(Interpreter& t, PyObject* type, PyObject* array) {
  using symbolic::Value;
  const auto refuse = [&] { unsupported(Reason::ArrayData, {{"operation", name_of(type) + " of an array"}}); };
  const bool is_float = type == reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (!region::is_scalar_stand_in(array)) return of_data(t, type, {array});
  if (!is_float && type != reinterpret_cast<PyObject*>(&PyLong_Type)) refuse();
  if (!t.region.numbers.policy.runs_as_captured()) refuse();
  // Which kinds of numbers it holds, and all of them within 64 bits.
  const auto dtype = py::take(PyObject_GetAttrString(array, "dtype"));
  const std::string kind = py::text_of(py::take(PyObject_GetAttrString(dtype.get(), "kind")).get());
  const auto size = py::take(PyObject_GetAttrString(dtype.get(), "itemsize"));
  const std::int64_t bits = 8 * PyLong_AsLongLong(size.get());
  const bool holds_floats = kind == "f" && bits <= 64, is_unsigned = kind == "u" && bits < 64;
  if (is_float ? !holds_floats : kind != "i" && kind != "b" && !is_unsigned) refuse();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = kLeast, most = kMost;
  if (kind == "b") {
    least = 0, most = 1;
  } else if (is_unsigned) {
    least = 0, most = (std::int64_t{1} << bits) - 1;
  } else if (kind == "i" && bits < 64) {
    least = -(std::int64_t{1} << (bits - 1)), most = -least - 1;
  }
  constexpr std::int64_t kSmall = 3;  // as of item() of a tensor
  const Value hint = is_float ? Value::real(1.5) : Value::of(std::min(kSmall, most));
  const symbolic::Expr* number = t.region.numbers.given_by_graph(aten::GraphGives::Number, hint, least, most, nullptr);
  if (number == nullptr) refuse();
  t.region.doing = "calls numpy";
  t.region.unbacked.check_before(Py_None, number);
  (void)aten::take_facts();
  const auto value = region::Unbacked::number_at_hint(number);
  PyObject* args[] = {array};
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, type, Args{args, nullptr}, value.get(), false);
  return Result::of(t.region.unbacked.give(number, node));
}

void refuse_aliases(Interpreter& t, PyObject* left, PyObject* right) {
  if (t.region.provenance.is_outside(left) && t.region.provenance.is_outside(right)) return;
  unsupported(Reason::ArrayData, {{"operation", "whether two arrays are one object"}});
}

}  // namespace pellucid::protocols
