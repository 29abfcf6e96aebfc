#include "protocols/operators.h"

#include "bytecode/opcodes.h"
#include "protocols/arrays.h"
#include "protocols/late_values.h"
#include "protocols/numbers.h"
#include "protocols/protocols.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "protocols/type_expressions.h"
#include "py/cpython.h"
#include "py/number_operator.h"
#include "py/set_table.h"
#include "region/arrays.h"
#include "region/enums.h"
#include "region/names.h"
#include "region/snapshot.h"
#include "region/subclasses.h"

namespace pellucid::protocols {

using K = Continuation::Kind;
using py::binary_operator;
using py::kCompareBase;
namespace {

struct UnaryOperator {
  const char *symbol, *function, *method;
  PyObject* (*call)(PyObject*);
};

UnaryOperator unary_operator(bytecode::Opcode op) {
  switch (op) {
#define UNARY(opcode, symbol, function, method, call) \
  case bytecode::Opcode::opcode:                      \
    return {symbol, function, method, call};
#include "py/operators.def"
    default:
      throw GraphBreak(Reason::Internal, {{"detail", "no unary operator"}});
  }
}

PyObject* operator_function(const char* name) {
  static PyObject* module = py::module_named("operator");
  static std::unordered_map<std::string, PyObject*> table;
  PyObject*& slot = table[name];
  if (slot == nullptr) slot = PyObject_GetAttrString(module, name);
  return slot;
}

bool plain_operand(Cat cat) {
  return cat == Cat::Singleton || cat == Cat::Number || cat == Cat::Text || cat == Cat::TorchAtom || cat == Cat::Range;
}

bool is_container(Cat cat) {
  return cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Set || cat == Cat::FrozenSet ||
         cat == Cat::Deque;
}

bool is_taken_in_place(PyObject* left, PyObject* right, bool adds) {
  switch (cat_of(left)) {
    case Cat::Set:
      return PyAnySet_Check(right);
    case Cat::Dict:
      return PyDict_Check(right);
    case Cat::Deque:
      return adds;  // whatever it is asked for its iterator
    default:
      return false;
  }
}

// Whether the operator in place of the builtin container itself takes this: it comes before what a class has of the
// operator that gives another object. (That of a list is asked for in its polyfill.)
bool writes_in_place(Interpreter& t, PyObject* left, PyObject* right, const char* inplace) {
  if (inplace == nullptr || !is_taken_in_place(left, right, std::string_view(inplace) == "__iadd__")) return false;
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(left), inplace);
  return method != nullptr && Py_IS_TYPE(method, &PyWrapperDescr_Type);
}

bool has_tensor_method(Interpreter& t, PyObject* value, const char* name) {
  if (cat_of(value) != Cat::Tensor) return false;
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(value), name);
  return method != nullptr && is_torch_op(method);
}

// A tensor around tensors whose class leaves these methods, and the function below them, to torch.
bool leaves_to_torch(Interpreter& t, PyObject* value, std::initializer_list<const char*> methods) {
  if (asks_modes(t) || !region::is_wrapper_subclass(value) || has_torch_function(t, value)) return false;
  return std::ranges::all_of(methods,
                             [&](const char* name) { return name == nullptr || has_tensor_method(t, value, name); });
}

// Whether an operator of a tensor is what the classes of the operands say: one of them is no class of torch's.
bool is_by_class(Interpreter& t, PyObject* left, PyObject* right, std::initializer_list<const char*> methods) {
  for (PyObject* value : {left, right}) {
    if (is_answered(t, value) && !leaves_to_torch(t, value, methods)) return true;
    if (cat_of(value) == Cat::Instance && has_torch_function(t, value)) return true;
  }
  return false;
}

// The id of an object that the region made is good as a key, but what is computed from it would be another value at
// every call.
void refuse_region_id(Interpreter& t, PyObject* value) {
  if (t.region.capture->region_ids.contains(value))
    unsupported(Reason::RegionIdentity, {{"operation", "computing with"}});
}

}  // namespace

namespace {

// Beside a tensor a number stays what it is: the recorder knows whether the graph can take it.
void make_plain(Interpreter& t, PyObject*& left, PyObject*& right) {
  const auto is_array = [](PyObject* value) { return cat_of(value) == Cat::Tensor || cat_of(value) == Cat::Array; };
  if (is_array(left) || is_array(right)) return;
  left = t.region.numbers.plain(left);
  right = t.region.numbers.plain(right);
}

}  // namespace

