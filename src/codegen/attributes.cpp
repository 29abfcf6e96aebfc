// Attributes of instances that the region made or changed, written as C code would: `__init__`, `__setattr__`,
// properties and other descriptors written in Python never run.
#include "base/reasons.h"
#include "codegen/walk.h"

namespace pellucid::codegen {
namespace {

PyObject* object_attribute(const char* name) {
  return PyDict_GetItemString(PyBaseObject_Type.tp_dict, name);  // a slot wrapper, there for ever
}

bool is_c_descriptor(PyObject* found) {
  return Py_TYPE(found) == &PyMemberDescr_Type || Py_TYPE(found) == &PyGetSetDescr_Type;
}

Stmt attr_statement(Stmt::Kind kind, Expr target, PyObject* name, Expr value) {
  Stmt stmt{.kind = kind};
  stmt.target = std::move(target);
  stmt.name = py::Owned<>::share(name);
  stmt.value = std::move(value);
  return stmt;
}

Stmt evaluate(Expr value) {
  Stmt stmt{.kind = Stmt::Kind::Evaluate};
  stmt.value = std::move(value);
  return stmt;
}

std::vector<Expr> operands(Expr first, Expr second) {
  std::vector<Expr> items;
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return items;
}
std::vector<Expr> operands(Expr first, Expr second, Expr third) {
  std::vector<Expr> items = operands(std::move(first), std::move(second));
  items.push_back(std::move(third));
  return items;
}

Expr instance_dict_of(Expr target) {
  auto name = py::interned("__dict__");
  return Expr::call(object_attribute("__getattribute__"), operands(std::move(target), Expr::constant(name.get())));
}

// The slot descriptors of the Python classes along the MRO: one storage place each, even when a subclass hides the
// name.
void add_slots(Walker& walker, PyObject* object, const Expr& self, Recipe& recipe) {
  PyObject* mro = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_python_class(type)) continue;
    for (auto [name, descriptor] : dict_items(type->tp_dict)) {
      if (Py_TYPE(descriptor) != &PyMemberDescr_Type || PyDescr_TYPE(descriptor) != type) continue;
      auto value =
          py::Owned<>::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
      if (!value) {
        PyErr_Clear();  // the slot is empty
        continue;
      }
      Expr content = walker.ref(walker.hold(std::move(value)));
      if (lookup(Py_TYPE(object), name) == descriptor) {
        recipe.fill.push_back(set_c_attr(object, self.copy(), name, std::move(content)));
      } else {
        auto setter = py::take(PyObject_GetAttrString(descriptor, "__set__"));
        recipe.fill.push_back(evaluate(Expr::call(setter.get(), operands(self.copy(), std::move(content)))));
      }
    }
  }
}

void add_instance_dict(Walker& walker, PyObject* object, const Expr& self, Recipe& recipe) {
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (slot == nullptr || *slot == nullptr) return;
  recipe.instance_dict = *slot;
  recipe.attributes_begin = recipe.fill.size();
  for (auto [name, value] : dict_items(*slot)) {
    recipe.fill.push_back(set_instance_attr(Py_TYPE(object), self.copy(), name, walker.ref(value)));
  }
  recipe.attributes_end = recipe.fill.size();
}

}  // namespace

void add_attributes(Walker& walker, PyObject* object, Expr self, Recipe& recipe) {
  add_slots(walker, object, self, recipe);
  add_instance_dict(walker, object, self, recipe);
}

Stmt set_instance_attr(PyTypeObject* type, Expr target, PyObject* name, Expr value) {
  if (!PyUnicode_CheckExact(name) || has_data_descriptor(type, name)) {
    Stmt stmt{.kind = Stmt::Kind::SetItem};
    stmt.target = instance_dict_of(std::move(target));
    stmt.key = Expr::constant(name);
    stmt.value = std::move(value);
    return stmt;
  }
  if (has_plain_setattr(type)) return attr_statement(Stmt::Kind::SetAttr, std::move(target), name, std::move(value));
  return evaluate(
      Expr::call(object_attribute("__setattr__"), operands(std::move(target), Expr::constant(name), std::move(value))));
}

Stmt del_instance_attr(PyTypeObject* type, Expr target, PyObject* name) {
  if (!PyUnicode_CheckExact(name) || has_data_descriptor(type, name)) {
    Stmt stmt{.kind = Stmt::Kind::DelItem};
    stmt.target = instance_dict_of(std::move(target));
    stmt.key = Expr::constant(name);
    return stmt;
  }
  if (has_plain_setattr(type)) return attr_statement(Stmt::Kind::DelAttr, std::move(target), name, {});
  return evaluate(Expr::call(object_attribute("__delattr__"), operands(std::move(target), Expr::constant(name))));
}

namespace {
// object's own function, or type's when the target is a class.
PyObject* setter_for(PyObject* target, const char* name) {
  return PyType_Check(target) ? PyDict_GetItemString(PyType_Type.tp_dict, name) : object_attribute(name);
}
void refuse_python_descriptor(PyObject* target, PyObject* name) {
  PyObject* found = lookup(Py_TYPE(target), name);
  if (found == nullptr || Py_TYPE(found)->tp_descr_set == nullptr || is_c_descriptor(found)) return;
  throw GraphBreak(Reason::UnsupportedMutation,
                   {{"target", "attribute '" + py::text_of(name) + "' of a " + Py_TYPE(target)->tp_name}});
}
}  // namespace

Stmt set_c_attr(PyObject* object, Expr target, PyObject* name, Expr value) {
  refuse_python_descriptor(object, name);
  if (has_plain_setattr(Py_TYPE(object)))
    return attr_statement(Stmt::Kind::SetAttr, std::move(target), name, std::move(value));
  return evaluate(Expr::call(setter_for(object, "__setattr__"),
                             operands(std::move(target), Expr::constant(name), std::move(value))));
}

Stmt del_c_attr(PyObject* object, Expr target, PyObject* name) {
  refuse_python_descriptor(object, name);
  if (has_plain_setattr(Py_TYPE(object))) return attr_statement(Stmt::Kind::DelAttr, std::move(target), name, {});
  return evaluate(Expr::call(setter_for(object, "__delattr__"), operands(std::move(target), Expr::constant(name))));
}

}  // namespace pellucid::codegen
