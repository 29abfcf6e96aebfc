// Functions of numpy, and those of torch that lead from one to the other. Which there are is said in
// python/pellucid/_numpy.py, where numpy is at hand to find them.
#include "protocols/arrays.h"
#include "protocols/open_arrays.h"
#include "py/cpython.h"
#include "region/arrays.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

using protocols::array_call;

Result function(Interpreter& t, PyObject* f, Args args) {
  t.region.provenance.guard_identity(f);
  return array_call(t, graph::Op::CallFunction, f, args);
}

Result writing_function(Interpreter& t, PyObject* f, Args args) {
  t.region.provenance.guard_identity(f);
  return array_call(t, graph::Op::CallFunction, f, args, true);
}

template <bool writes>
Result method(Interpreter& t, PyObject* descriptor, Args args) {
  const bool is_of_numpy =
      args.size() > 0 && (region::cat_of(args[0]) == Cat::Array || region::is_numpy_scalar(args[0]));
  if (!is_of_numpy) {
    for (PyObject* value : args.values) (void)t.region.numbers.plain(value);
    return complain(t, descriptor, args);
  }
  PyObject* name = PyDescr_NAME(descriptor);
  return array_call(t, graph::Op::CallMethod, name, args, writes && !region::is_scalar_stand_in(args[0]));
}

// numpy.add.reduce(array) and its like: what the node calls is the bound method.
Result ufunc_method(Interpreter& t, PyObject* descriptor, Args args) {
  if (args.size() == 0 || !PyObject_TypeCheck(args[0], PyDescr_TYPE(descriptor))) {
    for (PyObject* value : args.values) (void)t.region.numbers.plain(value);
    return complain(t, descriptor, args);
  }
  t.region.provenance.guard_identity(args[0]);
  const auto bound = py::take(PyObject_GetAttr(args[0], PyDescr_NAME(descriptor)));
  return array_call(t, graph::Op::CallFunction, bound.get(), Args{args.values.subspan(1), args.kwnames});
}

// numpy.float32(x)
Result scalar_type(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 0, 1)) unsupported(Reason::BadArguments, {{"callee", describe(f)}});
  if (args.size() == 1) {
    const Cat cat = region::cat_of(args[0]);
    if (cat == Cat::Array) return array_call(t, graph::Op::CallFunction, f, args);
    PyObject* value = t.region.numbers.plain(args[0]);
    const Cat plain = region::cat_of(value);
    if (plain != Cat::Number && plain != Cat::Singleton && plain != Cat::Text && !region::is_numpy_scalar(value))
      unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of a " + Py_TYPE(value)->tp_name}});
    return run_native(t, f, Args{{&value, 1}, nullptr});
  }
  return run_native(t, f, args);
}

