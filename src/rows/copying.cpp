#include "rows/copying.h"

#include "aten/layers.h"
#include "aten/memory.h"
#include "graph/bodies.h"
#include "py/cpython.h"
#include "region/objects.h"
#include "region/subclasses.h"
#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// A method that is said in Python: polyfills_copying.py.
template <const char* kName>
Result polyfill(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || args.keyword_count() != 0) return complain(t, f, args);
  return protocols::call_polyfill(t, kName, args);
}

// What copy takes is an object's dict, its slots, and the items that it has as a list or dict. Of an object that has
// more the region ends.
void need_known_state(Interpreter& t, PyObject* self) {
  const Cat cat = region::cat_of(self);
  PyObject* dict = t.region.lookups.type_lookup(Py_TYPE(self), region::names().__dict__);
  const bool is_known = cat == Cat::Instance || cat == Cat::Dict || cat == Cat::List || cat == Cat::Tuple ||
                        cat == Cat::Set || cat == Cat::FrozenSet || cat == Cat::Deque;
  if (!is_known || (dict != nullptr && !Py_IS_TYPE(dict, &PyGetSetDescr_Type)))
    unsupported(Reason::Reflection, {{"callee", std::string("copying a ") + Py_TYPE(self)->tp_name}});
}

// What copyreg gives for a class stays, and Python keeps it.
py::Owned<> names_of_slots(Interpreter& t, PyObject* type) {
  static PyObject* const find = py::import_attr("copyreg", "_slotnames").release();
  auto slots = py::take(PySequence_Tuple(py::take(PyObject_CallOneArg(find, type)).get()));
  t.region.provenance.keep(slots.get());
  t.region.provenance.note_constant(slots.get());
  return slots;
}

Result getstate(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1 || args.keyword_count() != 0) return complain(t, f, args);
  need_known_state(t, args[0]);
  const auto slots = names_of_slots(t, reinterpret_cast<PyObject*>(Py_TYPE(args[0])));
  PyObject* values[] = {args[0], slots.get()};
  return protocols::call_polyfill(t, "object_getstate", values);
}

// object.__reduce_ex__(self, protocol): of other protocols than those of copy less is known. A class with a __reduce__
// of its own is asked for that.
Result reduce_ex(Interpreter& t, PyObject*, Args args) {
  static PyObject* const name = py::interned("__reduce__").release();
  if (args.size() != 2 || args.keyword_count() != 0 || !PyLong_CheckExact(args[1]) || PyLong_AsLong(args[1]) < 2) {
    PyErr_Clear();  // a number beyond all protocols
    unsupported(Reason::Reflection, {{"callee", "copying by another protocol than 2"}});
  }
  PyObject* reduce = t.region.lookups.type_lookup(Py_TYPE(args[0]), name);
  const bool is_own = reduce != py::type_lookup(&PyBaseObject_Type, name);
  if (!is_own) need_known_state(t, args[0]);
  return protocols::call_polyfill(t, is_own ? "reduce_of_class" : "object_reduce_ex", {&args.values[0], 1});
}

// list.__new__(type, …) and its like: empty, the arguments are __init__'s.
Result new_empty(Interpreter& t, PyObject* f, Args args) {
  if (args.size() < 1 || !PyType_Check(args[0])) return complain(t, f, args);
  auto* type = reinterpret_cast<PyTypeObject*>(args[0]);
  if (py::type_lookup(type, region::names().__del__) != nullptr)
    unsupported(Reason::Finalizer, {{"type", type->tp_name}});
  if (region::cat_of(type) == Cat::Other)
    unsupported(Reason::UntracedCallable, {{"callee", std::string("the class ") + type->tp_name}});
  PyObject* values[] = {args[0]};
  return run_native(t, f, Args{values, nullptr});
}

bool is_plain_tensor(Interpreter& t, PyObject* value) {
  static PyObject* const strided = py::import_attr("torch", "strided").release();
  if (region::cat_of(value) != Cat::Tensor || region::is_subclassed(value)) return false;
  const auto fake = t.region.recorder.lift(value);
  const auto layout = py::take(PyObject_GetAttrString(fake.get(), "layout"));
  return !aten::is_wrapper(fake.get()) && !aten::meta_of(fake.get()).requires_grad && layout.get() == strided;
}

// torch.Tensor.__deepcopy__(self, memo), of a plain tensor without gradients: a node makes the copy.
Result tensor_deepcopy(Interpreter& t, PyObject* f, Args args) {
  if (!only_positional(args, 2, 2) || !PyDict_CheckExact(args[1]) || !is_plain_tensor(t, args[0]))
    return refuse(t, f, args);
  return protocols::call_polyfill(t, "tensor_deepcopy", args);
}

