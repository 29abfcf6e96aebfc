// How each kind of object is built again. One row per exact builtin type, one per builtin base of user classes.
#include <unordered_map>

#include "codegen/sets.h"
#include "codegen/walk.h"
#include "region/arrays.h"
#include "region/generator.h"
#include "region/made_late.h"
#include "region/number.h"
#include "region/torch_module.h"

namespace pellucid::codegen {
namespace {

using Kind = Expr::Kind;

bool is_exact(PyObject* object, PyTypeObject* type) { return Py_TYPE(object) == type; }

// A method of a builtin type as the plain function of its dict: `list.append`, `object.__setattr__`.
PyObject* own_method(PyTypeObject* type, const char* name) {
  PyObject* found = lookup(type, name);
  if (found == nullptr) py::check((PyErr_Format(PyExc_SystemError, "%s has no %s", type->tp_name, name), -1));
  return found;
}

// base.__new__(type, *arguments): no __new__ or __init__ of the user's class.
Expr call_new(Walker& walker, PyTypeObject* base, PyTypeObject* type, std::vector<Expr> arguments) {
  PyObject* make = walker.hold(py::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__new__")));
  arguments.insert(arguments.begin(), walker.ref(reinterpret_cast<PyObject*>(type)));
  return Expr::call(make, std::move(arguments));
}

Stmt statement(Stmt::Kind kind, Expr target, Expr key, Expr value) {
  Stmt stmt{.kind = kind};
  stmt.target = std::move(target);
  stmt.key = std::move(key);
  stmt.value = std::move(value);
  return stmt;
}
Stmt evaluate(Expr value) { return statement(Stmt::Kind::Evaluate, {}, {}, std::move(value)); }

std::vector<Expr> refs(Walker& walker, const std::vector<PyObject*>& objects) {
  std::vector<Expr> items;
  items.reserve(objects.size());
  for (PyObject* object : objects) items.push_back(walker.ref(object));
  return items;
}

Expr ref_key(Walker& walker, PyObject* container, PyObject* key) {
  if (!has_c_hash(key)) cannot_reconstruct(container, "with a key whose __hash__ is written in Python");
  return walker.ref(key);
}

bool all_constant(const Walker& walker, const std::vector<PyObject*>& items) {
  for (PyObject* item : items) {
    if (!walker.is_constant(item)) return false;
  }
  return true;
}

constexpr std::size_t kLongList = 16;

Expr list_literal(Walker& walker, const std::vector<PyObject*>& items) {
  if (items.size() >= kLongList && all_constant(walker, items)) {  // one constant instead of many
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (std::size_t i = 0; i < items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
    return Expr::call(reinterpret_cast<PyObject*>(&PyList_Type), exprs(Expr::constant(tuple.get())));
  }
  return Expr::list(Kind::List, refs(walker, items));
}

Recipe recipe_of_list(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  const auto items = list_items(object);
  if (is_exact(object, &PyList_Type)) {
    recipe.literal = list_literal(walker, items);
    recipe.make = Expr::list(Kind::List, {});
  } else {
    recipe.make = call_new(walker, &PyList_Type, Py_TYPE(object), {});
  }
  for (PyObject* item : items) recipe.fill.push_back(statement(Stmt::Kind::Append, self.copy(), {}, walker.ref(item)));
  return recipe;
}

Recipe recipe_of_tuple(Walker& walker, PyObject* object, const Expr&) {
  PyTypeObject* type = Py_TYPE(object);
  Expr items = Expr::list(Kind::Tuple, refs(walker, list_items(object)));
  Recipe recipe;
  if (is_exact(object, &PyTuple_Type)) {
    recipe.make = std::move(items);
  } else {
    recipe.make = call_new(walker, &PyTuple_Type, type, exprs(std::move(items)));
  }
  return recipe;
}

// torch.Size and structseq types (torch.return_types.max) build themselves from one sequence, in C.
Recipe recipe_of_c_tuple(Walker& walker, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type != region::torch_size_type() && lookup(type, "n_sequence_fields") == nullptr) cannot_reconstruct(object, "");
  Recipe recipe;
  recipe.make =
      Expr::call(reinterpret_cast<PyObject*>(type), exprs(Expr::list(Kind::Tuple, refs(walker, list_items(object)))));
  return recipe;
}

// Storing with the builtin's own operation, whatever a subclass overrides.
Stmt store_item(PyTypeObject* base, PyTypeObject* type, const Expr& self, Expr key, Expr value) {
  if (type->tp_as_mapping->mp_ass_subscript == base->tp_as_mapping->mp_ass_subscript) {
    return statement(Stmt::Kind::SetItem, self.copy(), std::move(key), std::move(value));
  }
  return evaluate(Expr::call(own_method(base, "__setitem__"), exprs(self.copy(), std::move(key), std::move(value))));
}

void fill_dict(Walker& walker, PyObject* object, PyTypeObject* base, const Expr& self, Recipe& recipe) {
  for (auto [key, value] : dict_items(object)) {
    Expr key_ref = ref_key(walker, object, key);
    recipe.fill.push_back(store_item(base, Py_TYPE(object), self, std::move(key_ref), walker.ref(value)));
  }
}

Recipe recipe_of_dict(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  fill_dict(walker, object, &PyDict_Type, self, recipe);
  if (!is_exact(object, &PyDict_Type)) {
    recipe.make = call_new(walker, &PyDict_Type, Py_TYPE(object), {});
    return recipe;
  }
  recipe.make = Expr::list(Kind::Map, {});
  recipe.literal = Expr::list(Kind::Map, {});
  for (const Stmt& entry : recipe.fill) {
    recipe.literal->items.push_back(entry.key.copy());
    recipe.literal->items.push_back(entry.value.copy());
  }
  return recipe;
}

Recipe recipe_of_ordered_dict(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  PyTypeObject* base = ordered_dict_type();
  recipe.make = is_exact(object, base) ? Expr::call(reinterpret_cast<PyObject*>(base), {})
                                       : call_new(walker, base, Py_TYPE(object), {});
  fill_dict(walker, object, base, self, recipe);
  return recipe;
}

Recipe recipe_of_default_dict(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  PyTypeObject* base = default_dict_type();
  recipe.make = call_new(walker, base, Py_TYPE(object), {});
  auto name = py::interned("default_factory");
  PyObject* factory =
      walker.hold(py::take(lookup(base, name.get())->ob_type->tp_descr_get(lookup(base, name.get()), object, nullptr)));
  if (factory != Py_None) recipe.fill.push_back(set_c_attr(object, self.copy(), name.get(), walker.ref(factory)));
  fill_dict(walker, object, base, self, recipe);
  return recipe;
}

Recipe recipe_of_set(Walker& walker, PyObject* object, const Expr& self) {
  const bool is_plain = is_exact(object, &PySet_Type);
  Recipe recipe;
  recipe.make = is_plain ? Expr::call(reinterpret_cast<PyObject*>(&PySet_Type), {})
                         : call_new(walker, &PySet_Type, Py_TYPE(object), {});
  const auto order = order_of_insertion(walker, object, false);
  if (!order) {
    recipe.make = laid_out(walker, std::move(recipe.make), object);
    if (is_plain) recipe.literal = recipe.make.copy();
    return recipe;
  }
  std::vector<Expr> items;
  for (PyObject* item : *order) {
    items.push_back(ref_key(walker, object, item));
    recipe.fill.push_back(statement(Stmt::Kind::Add, self.copy(), {}, items.back().copy()));
  }
  if (is_plain) recipe.literal = items.empty() ? recipe.make.copy() : Expr::list(Kind::Set, std::move(items));
  return recipe;
}

Recipe recipe_of_frozenset(Walker& walker, PyObject* object, const Expr&) {
  const auto order = order_of_insertion(walker, object, false);
  std::vector<Expr> items;
  for (PyObject* item : order ? *order : set_items(object)) items.push_back(ref_key(walker, object, item));
  Recipe recipe;
  recipe.make = call_new(walker, &PyFrozenSet_Type, Py_TYPE(object), exprs(Expr::list(Kind::Tuple, std::move(items))));
  if (!order) recipe.make = laid_out(walker, std::move(recipe.make), object);
  return recipe;
}

Recipe recipe_of_deque(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  PyTypeObject* base = deque_type();
  const auto items = deque_items(object);
  auto maxlen = py::take(lookup(base, "maxlen")->ob_type->tp_descr_get(lookup(base, "maxlen"), object, nullptr));
  if (is_exact(object, base)) {
    auto* callee = reinterpret_cast<PyObject*>(base);
    recipe.make = Expr::call(callee, exprs(Expr::list(Kind::Tuple, {}), Expr::constant(maxlen.get())));
    recipe.literal =
        Expr::call(callee, exprs(Expr::list(Kind::Tuple, refs(walker, items)), Expr::constant(maxlen.get())));
  } else {
    recipe.make = call_new(walker, base, Py_TYPE(object), {});
    recipe.fill.push_back(evaluate(Expr::call(
        own_method(base, "__init__"), exprs(self.copy(), Expr::list(Kind::Tuple, {}), Expr::constant(maxlen.get())))));
  }
  for (PyObject* item : items) {
    recipe.fill.push_back(evaluate(Expr::call(own_method(base, "append"), exprs(self.copy(), walker.ref(item)))));
  }
  return recipe;
}

// int, float, complex, str and bytes subclasses: the exact value, read from the object's own memory.
py::Owned<> exact_value(PyObject* object) {
  if (PyLong_Check(object)) return py::take(_PyLong_Copy(reinterpret_cast<PyLongObject*>(object)));
  if (PyFloat_Check(object)) return py::take(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
  if (PyComplex_Check(object)) {
    return py::take(PyComplex_FromCComplex(reinterpret_cast<PyComplexObject*>(object)->cval));
  }
  if (PyUnicode_Check(object)) return py::take(PyUnicode_FromObject(object));
  return py::take(PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
}

Recipe recipe_of_value(Walker& walker, PyObject* object, const Expr&) {
  Recipe recipe;
  if (is_nan(object)) {  // the constructor would give back the object itself
    auto negated = py::take(PyNumber_Negative(object));
    recipe.make = Expr::call(walker.hold(py::take(PyObject_GetAttrString(negated.get(), "__neg__"))), {});
    return recipe;
  }
  auto value = exact_value(object);
  recipe.make = call_new(walker, Py_TYPE(value.get()), Py_TYPE(object), exprs(Expr::constant(value.get())));
  return recipe;
}

Recipe recipe_of_bytearray(Walker&, PyObject* object, const Expr&) {
  auto bytes = py::take(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(object), PyByteArray_GET_SIZE(object)));
  Recipe recipe;
  recipe.make = Expr::call(reinterpret_cast<PyObject*>(&PyByteArray_Type), exprs(Expr::constant(bytes.get())));
  return recipe;
}

Recipe recipe_of_slice(Walker& walker, PyObject* object, const Expr&) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  Recipe recipe;
  recipe.make = Expr::list(Kind::Slice, refs(walker, {slice->start, slice->stop, slice->step}));
  return recipe;
}

Recipe recipe_of_cell(Walker& walker, PyObject* object, const Expr& self) {
  Recipe recipe;
  recipe.make = Expr::call(reinterpret_cast<PyObject*>(&PyCell_Type), {});
  PyObject* content = PyCell_GET(object);
  if (content != nullptr) {
    recipe.literal = Expr::call(reinterpret_cast<PyObject*>(&PyCell_Type), exprs(walker.ref(content)));
    recipe.fill.push_back(set_c_attr(object, self.copy(), py::interned("cell_contents").get(), walker.ref(content)));
  }
  return recipe;
}

Recipe recipe_of_plain(Walker& walker, PyObject* object, PyTypeObject* base) {
  Recipe recipe;
  recipe.make = call_new(walker, base, Py_TYPE(object), {});
  return recipe;
}

// Exceptions whose state is their arguments and some attributes that C keeps in members.
const char* const* members_of(PyTypeObject* base) {
  static const char* const kNone[] = {nullptr};
  static const char* const kName[] = {"name", nullptr};
  static const char* const kAttribute[] = {"name", "obj", nullptr};
  static const char* const kValue[] = {"value", nullptr};
  static const char* const kCode[] = {"code", nullptr};
  static const char* const kImport[] = {"msg", "name", "path", nullptr};
  const auto is = [&](PyObject* type) { return base == reinterpret_cast<PyTypeObject*>(type); };
  if (is(PyExc_AttributeError)) return kAttribute;
  if (is(PyExc_NameError)) return kName;
  if (is(PyExc_StopIteration)) return kValue;
  if (is(PyExc_SystemExit)) return kCode;
  if (is(PyExc_ImportError)) return kImport;
  if (PyType_IsSubtype(base, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0) return kNone;
  return base->tp_basicsize == static_cast<Py_ssize_t>(sizeof(PyBaseExceptionObject)) ? kNone : nullptr;
}

// One that Python code raised: PyObject_GetAttr notes name and object in it on its way out.
bool is_of_unknown_attribute(PyObject* object) {
  const auto* error = reinterpret_cast<PyAttributeErrorObject*>(object);
  return error->traceback != nullptr && error->traceback != Py_None && error->name == nullptr && error->obj == nullptr;
}

Recipe recipe_of_exception(Walker& walker, PyObject* object, PyTypeObject* base, const Expr& self) {
  auto* error = reinterpret_cast<PyBaseExceptionObject*>(object);
  const char* const* members = members_of(base);
  if (members == nullptr) cannot_reconstruct(object, "an exception with state of its own");
  if (base == reinterpret_cast<PyTypeObject*>(PyExc_AttributeError) && is_of_unknown_attribute(object))
    cannot_reconstruct(object, "whoever read an attribute may have noted in it which");
  Recipe recipe;
  const auto set = [&](const char* name, PyObject* value) {
    recipe.fill.push_back(set_c_attr(object, self.copy(), py::interned(name).get(), walker.ref(value)));
  };
  if (PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0) {
    // Made of the exceptions themselves: the list in its arguments may be filled later.
    auto* group = reinterpret_cast<PyBaseExceptionGroupObject*>(object);
    recipe.make = call_new(walker, base, Py_TYPE(object), exprs(walker.ref(group->msg), walker.ref(group->excs)));
    set("args", error->args);
  } else {
    recipe.make = call_new(walker, base, Py_TYPE(object), refs(walker, list_items(error->args)));
  }
  for (; *members != nullptr; ++members) {
    auto value = py::take(PyObject_GetAttrString(object, *members));
    if (value.get() != Py_None) set(*members, walker.hold(std::move(value)));
  }
  if (error->cause != nullptr) set("__cause__", error->cause);  // also sets __suppress_context__
  if (error->context != nullptr) set("__context__", error->context);
  add_raised(walker, object, self, recipe);
  if ((error->suppress_context != 0) != (error->cause != nullptr))
    set("__suppress_context__", error->suppress_context != 0 ? Py_True : Py_False);
  return recipe;
}

// An output of the graph, with what the region put into it.
Recipe recipe_of_tensor(Walker& walker, PyObject* object, graph::Node* output, const Expr& self) {
  static PyObject* const freed = py::import_attr("pellucid._freed", "freed").release();
  Recipe recipe;
  graph::Node* detached = walker.detached(object);
  recipe.make = detached != nullptr ? Expr::call(freed, exprs(Expr::of(detached))) : Expr::of(output);
  if (walker.capture().late_parameters.contains(object))
    recipe.make = Expr::call(reinterpret_cast<PyObject*>(Py_TYPE(object)),
                             exprs(std::move(recipe.make), Expr::constant(Py_False)));
  add_attributes(walker, object, self.copy(), recipe);
  const auto& gradients = walker.capture().gradients;
  if (const auto gradient = gradients.find(object); gradient != gradients.end())
    recipe.fill.push_back(
        set_c_attr(object, self.copy(), py::interned("grad").get(), walker.ref(gradient->second.get())));
  return recipe;
}

Recipe recipe_of_made_late(Walker& walker, PyObject* object, const Expr&) {
  if (!region::is_made_late(object)) cannot_reconstruct(object, "");
  Recipe recipe;
  recipe.make = Expr::call(region::maker_of(object), refs(walker, list_items(region::arguments_of(object))));
  return recipe;
}

// A tensor of a class of the program: what the graph gives, as an object of that class.
Recipe recipe_of_subclass(Walker& walker, PyObject* object, const Expr& self) {
  static PyObject* const make = PyObject_GetAttrString(py::import_attr("torch._C", "TensorBase").get(), "as_subclass");
  if (walker.detached(object) != nullptr) cannot_reconstruct(object, "whose graph a backward pass has freed");
  Recipe recipe;
  recipe.make = Expr::call(make, exprs(Expr::of(walker.capture().node_of.at(object)),
                                       walker.ref(reinterpret_cast<PyObject*>(Py_TYPE(object)))));
  add_attributes(walker, object, self.copy(), recipe);
  return recipe;
}

using Row = Recipe (*)(Walker&, PyObject*, const Expr&);

// Types that are matched exactly (a subclass of them cannot be rebuilt).
Row row_of_exact(PyTypeObject* type) {
  static const auto* const kRows = [] {
    auto* rows = new std::unordered_map<PyTypeObject*, Row>{
        {&PyCell_Type, recipe_of_cell},           {&PySlice_Type, recipe_of_slice},
        {&PyByteArray_Type, recipe_of_bytearray}, {&PyFunction_Type, recipe_of_function},
        {partial_type(), recipe_of_partial},      {region::generator_type(), recipe_of_generator},
        {&PyFrame_Type, recipe_of_frame},         {&PyTraceBack_Type, recipe_of_traceback},
        {&PyCapsule_Type, recipe_of_made_late},
    };
    for (PyTypeObject* type : iterator_types()) rows->emplace(type, recipe_of_iterator);
    return rows;
  }();
  auto found = kRows->find(type);
  return found == kRows->end() ? nullptr : found->second;
}

// Builtin bases, for themselves and for user classes that extend them.
Row row_of_base(PyTypeObject* base) {
  static const auto* const kRows = new std::unordered_map<PyTypeObject*, Row>{
      {&PyList_Type, recipe_of_list},
      {&PyTuple_Type, recipe_of_tuple},
      {&PyDict_Type, recipe_of_dict},
      {ordered_dict_type(), recipe_of_ordered_dict},
      {default_dict_type(), recipe_of_default_dict},
      {&PySet_Type, recipe_of_set},
      {&PyFrozenSet_Type, recipe_of_frozenset},
      {deque_type(), recipe_of_deque},
      {&PyLong_Type, recipe_of_value},
      {&PyFloat_Type, recipe_of_value},
      {&PyComplex_Type, recipe_of_value},
      {&PyUnicode_Type, recipe_of_value},
      {&PyBytes_Type, recipe_of_value},
  };
  auto found = kRows->find(base);
  return found == kRows->end() ? nullptr : found->second;
}

bool is_plain_base(PyTypeObject* base) { return base == &PyBaseObject_Type || base == simple_namespace_type(); }

// Whether base.__new__ makes instances of the type: not where a class in between is written in C, with state of its own
// (random.Random).
bool makes(PyTypeObject* base, PyTypeObject* type) {
  static const newfunc python_new = [] {
    auto name = py::take(Py_BuildValue("(s(){s:O})", "WithNew", "__new__", reinterpret_cast<PyObject*>(&PyLong_Type)));
    auto made = py::take(PyObject_Call(reinterpret_cast<PyObject*>(&PyType_Type), name.get(), nullptr));
    return reinterpret_cast<PyTypeObject*>(made.get())->tp_new;
  }();
  while (type != nullptr && type->tp_new == python_new) type = type->tp_base;
  return type != nullptr && type->tp_new == base->tp_new;
}

Recipe recipe_by_base(Walker& walker, PyObject* object, const Expr& self) {
  PyTypeObject* base = native_base(Py_TYPE(object));
  if (!makes(base, Py_TYPE(object))) cannot_reconstruct(object, "an object with state in C");
  if (Row row = row_of_base(base)) return row(walker, object, self);
  if (is_plain_base(base)) return recipe_of_plain(walker, object, base);
  if (PyExceptionInstance_Check(object)) return recipe_of_exception(walker, object, base, self);
  if (PyTuple_Check(object) && Py_TYPE(object) == base) return recipe_of_c_tuple(walker, object);
  cannot_reconstruct(object, "");
}

}  // namespace

Recipe recipe_of(Walker& walker, PyObject* object, int id) {
  const Expr self = Expr::fresh(id);
  PyTypeObject* type = Py_TYPE(object);
  if (region::is_number(object)) {  // computed again behind the graph
    const region::Number* number = region::as_number(object);
    Recipe recipe;
    recipe.make = Expr::call(number->function, refs(walker, list_items(number->arguments)));
    return recipe;
  }
  if (walker.is_array_of_tensor(object)) {
    static PyObject* const array = py::import_attr("pellucid._numpy_torch", "array_of").release();
    static PyObject* const scalar = py::import_attr("pellucid._numpy_torch", "scalar_of").release();
    graph::Node* node = walker.capture().bodies->here(walker.capture().node_of.at(object));
    Recipe recipe;
    recipe.make = Expr::call(region::is_scalar_stand_in(object) ? scalar : array, exprs(Expr::of(node)));
    return recipe;
  }
  if (is_object_of_subclass(object)) return recipe_of_subclass(walker, object, self);
  if (const auto found = walker.capture().node_of.find(object); found != walker.capture().node_of.end())
    return recipe_of_tensor(walker, object, walker.capture().bodies->here(found->second), self);
  if (Row row = row_of_exact(type)) return row(walker, object, self);
  if (type == &PyMethod_Type || PyCFunction_Check(object) || type == &_PyMethodWrapper_Type)
    return recipe_of_bound(walker, object);
  if (lookup(type, "__del__") != nullptr) cannot_reconstruct(object, "its class has a __del__");
  Recipe recipe = recipe_by_base(walker, object, self);
  const std::size_t before = recipe.fill.size();
  add_attributes(walker, object, self.copy(), recipe);
  if (recipe.fill.size() != before || recipe.instance_dict != nullptr) recipe.literal.reset();
  return recipe;
}

}  // namespace pellucid::codegen
