#include "region/number.h"

#include "region/numbers.h"
#include "region/types.h"

namespace pellucid::region {
namespace {

void dealloc(PyObject* self) {
  Number* number = as_number(self);
  Py_CLEAR(number->value);
  Py_CLEAR(number->function);
  Py_CLEAR(number->arguments);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// The slots are the net below the rules: they give what the plain value gives, and leave a guard.
PyObject* plain(PyObject* object) {  // borrowed
  if (!is_number(object)) return object;
  if (as_number(object)->settled) return as_number(object)->value;  // a key of a dict, also behind the region
  if (as_number(object)->numbers == nullptr)
    py::check((PyErr_SetString(PyExc_RuntimeError, "pellucid: a symbolic number outlived its region"), -1));
  try {
    return as_number(object)->numbers->plain(object);
  } catch (const GraphBreak& stop) {  // C code is in between, for which that is an exception like any other
    as_number(object)->numbers->note_refusal(stop);
    throw;
  }
}

template <auto function>
PyObject* unary(PyObject* self) {
  return py::enter([&] { return py::Owned<>::steal(function(plain(self))); });
}
template <auto function>
PyObject* binary(PyObject* left, PyObject* right) {
  return py::enter([&] { return py::Owned<>::steal(function(plain(left), plain(right))); });
}
PyObject* power(PyObject* base, PyObject* exponent, PyObject* modulus) {
  return py::enter([&] { return py::Owned<>::steal(PyNumber_Power(plain(base), plain(exponent), plain(modulus))); });
}
PyObject* compare(PyObject* left, PyObject* right, int op) {
  return py::enter([&] { return py::Owned<>::steal(PyObject_RichCompare(plain(left), plain(right), op)); });
}
PyObject* get_attribute(PyObject* self, PyObject* name) {
  return py::enter([&] { return py::Owned<>::steal(PyObject_GetAttr(plain(self), name)); });
}
template <auto function>  // whose answer is no object: -1 with the error pending
auto answer(PyObject* self) -> decltype(function(self)) {
  const auto number = py::Owned<>::steal(py::enter([&] { return py::Owned<>::share(plain(self)); }));
  return number ? function(number.get()) : -1;
}

#define SLOT(name, function) \
  { name, reinterpret_cast<void*>(function) }
PyType_Slot slots[] = {SLOT(Py_tp_dealloc, dealloc),
                       SLOT(Py_tp_hash, answer<PyObject_Hash>),
                       SLOT(Py_tp_richcompare, compare),
                       SLOT(Py_tp_str, unary<PyObject_Str>),
                       SLOT(Py_tp_repr, unary<PyObject_Repr>),
                       SLOT(Py_tp_getattro, get_attribute),
                       SLOT(Py_nb_bool, answer<PyObject_IsTrue>),
                       SLOT(Py_nb_index, unary<PyNumber_Index>),
                       SLOT(Py_nb_int, unary<PyNumber_Long>),
                       SLOT(Py_nb_float, unary<PyNumber_Float>),
                       SLOT(Py_nb_negative, unary<PyNumber_Negative>),
                       SLOT(Py_nb_positive, unary<PyNumber_Positive>),
                       SLOT(Py_nb_absolute, unary<PyNumber_Absolute>),
                       SLOT(Py_nb_invert, unary<PyNumber_Invert>),
                       SLOT(Py_nb_add, binary<PyNumber_Add>),
                       SLOT(Py_nb_subtract, binary<PyNumber_Subtract>),
                       SLOT(Py_nb_multiply, binary<PyNumber_Multiply>),
                       SLOT(Py_nb_remainder, binary<PyNumber_Remainder>),
                       SLOT(Py_nb_divmod, binary<PyNumber_Divmod>),
                       SLOT(Py_nb_power, power),
                       SLOT(Py_nb_lshift, binary<PyNumber_Lshift>),
                       SLOT(Py_nb_rshift, binary<PyNumber_Rshift>),
                       SLOT(Py_nb_and, binary<PyNumber_And>),
                       SLOT(Py_nb_xor, binary<PyNumber_Xor>),
                       SLOT(Py_nb_or, binary<PyNumber_Or>),
                       SLOT(Py_nb_floor_divide, binary<PyNumber_FloorDivide>),
                       SLOT(Py_nb_true_divide, binary<PyNumber_TrueDivide>),
                       {0, nullptr}};
#undef SLOT
PyType_Spec spec = {"pellucid._core.SymbolicNumber", sizeof(Number), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

bool holds_open(PyObject* sequence) noexcept {
  if (!PyTuple_Check(sequence) && !PyList_Check(sequence)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    if (is_open(PySequence_Fast_GET_ITEM(sequence, i))) return true;
  }
  return false;
}

bool holds_numbers_alone(PyObject* sequence) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    if (!is_number(item) && cat_of(item) != Cat::Number) return false;
  }
  return true;
}

void initialise_numbers() {
  if (number_type == nullptr) number_type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromSpec(&spec)).release());
}

}  // namespace pellucid::region