// A number is never None, True or another object that is no number; which number it is, its value says.
bool is_same(Interpreter& t, PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (cat_of(left) == Cat::Array && cat_of(right) == Cat::Array) refuse_aliases(t, left, right);
  for (const auto& [one, other] : {std::pair(left, right), std::pair(right, left)}) {
    if (!region::is_number(one) || region::is_number(other)) continue;
    if (cat_of(other) == cat_of(region::as_number(one)->value)) continue;
    t.region.numbers.guard_type(one);
    return false;
  }
  return t.region.reads.same(t.region.numbers.plain(left), t.region.numbers.plain(right));
}

Result binary(Interpreter& t, PyObject* left, PyObject* right, int op) {
  if (std::optional<Result> late = late_binary(t, left, right, op)) return std::move(*late);
  if (region::is_number(left) || region::is_number(right)) {
    if (std::optional<Result> late = late_arithmetic(t, left, right, op)) return std::move(*late);
    if (std::optional<Result> number = number_binary(t, left, right, op)) return std::move(*number);
    if (std::optional<Result> late = late_bits(t, left, right, op)) return std::move(*late);
    if (std::optional<Result> late = late_not_finite(t, left, right, op)) return std::move(*late);
    t.region.doing = "computes";
    make_plain(t, left, right);
  }
  if (auto sizes = sizes_binary(t, left, right, op)) return std::move(*sizes);
  left = t.region.shadows.original(left);
  right = t.region.shadows.original(right);
  refuse_region_id(t, left);
  refuse_region_id(t, right);
  const py::BinaryOperator& o = binary_operator(op);
  t.region.doing = "computes";
  if (auto result = numpy_binary(t, left, right, o)) return std::move(*result);
  const Cat a = cat_of(left), b = cat_of(right);
  if ((a == Cat::Tensor || b == Cat::Tensor) && !is_by_class(t, left, right, {o.method, o.reflected, o.inplace})) {
    const Cat other = a == Cat::Tensor ? b : a;
    if (other == Cat::Instance || other == Cat::Other)
      unsupported(Reason::UnsupportedProtocol,
                  {{"protocol", o.function}, {"type", Py_TYPE(a == Cat::Tensor ? right : left)->tp_name}});
    // `list += tensor` and the like keep their container meaning; everything else is torch's.
    if (!(is_container(a) && o.inplace != nullptr)) {
      PyObject* function = operator_function(o.function);
      PyObject* args[] = {left, right};
      return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
    }
  }
  auto native = [&](PyObject* x, PyObject* y) {
    // A copy of an object of a subclass is of the builtin type: what is made of it, or said about it, would tell.
    const bool stand_in = Py_TYPE(x) != Py_TYPE(left) || Py_TYPE(y) != Py_TYPE(right);
    const auto refuse_stand_in = [&] {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", o.function}, {"type", Py_TYPE(left)->tp_name}});
    };
    if (stand_in && (a == Cat::Deque || b == Cat::Deque)) refuse_stand_in();  // before it writes to one
    auto value = py::Owned<>::steal(o.call(x, y));
    if (stand_in && !value) {
      PyErr_Clear();
      refuse_stand_in();
    }
    if (!value) return t.raise_pending(py::PythonError());
    if (value.get() == x && x != left) value = py::Owned<>::share(left);  // in place on a shadow
    return Result::of(std::move(value));
  };
  if (plain_operand(a) && plain_operand(b)) return native(left, right);
  if (std::string_view(o.method) == "__or__" && makes_union(left, right)) return native(left, right);
  if (a == Cat::Text && std::string_view(o.method) == "__mod__") {
    const Contents inside = t.region.reads.deep_touch(right);
    if (!inside.is_plain()) unsupported(Reason::UserDunder, {{"operation", "% formatting"}, {"callee", "__str__"}});
    return native(left, t.region.shadows.readable(right));
  }
  const bool own_inplace = o.inplace != nullptr && has_python_method(t.region, Py_TYPE(left), {o.inplace});
  const bool user = own_inplace || (!writes_in_place(t, left, right, o.inplace) &&
                                    (has_python_method(t.region, Py_TYPE(left), {o.method}) ||
                                     has_python_method(t.region, Py_TYPE(right), {o.reflected})));
  // A sum or multiple of deques is a copy, made and filled by the iterators of their classes.
  if (!user && (a == Cat::Deque || b == Cat::Deque) &&
      (has_python_method(t.region, Py_TYPE(left), {"__iter__"}) ||
       has_python_method(t.region, Py_TYPE(right), {"__iter__"})))
    unsupported(Reason::UserDunder, {{"operation", o.function}, {"callee", "__iter__"}});
  // What is appended is what its __iter__ gives, and a dict is merged by the keys() of a class with one.
  const bool appends = o.inplace != nullptr && std::string_view(o.inplace) == "__iadd__" &&
                       (a == Cat::List || a == Cat::Deque) && has_python_method(t.region, Py_TYPE(right), {"__iter__"});
  if (!user && a == Cat::Dict && b == Cat::Dict && std::string_view(o.method) == "__or__" &&
      !region::merges_as_dict(t.region, right))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", o.function}, {"type", Py_TYPE(right)->tp_name}});
  if (!user && !appends && (is_container(a) || is_container(b)) && (is_container(a) || plain_operand(a)) &&
      (is_container(b) || plain_operand(b) || (b == Cat::Iterator && !t.region.provenance.is_outside(right)))) {
    const bool inplace = o.inplace != nullptr && (a == Cat::List || a == Cat::Dict || a == Cat::Set || a == Cat::Deque);
    t.region.reads.touch(left);
    t.region.reads.touch(right);
    if (a == Cat::Dict && !PyDict_CheckExact(left) && !PyODict_CheckExact(left))
      unsupported(Reason::UnsupportedProtocol, {{"protocol", o.function}, {"type", Py_TYPE(left)->tp_name}});
    const bool grows = a == Cat::List && std::string_view(o.method) == "__add__";
    PyObject* target = inplace ? (grows ? t.region.shadows.growable(left) : t.region.shadows.writable(left))
                               : t.region.shadows.readable(left);
    return native(target, t.region.shadows.readable(right));  // that may be the same
  }
  if (a == Cat::Deque && !user && has_python_method(t.region, Py_TYPE(left), {o.method}))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", o.function}, {"type", Py_TYPE(right)->tp_name}});
  if (a == Cat::List && o.inplace != nullptr && std::string_view(o.inplace) == "__iadd__") {
    PyObject* args[] = {left, right};
    return call_polyfill(t, "list_iadd", args);
  }
  const auto of_user = [&](PyObject* value, const char* method) {
    return method != nullptr && region::has_user_method(t.region, Py_TYPE(value), method);
  };
  if (a == Cat::EnumMember && b == Cat::EnumMember && !of_user(left, o.inplace) && !of_user(left, o.method) &&
      !of_user(right, o.reflected))
    return native(left, right);  // Flag arithmetic of the enum module
  const auto runs_code = [](Cat cat) { return cat == Cat::Generator || cat == Cat::Instance || cat == Cat::Other; };
  if ((a == Cat::Iterator || b == Cat::Iterator) && !runs_code(a) && !runs_code(b)) {
    if (!t.region.provenance.is_outside(left) && !t.region.provenance.is_outside(right))
      return native(t.region.shadows.readable(left), t.region.shadows.readable(right));  // dict views as sets
  }
  if (o.inplace != nullptr && !is_exact_builtin(Py_TYPE(left)) &&
      t.region.lookups.type_lookup(Py_TYPE(left), o.inplace) == Py_None)
    return t.raise(PyExc_TypeError, "'NoneType' object is not callable");
  if (o.inplace != nullptr &&
      (has_python_method(t.region, Py_TYPE(left), {o.inplace}) || has_tensor_method(t, left, o.inplace))) {
    PyObject* args[] = {right};
    Continuation c(K::Reflected, left, right);
    c.number = op;
    c.stage = 0;
    return t.and_then(special(t, left, o.inplace, args), std::move(c));
  }
  return reflected(t, left, right, op, 0);
}
namespace {

bool is_sequence(PyObject* value) {
  const PySequenceMethods* slots = Py_TYPE(value)->tp_as_sequence;
  return slots != nullptr && (slots->sq_concat != nullptr || slots->sq_repeat != nullptr);
}

}  // namespace

