#include "py/number_operator.h"

#include <span>

#include "py/ref.h"

namespace pellucid::py {
namespace {

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* inplace_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

constexpr BinaryOperator kBinary[] = {
#define BINARY(number, name, symbol, function, method, reflected, inplace, call) \
  {call, symbol, function, method, reflected, inplace},
#include "py/operators.def"
};
constexpr Comparison kComparisons[] = {
#define COMPARE(name, symbol, function, method, swapped) {symbol, function, method, Py_##swapped},
#include "py/operators.def"
};

// The rows stand at the places of their numbers.
constexpr int kNumbers[] = {
#define BINARY(number, ...) number,
#include "py/operators.def"
};
constexpr int kCompareNumbers[] = {
#define COMPARE(name, ...) Py_##name,
#include "py/operators.def"
};
constexpr bool are_in_order(std::span<const int> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != static_cast<int>(i)) return false;
  }
  return true;
}
static_assert(are_in_order(kNumbers) && are_in_order(kCompareNumbers));
static_assert(kBinary[kInPlace].inplace != nullptr && kBinary[kInPlace - 1].inplace == nullptr);

Owned<> method_of(PyTypeObject* type, const char* name) noexcept {
  const auto text = Owned<>::steal(PyUnicode_FromString(name));
  if (!text) return {};
  return Owned<>::share(_PyType_Lookup(type, text.get()));
}

// type(self).method(self, other); NotImplemented without such a method.
PyObject* call_method(PyObject* self, const char* name, PyObject* other) noexcept {
  const auto method = method_of(Py_TYPE(self), name);
  if (!method) return Py_NewRef(Py_NotImplemented);
  PyObject* arguments[] = {self, other};
  return PyObject_Vectorcall(method.get(), arguments, 2, nullptr);
}

}  // namespace

const BinaryOperator& binary_operator(int argument) noexcept { return kBinary[argument]; }
const Comparison& comparison(int op) noexcept { return kComparisons[op]; }

namespace {

PyObject* compare_after(PyObject* left, PyObject* right, int op, int tried) noexcept {
  PyTypeObject *lt = Py_TYPE(left), *rt = Py_TYPE(right);
  const bool right_first = lt != rt && PyType_IsSubtype(rt, lt) != 0;
  if (tried < 2) {
    PyObject* result = right_first ? call_method(left, kComparisons[op].method, right)
                                   : call_method(right, kComparisons[kComparisons[op].swapped].method, left);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  if (op == Py_EQ || op == Py_NE) return Py_NewRef((left == right) == (op == Py_EQ) ? Py_True : Py_False);
  return PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'",
                      kComparisons[op].symbol, lt->tp_name, rt->tp_name);
}

}  // namespace

PyObject* number_operator_after(PyObject* left, PyObject* right, int op, int tried) noexcept {
  if (op >= kCompareBase) return compare_after(left, right, op - kCompareBase, tried);
  if (tried == 0) return kBinary[op - kInPlace].call(left, right);
  PyTypeObject *lt = Py_TYPE(left), *rt = Py_TYPE(right);
  const char *forward = kBinary[op].method, *backward = kBinary[op].reflected;
  if (tried < 2 && lt != rt) {
    bool right_first = PyType_IsSubtype(rt, lt) != 0;
    if (right_first) {
      const auto of_right = method_of(rt, backward);
      right_first = of_right && of_right.get() != method_of(lt, backward).get();
    }
    PyObject* result = right_first ? call_method(left, forward, right) : call_method(right, backward, left);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  return PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %.100s: '%.100s' and '%.100s'",
                      kBinary[op].symbol, lt->tp_name, rt->tp_name);
}

}  // namespace pellucid::py
