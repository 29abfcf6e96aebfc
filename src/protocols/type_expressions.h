// Types as annotations write them: classes, list[int], Callable[[int], str], int | None. They are values that nothing
// changes.
#pragma once
#include <Python.h>

namespace pellucid::protocols {

// CPython's own `|` makes a union of it, and no code of the program has a part in that.
inline bool is_type_expression(PyObject* object) {
  const PyNumberMethods* slots = Py_TYPE(object)->tp_as_number;
  return slots != nullptr && slots->nb_or == PyType_Type.tp_as_number->nb_or;
}

inline bool makes_union(PyObject* left, PyObject* right) {
  const bool a = is_type_expression(left), b = is_type_expression(right);
  return (a && (b || right == Py_None)) || (b && left == Py_None);
}

// What annotations are made of: types, None, `...`, texts and numbers (of Literal), what typing makes (TypeVar,
// Optional[…], ForwardRef …), aliases of all these, and tuples and lists of them. Hashing and comparing them runs no
// code of the program.
bool is_type_value(PyObject* value);

}  // namespace pellucid::protocols