// numpy.dtype("float32"), numpy.dtype(numpy.float32)
Result dtype(Interpreter& t, PyObject* f, Args args) {
  const auto refuse_it = [&] { unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of these"}}); };
  if (!only_positional(args, 1, 1)) refuse_it();
  PyObject* value = args[0];
  const bool is_type_of_numpy = PySequence_Contains(region::of_numpy_module("SCALAR_TYPES"), value) == 1;
  if (region::cat_of(value) != Cat::Text && !is_type_of_numpy && !region::is_numpy_dtype(value)) refuse_it();
  if (region::is_numpy_dtype(value)) t.region.provenance.guard_identity(value);
  Result made = run_native(t, f, args);
  if (made.is_value() && !region::is_builtin_dtype(made.value.get())) refuse_it();
  if (made.is_value()) t.region.provenance.note_constant(made.value.get());
  return made;
}

// torch.from_numpy(array): the fake is contiguous, which is checked by what the graph calls. Nothing writes to it.
Result tensor_of(Interpreter& t, PyObject* f, Args args) {
  const region::NotesArrays noted(t.region.recorder.arrays);
  if (!only_positional(args, 1, 1) || region::cat_of(args[0]) != Cat::Array || region::is_scalar_stand_in(args[0]))
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  if (!t.region.numbers.policy.runs_as_captured()) {
    (void)t.region.recorder.to_arg(args[0]);  // the input, if it is one
    auto fake = t.region.recorder.arrays.tensors.at(args[0]).copy();
    t.region.recorder.arrays.storages.push_back(aten::meta_of(fake.get()).storage);
    return Result::of(std::move(fake));
  }
  static PyObject* const empty = py::import_attr("torch", "empty").release();
  static PyObject* const shape = py::interned("shape").release();
  py::Owned<> dtype;
  try {
    dtype = py::take(PyObject_CallOneArg(region::of_numpy_module("torch_dtype"), args[0]));
  } catch (const py::PythonError& error) {
    unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of this array"}});
  }
  const Result sizes = protocols::array_getattr(t, args[0], shape);
  const auto for_torch = protocols::with_fakes(t, sizes.value.get(), {});
  auto names = py::take(Py_BuildValue("(ss)", "dtype", "device"));
  auto cpu = py::str("cpu");
  PyObject* values[] = {for_torch.get(), dtype.get(), cpu.get()};
  const auto fake = t.region.recorder.fakes().call(empty, values, 1, names.get());
  (void)aten::take_facts();
  graph::Node* node = t.region.recorder.record(graph::Op::CallFunction, region::of_numpy_module("tensor_of"), args,
                                               fake.get(), false, true);
  t.region.recorder.give(fake.get(), node);
  t.region.recorder.arrays.storages.push_back(aten::meta_of(fake.get()).storage);
  return Result::of(fake.copy());
}

// tensor.numpy()
Result array_of(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 1, 1) || region::cat_of(args[0]) != Cat::Tensor)
    unsupported(Reason::UntracedCallable, {{"callee", describe(f)}});
  const auto fake = t.region.recorder.lift(args[0]);
  const auto part = [&](const char* name) { return py::take(PyObject_GetAttrString(fake.get(), name)); };
  const bool plain = part("requires_grad").get() == Py_False &&
                     py::text_of(py::take(PyObject_Str(part("device").get())).get()) == "cpu" &&
                     py::text_of(py::take(PyObject_Str(part("layout").get())).get()) == "torch.strided" &&
                     py::take(PyObject_CallMethod(fake.get(), "is_conj", nullptr)).get() == Py_False &&
                     py::take(PyObject_CallMethod(fake.get(), "is_neg", nullptr)).get() == Py_False;
  const aten::OpenShape open = t.region.recorder.fakes().open_shape(fake.get());
  for (const symbolic::Expr* size : open.sizes) t.region.unbacked.refuse_if_named(size);
  if (!plain) unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of this tensor"}});
  py::Owned<> array;
  try {
    const auto at_hand = protocols::at_hand(t, fake.get());
    const auto shape = py::take(PyObject_GetAttrString(at_hand.get(), "shape"));
    array = py::take(
        PyObject_CallFunctionObjArgs(region::of_numpy_module("of_tensor"), part("dtype").get(), shape.get(), nullptr));
  } catch (const py::PythonError& error) {
    unsupported(Reason::UntracedCallable, {{"callee", describe(f) + " of this tensor"}});
  }
  (void)aten::take_facts();
  if (!t.region.numbers.policy.runs_as_captured()) {
    static PyObject* const detach =
        py::take(PyObject_GetAttrString(py::import_attr("torch", "Tensor").get(), "detach")).release();
    Result alias = t.region.recorder.torch_call(graph::Op::CallMethod, detach, PyDescr_NAME(detach), args);
    t.region.provenance.keep(alias.value.get());
    t.region.recorder.give(array.get(), t.region.recorder.node_of(alias.value.get()));
    t.region.recorder.arrays.storages.push_back(aten::meta_of(alias.value.get()).storage);
    t.region.recorder.arrays.tensors[array.get()] = std::move(alias.value);
    t.region.capture->computes_arrays = true;
    return Result::of(std::move(array));
  }
  static PyObject* const name = py::interned("numpy").release();
  t.region.recorder.give(array.get(), t.region.recorder.record(graph::Op::CallMethod, name, args, array.get(), false));
  protocols::note_sizes(t, array.get(), fake.get());
  return Result::of(std::move(array));
}

const Row rows[] = {
    {"torch.from_numpy", tensor_of},
    {"torch._C.TensorBase.numpy", array_of},
};

// `numbers`: the handler takes those that change.
void add_all(const char* list, protocols::Handler handler, bool numbers = true) {
  PyObject* functions = region::of_numpy_module(list);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); ++i)
    protocols::add_row(PyList_GET_ITEM(functions, i), handler, false, numbers);
}

}  // namespace

const std::span<const Row> kNumpyRows = rows;

void add_numpy_functions() {
  if (region::of_numpy_module("AVAILABLE") != Py_True) return;
  add_all("FUNCTIONS", function);
  add_all("WRITING", writing_function);
  add_all("METHODS", method<false>);
  add_all("WRITING_METHODS", method<true>);
  add_all("UFUNC_METHODS", ufunc_method);
  add_all("SCALAR_TYPES", scalar_type, false);
  protocols::add_row(region::of_numpy_module("DTYPE"), dtype);
  protocols::add_row(region::of_numpy_module("UFUNC"), function, true, true);
}

}  // namespace pellucid::rows
