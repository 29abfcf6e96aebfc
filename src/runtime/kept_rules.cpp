#include "runtime/kept_rules.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "py/cpython.h"
#include "runtime/kept_places.h"
#include "source/source.h"

namespace pellucid::runtime {

using codegen::Expr;
using codegen::Stmt;
using graph::Arg;
using graph::Node;
using guards::Guard;
using guards::Kind;
using source::Step;

// ---- what graphs and plans may call

// Where torch has the C functions that are operators on tensors, and what switches its modes.
bool is_of_torch(PyObject* function) {
  const auto* const f = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = f->m_ml->ml_name;
  const std::string module = f->m_module == nullptr ? "" : py::text_of(f->m_module);
  static constexpr std::string_view kModules[] = {"torch._C._nn", "torch._C._special", "torch._C._linalg",
                                                  "torch._C._fft"};
  static constexpr std::string_view kSwitches[] = {"_set_grad_enabled"};
  static constexpr std::string_view kFiles[] = {"from_file"};  // the one that touches files
  const auto is_in = [](std::string_view text, const auto& all) {
    return std::ranges::find(all, text) != std::end(all);
  };
  if (is_in(module, kModules)) return true;
  if (module == "torch") return !is_in(name, kFiles);
  static PyObject* const core = py::import_attr("sys", "modules").release();
  const auto at = py::str("torch._C");
  PyObject* const found = PyDict_GetItemWithError(core, at.get());
  PyObject* const there = found != nullptr && PyModule_Check(found)
                              ? PyDict_GetItemString(PyModule_GetDict(found), f->m_ml->ml_name)
                              : nullptr;
  return there == function && is_in(name, kSwitches);
}

// Operators as torch's functions and methods, and Python's own.
bool is_operator(PyObject* callee) {
  if (PyCFunction_Check(callee)) {
    if (is_of_torch(callee)) return true;
    PyObject* const module = reinterpret_cast<PyCFunctionObject*>(callee)->m_module;
    const std::string name = module == nullptr ? "" : py::text_of(module);
    return name == "_operator" || name == "math";
  }
  if (PyFunction_Check(callee)) {
    static constexpr const char* kModules[] = {"torch.nn.functional", "torch.functional", "torch._tensor",
                                               "torch.autograd"};
    const std::string name = py::text_of(reinterpret_cast<PyFunctionObject*>(callee)->func_module);
    if (std::ranges::find(kModules, name) == std::end(kModules)) return false;
    // What calls itself so is what torch has written.
    PyObject* const space = reinterpret_cast<PyFunctionObject*>(callee)->func_globals;
    const std::string of = source::module_of_namespace(space);
    // Of some there are two, between which a function of torch's chooses that another of its modules has made.
    PyObject* const called = reinterpret_cast<PyFunctionObject*>(callee)->func_name;
    return of == name || (of == "torch._jit_internal" && places::object_named(name, py::text_of(called)) == callee);
  }
  if (const std::string name = places::operator_name(callee); !name.empty()) return true;
  if (Py_IS_TYPE(callee, &PyMethodDescr_Type) || Py_IS_TYPE(callee, &PyWrapperDescr_Type))
    return std::string_view(PyDescr_TYPE(callee)->tp_name).starts_with("torch.");
  return false;
}

// The containers whose own methods plans call.
bool is_container(PyTypeObject* type) {
  static PyTypeObject* const deque = reinterpret_cast<PyTypeObject*>(py::import_attr("collections", "deque").release());
  const PyTypeObject* const all[] = {&PyList_Type,      &PyDict_Type,  &PySet_Type,  &PyTuple_Type, &PyFrozenSet_Type,
                                     &PyByteArray_Type, &PyODict_Type, &PyCell_Type, deque};
  return std::ranges::find(all, type) != std::end(all);
}

// How containers, and objects without code of their own, are made and filled.
bool is_builder(PyObject* callee) {
  const auto is_of_object = [](std::string_view name) {
    return name == "__new__" || name == "__setattr__" || name == "__delattr__";
  };
  if (PyType_Check(callee)) return is_container(reinterpret_cast<PyTypeObject*>(callee));
  if (PyCFunction_Check(callee)) {
    PyObject* const self = PyCFunction_GET_SELF(callee);
    if (self == nullptr || !PyType_Check(self)) return false;
    const bool is_object = self == reinterpret_cast<PyObject*>(&PyBaseObject_Type);
    return (is_object && is_of_object(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name)) ||
           is_container(reinterpret_cast<PyTypeObject*>(self));
  }
  if (Py_IS_TYPE(callee, &PyMethodDescr_Type) || Py_IS_TYPE(callee, &PyWrapperDescr_Type)) {
    const bool is_object = PyDescr_TYPE(callee) == &PyBaseObject_Type;
    return (is_object && is_of_object(py::text_of(PyDescr_NAME(callee)))) || is_container(PyDescr_TYPE(callee));
  }
  return false;
}

// What a plan may change: what it makes, and what the arguments and free variables lead to.
bool may_change(const Expr& target) {
  if (target.kind == Expr::Kind::Fresh) return true;
  return target.kind == Expr::Kind::Source && target.source->root()->step != Step::Const;
}
bool changes_only_its_own(const Stmt& stmt) {
  if (stmt.kind != Stmt::Kind::Evaluate) return may_change(stmt.target);
  return stmt.value.kind == Expr::Kind::Call && !stmt.value.items.empty() && may_change(stmt.value.items.front());
}

// getattr(tensor, "T"): an attribute that C code computes.
bool is_read_of_tensor(const Node& node) {
  static PyObject* const read = py::import_attr("builtins", "getattr").release();
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  if (node.target.get() != read || node.args.size() != 2 || !node.kwargs.empty()) return false;
  PyObject* const name = node.args[1].constant.get();
  if (node.args[0].kind != Arg::Kind::Node || node.args[1].kind != Arg::Kind::Constant || !PyUnicode_CheckExact(name))
    return false;
  PyObject* const found = py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor), py::interned(name).get());
  return found != nullptr && Py_IS_TYPE(found, &PyGetSetDescr_Type);
}