// No operand knows the other: + and * of sequences have their own words for it, and * asks for an __index__.
Result sequence_error(Interpreter& t, PyObject* left, PyObject* right, int op) {
  const py::BinaryOperator& o = binary_operator(op);
  for (PyObject* value : {left, right}) {
    for (const char* name : {o.method, o.reflected, o.inplace, "__index__"}) {
      if (name != nullptr && has_python_method(t.region, Py_TYPE(value), {name}))
        unsupported(Reason::UserDunder, {{"operation", o.function}, {"callee", name}});
    }
  }
  auto value = py::Owned<>::steal(o.call(left, right));
  if (value) unsupported(Reason::UnsupportedProtocol, {{"protocol", o.function}, {"type", Py_TYPE(left)->tp_name}});
  return t.raise_pending(py::PythonError());
}

// The contents of a container in one of the builtin type itself.
static py::Owned<> plain_copy(Interpreter& t, PyObject* container) {
  PyObject* view = t.region.reads.touch(container);
  if (PyDict_Check(view)) return region::copy_of_dict(view);
  if (PyList_Check(view)) return py::take(PyList_GetSlice(view, 0, PyList_GET_SIZE(view)));
  if (PyTuple_CheckExact(view)) return py::Owned<>::share(view);
  if (PyTuple_Check(view)) {
    auto copy = py::take(PyTuple_New(PyTuple_GET_SIZE(view)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(view); ++i)
      PyTuple_SET_ITEM(copy.get(), i, Py_NewRef(PyTuple_GET_ITEM(view, i)));
    return copy;
  }
  if (PyAnySet_Check(view)) return py::copy_with_table(view, 0);
  unsupported(Reason::UnsupportedProtocol, {{"protocol", "comparison"}, {"type", Py_TYPE(container)->tp_name}});
}

// Candidate methods in CPython's order; `stage` is the number of those already tried.
Result reflected(Interpreter& t, PyObject* left, PyObject* right, int op, int stage) {
  const bool comparison = op >= kCompareBase;
  const char* forward = comparison ? py::comparison(op - kCompareBase).method : binary_operator(op).method;
  const char* backward =
      comparison ? py::comparison(py::comparison(op - kCompareBase).swapped).method : binary_operator(op).reflected;
  PyTypeObject *lt = Py_TYPE(left), *rt = Py_TYPE(right);
  bool right_first = lt != rt && PyType_IsSubtype(rt, lt);
  if (right_first && !comparison) {
    // Only a reflected method that the subclass really overrides goes first.
    right_first = t.region.lookups.type_lookup(rt, backward) != t.region.lookups.type_lookup(lt, backward) &&
                  t.region.lookups.type_lookup(rt, backward) != nullptr;
  }
  for (; stage < 2; ++stage) {
    const bool use_right = (stage == 0) == right_first;
    if (use_right && !comparison && lt == rt) continue;
    PyObject* self = use_right ? right : left;
    PyObject* other = use_right ? left : right;
    PyObject* method = t.region.lookups.type_lookup(Py_TYPE(self), use_right ? backward : forward);
    if (method == nullptr) continue;
    if (method == Py_None) return t.raise(PyExc_TypeError, "'NoneType' object is not callable");
    const bool is_tensor = cat_of(self) == Cat::Tensor && has_tensor_method(t, self, use_right ? backward : forward);
    if (PyFunction_Check(method) || is_tensor) {
      Continuation c(K::Reflected, left, right);
      c.number = op;
      c.stage = static_cast<std::uint8_t>(stage + 1);
      return t.and_then(call2(t, method, self, other), std::move(c));
    }
    if (comparison && reinterpret_cast<PyWrapperDescrObject*>(method)->d_common.d_type == &PyBaseObject_Type) {
      // object's own comparison: identity for ==; != is derived from __eq__ of the class.
      if (op - kCompareBase == Py_EQ && t.region.reads.same(self, other)) return Result::boolean(true);
      if (op - kCompareBase == Py_NE) {
        PyObject* eq = t.region.lookups.type_lookup(Py_TYPE(self), "__eq__");
        if (eq == Py_None) return t.raise(PyExc_TypeError, "'NoneType' object is not callable");
        if (eq != nullptr && PyFunction_Check(eq)) {
          PyObject* args[] = {self, other};
          Continuation c(K::Reflected, left, right);
          c.number = op;
          c.stage = static_cast<std::uint8_t>(stage + 1);
          return t.and_then(call_polyfill(t, "ne_from_eq", args), std::move(c));
        }
        if (t.region.reads.same(self, other)) return Result::boolean(false);
      }
      continue;
    }
    const Cat a = cat_of(self), b = cat_of(other);
    if (comparison && is_container(a) && is_container(b)) {
      // The builtin's own comparison looks at what both hold, whatever methods their classes have.
      auto mine = plain_copy(t, self), its = plain_copy(t, other);
      if (Py_TYPE(mine.get()) != Py_TYPE(its.get()) && !(PyAnySet_Check(mine.get()) && PyAnySet_Check(its.get())))
        continue;  // NotImplemented
      return compare(t, mine.get(), its.get(),
                     use_right ? py::comparison(op - kCompareBase).swapped : op - kCompareBase);
    }
    if (comparison && (a == Cat::Instance || a == Cat::Other)) {
      unsupported(Reason::UnsupportedProtocol, {{"protocol", forward}, {"type", Py_TYPE(self)->tp_name}});
    }
    const bool answers = b == Cat::Instance || plain_operand(b) || is_answered(t, other);
    if (comparison && plain_operand(a) && is_answered(t, other)) continue;
    if (!comparison && !(plain_operand(a) && answers)) {
      const bool updates = a == Cat::Dict && !comparison && binary_operator(op).inplace != nullptr;  // d |= anything
      if (b == Cat::Instance && is_container(a) && !updates)
        continue;  // list + instance: list's own slot gives NotImplemented or a TypeError
      unsupported(Reason::UnsupportedProtocol, {{"protocol", forward}, {"type", Py_TYPE(self)->tp_name}});
    }
  }
  if (comparison) {
    const int c = op - kCompareBase;
    if (c == Py_EQ) return Result::boolean(t.region.reads.same(left, right));
    if (c == Py_NE) return Result::boolean(!t.region.reads.same(left, right));
    return t.raise(PyExc_TypeError, std::string("'") + py::comparison(c).symbol +
                                        "' not supported between instances of '" + lt->tp_name + "' and '" +
                                        rt->tp_name + "'");
  }
  if (is_sequence(left) || is_sequence(right)) return sequence_error(t, left, right, op);
  return t.raise(PyExc_TypeError, std::string("unsupported operand type(s) for ") + binary_operator(op).symbol + ": '" +
                                      lt->tp_name + "' and '" + rt->tp_name + "'");
}

Result compare(Interpreter& t, PyObject* left, PyObject* right, int op) {
  if (region::is_number(left) || region::is_number(right)) {
    if (std::optional<Result> number = number_compare(t, left, right, op)) return std::move(*number);
    t.region.doing = "compares";
    make_plain(t, left, right);
  }
  left = t.region.shadows.original(left);
  right = t.region.shadows.original(right);
  t.region.doing = "compares";
  if (auto view = PyDictViewSet_Check(left) ? t.region.iterators.view(left) : py::Owned<>())
    return compare(t, view.get(), right, op);
  if (auto view = PyDictViewSet_Check(right) ? t.region.iterators.view(right) : py::Owned<>())
    return compare(t, left, view.get(), op);
  if (op != Py_EQ && op != Py_NE) {
    refuse_region_id(t, left);
    refuse_region_id(t, right);
  }
  if (auto result = numpy_compare(t, left, right, op)) return std::move(*result);
  const Cat a = cat_of(left), b = cat_of(right);
  const char* const swapped = py::comparison(py::comparison(op).swapped).method;
  if ((a == Cat::Tensor || b == Cat::Tensor) && !is_by_class(t, left, right, {py::comparison(op).method, swapped})) {
    const Cat other = a == Cat::Tensor ? b : a;
    if (other == Cat::Instance || other == Cat::Other)
      unsupported(Reason::UnsupportedProtocol,
                  {{"protocol", "comparison"}, {"type", Py_TYPE(a == Cat::Tensor ? right : left)->tp_name}});
    PyObject* function = operator_function(py::comparison(op).function);
    PyObject* args[] = {left, right};
    return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{args, nullptr});
  }
  auto native = [&](PyObject* x, PyObject* y) {
    auto value = py::Owned<>::steal(PyObject_RichCompare(x, y, op));
    if (!value) return t.raise_pending(py::PythonError());
    return Result::of(std::move(value));
  };
  if (plain_operand(a) && plain_operand(b)) return native(left, right);
  if (a == Cat::Cell || b == Cat::Cell)
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "comparison"}, {"type", "cell"}});
  if ((is_container(a) || plain_operand(a) || a == Cat::EnumMember) &&
      (is_container(b) || plain_operand(b) || b == Cat::EnumMember) &&
      !has_python_method(t.region, Py_TYPE(left), {py::comparison(op).method}) &&
      !has_python_method(t.region, Py_TYPE(right), {py::comparison(py::comparison(op).swapped).method})) {
    const bool open = a == b && (region::holds_open(left) || region::holds_open(right));
    if (open && a == Cat::Tuple && (op == Py_EQ || op == Py_NE) && region::holds_numbers_alone(left) &&
        region::holds_numbers_alone(right) && PySequence_Fast_GET_SIZE(left) != PySequence_Fast_GET_SIZE(right))
      return Result::boolean(op == Py_NE);
    const Contents x = open ? Contents{.tensor = true} : t.region.reads.deep_touch(left);
    const Contents y = open ? x : t.region.reads.deep_touch(right);
    if (!x.tensor && !y.tensor && !x.user && !y.user && !x.shadowed && !y.shadowed)
      return native(t.region.shadows.readable(left), t.region.shadows.readable(right));
    if (is_container(a) && is_container(b) && a != b && op == Py_EQ && a != Cat::Set && a != Cat::FrozenSet)
      return Result::boolean(false);
    const bool dicts = PyDict_CheckExact(left) && PyDict_CheckExact(right) && (op == Py_EQ || op == Py_NE);
    if (((a == Cat::List || a == Cat::Tuple) && a == b) || dicts) {
      auto operation = py::take(PyLong_FromLong(op));
      // It looks at what both hold, whatever methods their classes have.
      const auto plain = [&](PyObject* o) {
        return is_exact_builtin(Py_TYPE(o)) ? py::Owned<>::share(o) : plain_copy(t, o);
      };
      const auto mine = plain(left), its = plain(right);
      PyObject* args[] = {mine.get(), its.get(), operation.get()};
      // A subclass's turn comes first, whether or not it overrides anything.
      if (Py_TYPE(left) != Py_TYPE(right) && PyType_IsSubtype(Py_TYPE(right), Py_TYPE(left))) {
        operation = py::take(PyLong_FromLong(py::comparison(op).swapped));
        args[0] = its.get(), args[1] = mine.get(), args[2] = operation.get();
      }
      return call_polyfill(t, dicts ? "dict_compare" : "sequence_compare", args);
    }
    if ((is_container(a) != is_container(b)) && (op == Py_EQ || op == Py_NE)) return Result::boolean(op == Py_NE);
    unsupported(Reason::UserDunder, {{"operation", "comparing containers"}, {"callee", "__eq__ of an element"}});
  }
  auto by_identity = [](Cat c) {
    return c == Cat::Type || c == Cat::Function || c == Cat::Builtin || c == Cat::Module || c == Cat::Code;
  };
  // A C type may know classes and functions by what they mean to it: numpy.dtype("i8") == int.
  const auto answers_itself = [&](PyObject* o, Cat cat) {
    if (cat == Cat::EnumMember)
      return has_python_method(t.region, Py_TYPE(o), {"__eq__"}) || has_python_method(t.region, Py_TYPE(o), {"__ne__"});
    return cat == Cat::Instance ||
           (cat == Cat::Other && Py_TYPE(o)->tp_richcompare != PyBaseObject_Type.tp_richcompare);
  };
  const bool of_metaclass =
      (a == Cat::Type && has_python_method(t.region, Py_TYPE(left), {py::comparison(op).method})) ||
      (b == Cat::Type && has_python_method(t.region, Py_TYPE(right), {py::comparison(op).method})) ||
      (op == Py_NE && ((a == Cat::Type && has_python_method(t.region, Py_TYPE(left), {"__eq__"})) ||
                       (b == Cat::Type && has_python_method(t.region, Py_TYPE(right), {"__eq__"}))));
  if ((by_identity(a) || by_identity(b)) && (op == Py_EQ || op == Py_NE) && !answers_itself(left, a) &&
      !answers_itself(right, b) && !of_metaclass) {
    // Two bound C methods, or code of the same text, may be equal without being one.
    if ((a == Cat::Builtin || a == Cat::Code) && a == b) return native(left, right);
    return Result::boolean(t.region.reads.same(left, right) == (op == Py_EQ));
  }
  if (a == Cat::BoundMethod && b == Cat::BoundMethod && (op == Py_EQ || op == Py_NE)) {
    bool equal = true;
    for (PyObject* part : {region::names().__self__, region::names().dunder_func}) {
      auto x = native_attribute(t, left, part), y = native_attribute(t, right, part);
      equal = equal && t.region.reads.same(x.value.get(), y.value.get());
    }
    return Result::boolean(equal == (op == Py_EQ));
  }
  if (a == Cat::Slice && b == Cat::Slice) {  // as the tuples of their parts
    const auto parts = [](PyObject* object) {
      auto* slice = reinterpret_cast<PySliceObject*>(object);
      return py::take(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
    };
    return compare(t, parts(left).get(), parts(right).get(), op);
  }
  const auto is_view = [](PyObject* o) { return PyDictViewSet_Check(o); };
  if ((is_view(left) || is_view(right)) && (is_view(left) || is_container(a)) && (is_view(right) || is_container(b))) {
    for (PyObject* one : {left, right}) {
      if (is_view(one) && t.region.provenance.is_outside(one))
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "comparing"}, {"type", Py_TYPE(one)->tp_name}});
    }
    const auto all = [&](PyObject* o) {
      const Contents inside = t.region.reads.deep_touch(is_view(o) ? native_elements(t, o).get() : o);
      return !inside.tensor && !inside.user && !inside.shadowed;
    };
    if (!all(left) || !all(right))
      unsupported(Reason::UserDunder, {{"operation", "comparing dict views"}, {"callee", "__eq__ of an element"}});
    return native(t.region.shadows.readable(left), t.region.shadows.readable(right));
  }
  if (a == Cat::Iterator && b == Cat::Iterator && !t.region.provenance.is_outside(left) &&
      !t.region.provenance.is_outside(right))
    return native(left, right);  // by identity
  return reflected(t, left, right, kCompareBase + op, 0);
}