// copy.deepcopy(x, …): of a tensor alone there is no memo, which would know it by its address. A number is its own
// copy, and nobody has asked for the address of one that is open.
Result deepcopy(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 1, 2) && region::is_open(args[0])) return Result::of(py::Owned<>::share(args[0]));
  static PyObject* const name = py::interned("__deepcopy__").release();
  static PyObject* const of_tensor = PyObject_GetAttr(py::import_attr("torch", "Tensor").get(), name);  // held for good
  if (only_positional(args, 1, 1) && is_plain_tensor(t, args[0]) &&
      t.region.lookups.type_lookup(Py_TYPE(args[0]), name) == of_tensor)
    return protocols::call_polyfill(t, "lone_tensor_deepcopy", args);
  return t.inline_function(f, args);
}

// memory_of(tensor): by what the tensors that share memory with it are known, in this capture.
Result memory_of(Interpreter& t, PyObject*, Args args) {
  const auto fake = t.region.recorder.lift(args[0]);
  return Result::of(py::take(PyLong_FromVoidPtr(const_cast<void*>(aten::meta_of(fake.get()).storage))));
}

// Whether the region made the memory of this, for this alone.
bool is_of_memory_made_for_it(Interpreter& t, PyObject* fake) {
  const void* memory = aten::meta_of(fake).storage;
  const graph::Node* made_by = t.region.recorder.node_of(fake);
  const auto is_another = [&](const graph::Node* node) {
    const auto& example = node->example_value;
    return node != made_by && example && aten::is_tensor(example.get()) &&
           aten::meta_of(example.get()).storage == memory;
  };
  const graph::Graph& graph = t.region.capture->bodies->graph();
  return made_by != nullptr && made_by->graph == &graph && made_by->op != graph::Op::Placeholder &&
         std::ranges::none_of(graph.placeholders(), is_another) && std::ranges::none_of(graph.nodes(), is_another);
}

// copy_memory(tensor): a compiler has no operator that copies all memory. To it a clone is the same where there is
// nothing else in the memory: of what the region made, and of a tensor from outside, which is guarded.
Result copy_memory(Interpreter& t, PyObject*, Args args) {
  if (t.region.numbers.policy.runs_as_captured()) {
    static PyObject* const copy = py::import_attr("pellucid._copying", "copy_with_memory").release();
    static PyObject* const on_fakes = py::import_attr("pellucid._copying", "copy_on_fakes").release();
    return t.region.recorder.torch_call(graph::Op::CallFunction, on_fakes, copy, args);
  }
  PyObject* tensor = args[0];
  const auto fake = t.region.recorder.lift(tensor);
  const region::Source* source = t.region.provenance.source_of(tensor);
  const bool is_whole = source != nullptr ? aten::fills_memory(tensor) : is_of_memory_made_for_it(t, fake.get());
  if (!is_whole || !aten::fills_memory(fake.get()))
    unsupported(Reason::Reflection, {{"callee", "copying a tensor that is a part of its memory"}});
  if (source != nullptr) t.region.provenance.guard(region::Kind::WHOLE_MEMORY, source, {});
  return Result::none();
}

Result refuse_copy(Interpreter&, PyObject*, Args args) {
  unsupported(Reason::Reflection, {{"callee", "copying " + py::text_of(args[0])}});
}

constexpr char kDict[] = "ordered_dict_reduce", kDefault[] = "default_dict_reduce", kDeque[] = "deque_reduce",
               kSet[] = "set_reduce", kCopyDefault[] = "default_dict_copy", kCopyDeque[] = "deque_copy",
               kSize[] = "size_reduce";

const Row rows[] = {
    {"builtins.object.__reduce_ex__", reduce_ex},
    {"builtins.object.__getstate__", getstate},
    {"builtins.list.__new__", new_empty},
    {"builtins.dict.__new__", new_empty},
    {"builtins.set.__new__", new_empty},
    {"collections.deque.__new__", new_empty},
    {"builtins.tuple.__getnewargs__", shallow},
    {"builtins.set.__reduce__", polyfill<kSet>},
    {"builtins.frozenset.__reduce__", polyfill<kSet>},
    {"collections.OrderedDict.__reduce__", polyfill<kDict>},
    {"collections.defaultdict.__reduce__", polyfill<kDefault>},
    {"collections.defaultdict.__copy__", polyfill<kCopyDefault>},
    {"collections.defaultdict.copy", polyfill<kCopyDefault>},
    {"collections.deque.__reduce__", polyfill<kDeque>},
    {"collections.deque.__copy__", polyfill<kCopyDeque>},
    {"collections.deque.copy", polyfill<kCopyDeque>},
    {"copy.deepcopy", deepcopy, true, true},
    {"torch.Tensor.__deepcopy__", tensor_deepcopy},
    {"pellucid.polyfills_copying.memory_of", memory_of},
    {"pellucid.polyfills_copying.copy_memory", copy_memory},
    {"pellucid.polyfills_copying.refuse_copy", refuse_copy},
    {"torch.Size.__reduce__", polyfill<kSize>},
    {"torch.dtype.__reduce__", pure},
    {"torch.device.__reduce__", pure},
    {"torch.layout.__reduce__", pure, false},
    {"torch.memory_format.__reduce__", pure, false},
};

}  // namespace

const std::span<const Row> kCopyingRows = rows;

}  // namespace pellucid::rows