// A name that a tensor's own class defines in C, or torch.Tensor does.
bool is_method_of_tensor(PyObject* name) {
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  return PyUnicode_CheckExact(name) &&
         py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor), py::interned(name).get()) != nullptr;
}

// ---- abstract base classes

bool is_abstract(PyObject* object) {
  static PyObject* const meta = py::import_attr("abc", "ABCMeta").release();
  return PyType_Check(object) && PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(meta)) != 0;
}

// What is registered with a class and with those below it: with this and the bases of a class it is known what is an
// instance of what.
std::string registered_with(PyObject* type) {
  static PyObject* const ask = py::import_attr("pellucid._capture_cache", "_registered_with").release();
  return py::text_of(py::take(PyObject_CallOneArg(ask, type)).get());
}

Form form_of(Kind kind) {
  switch (kind) {
    case Kind::ID_MATCH:
    case Kind::NOT_ID:
    case Kind::TYPE_MATCH:
    case Kind::EQUALS_MATCH:
    case Kind::KEY_MATCH:
    case Kind::DICT_KEYS:
    case Kind::DICT_CONTAINS:
    case Kind::HAS_ATTR:
    case Kind::SET_EQUALS:
    case Kind::SLOT_EMPTY:
    case Kind::NO_FINALIZER_ATTR:
    case Kind::NO_FINALIZER_KEY:
    case Kind::NO_FINALIZER_SLOT:
      return Form::Object;
    case Kind::LENGTH:
    case Kind::CELL_EMPTY:
    case Kind::NO_FINALIZER:
    case Kind::NO_FINALIZER_OWNED:
    case Kind::NO_FINALIZER_BUT_GENERATORS:
    case Kind::GRADIENT_TARGET:
    case Kind::WHOLE_MEMORY:
    case Kind::IS:
    case Kind::IS_NOT:
    case Kind::NOT_HANDLING:
    case Kind::ABC_TOKEN:
    case Kind::ITERATOR_HAS:
    case Kind::ITERATOR_LEFT:
    case Kind::ITERATOR_AT:
    case Kind::ITERATOR_SHAPE:
      return Form::Plain;
    case Kind::TYPE_LOOKUP:
      return Form::Lookup;
    case Kind::FUNCTION:
      return Form::Function;
    case Kind::TENSOR_MATCH:
      return Form::Tensor;
    case Kind::GLOBAL_STATE:
      return Form::State;
    case Kind::DISTINCT:
      return Form::Sources;
    default:
      return Form::Refused;
  }
}

bool has_operand_of_its_kind(const Guard& guard) {
  PyObject* const operand = guard.operand.get();
  switch (guard.kind) {
    case Kind::TYPE_MATCH:
      return PyType_Check(operand);
    case Kind::DICT_KEYS:
      return PyTuple_CheckExact(operand);
    case Kind::HAS_ATTR:
    case Kind::NO_FINALIZER_ATTR:
      return PyUnicode_CheckExact(operand);
    case Kind::SET_EQUALS:
      return PyTuple_CheckExact(operand) || PyFrozenSet_CheckExact(operand);
    case Kind::SLOT_EMPTY:
    case Kind::NO_FINALIZER_SLOT:
      return Py_IS_TYPE(operand, &PyMemberDescr_Type);
    default:
      return true;
  }
}

}  // namespace pellucid::runtime