Result unary(Interpreter& t, PyObject* value, int opcode) {
  if (std::optional<Result> number = number_unary(t, value, opcode)) return std::move(*number);
  if (static_cast<bytecode::Opcode>(opcode) == bytecode::Opcode::UNARY_NEGATIVE) {
    if (std::optional<Result> late = late_negative(t, value)) return std::move(*late);
  }
  t.region.doing = "computes";
  value = t.region.numbers.plain(value);
  value = t.region.shadows.original(value);
  refuse_region_id(t, value);
  const Cat cat = cat_of(value);
  const UnaryOperator o = unary_operator(static_cast<bytecode::Opcode>(opcode));
  if (cat == Cat::Array || region::is_numpy_scalar(value)) return numpy_unary(t, value, operator_function(o.function));
  if (cat == Cat::Tensor && (!is_answered(t, value) || leaves_to_torch(t, value, {o.method}))) {
    PyObject* target = operator_function(o.function);
    return t.region.recorder.torch_call(graph::Op::CallFunction, target, target, Args{{&value, 1}, nullptr});
  }
  if (plain_operand(cat) || (cat == Cat::EnumMember && !region::has_user_method(t.region, Py_TYPE(value), o.method))) {
    auto result = py::Owned<>::steal(o.call(value));
    if (!result) return t.raise_pending(py::PythonError());
    return Result::of(std::move(result));
  }
  if (t.region.lookups.type_lookup(Py_TYPE(value), o.method) != nullptr) return special(t, value, o.method, {});
  return t.raise(PyExc_TypeError,
                 std::string("bad operand type for unary ") + o.symbol + ": '" + Py_TYPE(value)->tp_name + "'");
}

}  // namespace pellucid::protocols
