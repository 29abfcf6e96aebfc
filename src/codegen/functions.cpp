// Functions, bound methods and partial objects that the region made.
#include "codegen/walk.h"
#include "py/cpython.h"
#include "region/generator.h"

namespace pellucid::codegen {
namespace {

Stmt evaluate(Expr value) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = std::move(value);
  return stmt;
}

// A namespace exists before every region, also when nobody read it through a source.
Expr namespace_ref(Walker& walker, PyObject* globals) {
  return walker.exists(globals) ? walker.ref(globals) : Expr::constant(globals);
}

Expr closure_ref(Walker& walker, PyObject* closure) {
  if (closure == nullptr) return Expr::constant(Py_None);
  std::vector<Expr> cells;
  for (PyObject* cell : list_items(closure)) cells.push_back(walker.ref(cell));
  return Expr::list(Expr::Kind::Tuple, std::move(cells));
}

Expr shell_of(Walker& walker, PyFunctionObject* function) {
  std::vector<Expr> arguments;
  arguments.push_back(Expr::constant(function->func_code));
  arguments.push_back(namespace_ref(walker, function->func_globals));
  arguments.push_back(Expr::constant(function->func_name));
  arguments.push_back(Expr::constant(Py_None));
  arguments.push_back(closure_ref(walker, function->func_closure));
  return Expr::call(reinterpret_cast<PyObject*>(&PyFunction_Type), std::move(arguments));
}

PyObject* default_doc(PyFunctionObject* function) {
  PyObject* consts = reinterpret_cast<PyCodeObject*>(function->func_code)->co_consts;
  PyObject* first = PyTuple_GET_SIZE(consts) > 0 ? PyTuple_GET_ITEM(consts, 0) : Py_None;
  return PyUnicode_Check(first) ? first : Py_None;
}

bool is_same_text(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

// The function of a bound method: usually the one that the class of the object holds.
Expr function_ref(Walker& walker, PyObject* function, PyObject* self) {
  if (PyFunction_Check(function) && !walker.exists(function)) {
    PyTypeObject* type = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    PyObject* held = lookup(type, reinterpret_cast<PyFunctionObject*>(function)->func_name);
    if (held == function) return Expr::constant(function);
    if (held != nullptr && Py_TYPE(held) == &PyClassMethod_Type) {
      auto inner = py::take(PyObject_GetAttrString(held, "__func__"));
      if (inner.get() == function) return Expr::constant(function);
    }
  }
  return walker.ref(function);
}

}  // namespace

Recipe recipe_of_function(Walker& walker, PyObject* object, const Expr& self) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  Recipe recipe;
  recipe.make = shell_of(walker, function);
  const auto set = [&](const char* name, PyObject* value) {
    recipe.fill.push_back(set_c_attr(object, self.copy(), py::interned(name).get(), walker.ref(value)));
  };
  if (function->func_defaults != nullptr) set("__defaults__", function->func_defaults);
  if (function->func_kwdefaults != nullptr) set("__kwdefaults__", function->func_kwdefaults);
  if (function->func_annotations != nullptr) {  // may still be the compiler's flat tuple
    set("__annotations__", walker.hold(py::take(PyObject_GetAttrString(object, "__annotations__"))));
  }
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (!is_same_text(function->func_qualname, code->co_qualname)) set("__qualname__", function->func_qualname);
  PyObject* doc = function->func_doc != nullptr ? function->func_doc : Py_None;
  if (!is_same_text(doc, default_doc(function))) set("__doc__", doc);
  PyObject* module = PyDict_GetItemString(function->func_globals, "__name__");
  PyObject* own = function->func_module != nullptr ? function->func_module : Py_None;
  if (!is_same_text(own, module != nullptr ? module : Py_None)) set("__module__", own);
  add_attributes(walker, object, self.copy(), recipe);
  return recipe;
}

Recipe recipe_of_bound(Walker& walker, PyObject* object) {
  Recipe recipe;
  if (PyMethod_Check(object)) {
    std::vector<Expr> arguments;
    arguments.push_back(function_ref(walker, PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)));
    arguments.push_back(walker.ref(PyMethod_GET_SELF(object)));
    recipe.make = Expr::call(reinterpret_cast<PyObject*>(&PyMethod_Type), std::move(arguments));
    return recipe;
  }
  // [].append, (1).__add__: the descriptor of the class binds it again.
  const py::BoundNative bound = py::bound_native(object);
  if (bound.self == nullptr) cannot_reconstruct(object, "a C function that is bound to nothing");
  PyObject* descriptor = bound.descriptor;
  PyTypeObject* type = Py_TYPE(bound.self);
  if (region::is_generator(bound.self) && reinterpret_cast<region::TracedGenerator*>(bound.self)->is_polyfill)
    cannot_reconstruct(object, "a method of a builtin iterator");
  if (PyObject* real = descriptor == nullptr ? nullptr : real_method(descriptor)) {
    descriptor = real;
    type = &PyGen_Type;
  }
  if (descriptor == nullptr ||
      (Py_TYPE(descriptor) != &PyMethodDescr_Type && Py_TYPE(descriptor) != &PyWrapperDescr_Type)) {
    cannot_reconstruct(object, "bound to an object that does not have it any more");
  }
  std::vector<Expr> arguments;
  Expr self = walker.ref(bound.self);
  if (self.kind == Expr::Kind::Constant && is_literal(bound.self)) {
    // Methods are equal when their objects are one, and a constant of the code may be another object that is equal.
    arguments.push_back(Expr::constant(PyDescr_NAME(descriptor)));
    auto get = py::take(PyObject_GetAttrString(bound.self, "__getattribute__"));
    recipe.make = Expr::call(walker.hold(std::move(get)), std::move(arguments));
    return recipe;
  }
  auto bind = py::take(PyObject_GetAttrString(descriptor, "__get__"));
  arguments.push_back(std::move(self));
  arguments.push_back(Expr::constant(reinterpret_cast<PyObject*>(type)));  // None needs to be told
  recipe.make = Expr::call(walker.hold(std::move(bind)), std::move(arguments));
  return recipe;
}

Recipe recipe_of_partial(Walker& walker, PyObject* object, const Expr& self) {
  const auto part = [&](const char* name) { return walker.hold(py::take(PyObject_GetAttrString(object, name))); };
  PyObject *function = part("func"), *arguments = part("args"), *keywords = part("keywords");
  PyObject** dict = _PyObject_GetDictPtr(object);
  PyObject* attributes = dict != nullptr && *dict != nullptr ? *dict : Py_None;
  auto* type = reinterpret_cast<PyObject*>(partial_type());
  Recipe recipe;
  std::vector<Expr> placeholder;
  placeholder.push_back(Expr::constant(reinterpret_cast<PyObject*>(&PyType_Type)));
  recipe.make = Expr::call(type, std::move(placeholder));
  // Its constructor would flatten a partial of a partial; its state is taken as it is.
  std::vector<Expr> state, call;
  for (PyObject* item : {function, arguments, keywords, attributes}) state.push_back(walker.ref(item));
  call.push_back(self.copy());
  call.push_back(Expr::list(Expr::Kind::Tuple, std::move(state)));
  recipe.fill.push_back(evaluate(Expr::call(lookup(partial_type(), "__setstate__"), std::move(call))));
  return recipe;
}

}  // namespace pellucid::codegen
