#include "py/number_operator.h"

#include <string>

#include "py/ref.h"

namespace pellucid::py {
namespace {

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* inplace_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

struct Row {
  NumberOperator call;
  const char* symbol;
  const char* method;  // without its underscores and the r of the reflected one
};
constexpr Row kOperators[] = {
    // in the order of NB_ADD …
    {PyNumber_Add, "+", "add"},
    {PyNumber_And, "&", "and"},
    {PyNumber_FloorDivide, "//", "floordiv"},
    {PyNumber_Lshift, "<<", "lshift"},
    {PyNumber_MatrixMultiply, "@", "matmul"},
    {PyNumber_Multiply, "*", "mul"},
    {PyNumber_Remainder, "%", "mod"},
    {PyNumber_Or, "|", "or"},
    {power, "** or pow()", "pow"},
    {PyNumber_Rshift, ">>", "rshift"},
    {PyNumber_Subtract, "-", "sub"},
    {PyNumber_TrueDivide, "/", "truediv"},
    {PyNumber_Xor, "^", "xor"},
    {PyNumber_InPlaceAdd, "+=", "add"},
    {PyNumber_InPlaceAnd, "&=", "and"},
    {PyNumber_InPlaceFloorDivide, "//=", "floordiv"},
    {PyNumber_InPlaceLshift, "<<=", "lshift"},
    {PyNumber_InPlaceMatrixMultiply, "@=", "matmul"},
    {PyNumber_InPlaceMultiply, "*=", "mul"},
    {PyNumber_InPlaceRemainder, "%=", "mod"},
    {PyNumber_InPlaceOr, "|=", "or"},
    {inplace_power, "**=", "pow"},
    {PyNumber_InPlaceRshift, ">>=", "rshift"},
    {PyNumber_InPlaceSubtract, "-=", "sub"},
    {PyNumber_InPlaceTrueDivide, "/=", "truediv"},
    {PyNumber_InPlaceXor, "^=", "xor"},
};
constexpr const char* kCompareSymbols[] = {"<", "<=", "==", "!=", ">", ">="};
constexpr const char* kCompareMethods[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

Owned<> method_of(PyTypeObject* type, const std::string& name) noexcept {
  const auto text = Owned<>::steal(PyUnicode_FromString(name.c_str()));
  if (!text) return {};
  return Owned<>::share(_PyType_Lookup(type, text.get()));
}

// type(self).method(self, other); NotImplemented without such a method.
PyObject* call_method(PyObject* self, const std::string& name, PyObject* other) noexcept {
  const auto method = method_of(Py_TYPE(self), name);
  if (!method) return Py_NewRef(Py_NotImplemented);
  PyObject* arguments[] = {self, other};
  return PyObject_Vectorcall(method.get(), arguments, 2, nullptr);
}

}  // namespace

NumberOperator number_operator(int argument) noexcept { return kOperators[argument].call; }
const char* number_symbol(int argument) noexcept { return kOperators[argument].symbol; }
const char* compare_symbol(int op) noexcept { return kCompareSymbols[op]; }

namespace {

PyObject* compare_after(PyObject* left, PyObject* right, int op, int tried) noexcept {
  PyTypeObject *lt = Py_TYPE(left), *rt = Py_TYPE(right);
  const bool right_first = lt != rt && PyType_IsSubtype(rt, lt) != 0;
  if (tried < 2) {
    PyObject* result = right_first ? call_method(left, kCompareMethods[op], right)
                                   : call_method(right, kCompareMethods[kSwapped[op]], left);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  if (op == Py_EQ || op == Py_NE) return Py_NewRef((left == right) == (op == Py_EQ) ? Py_True : Py_False);
  return PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'",
                      kCompareSymbols[op], lt->tp_name, rt->tp_name);
}

}  // namespace

PyObject* number_operator_after(PyObject* left, PyObject* right, int op, int tried) noexcept {
  if (op >= kCompareBase) return compare_after(left, right, op - kCompareBase, tried);
  if (tried == 0) return kOperators[op - kInPlace].call(left, right);
  PyTypeObject *lt = Py_TYPE(left), *rt = Py_TYPE(right);
  const std::string name = kOperators[op].method;
  const std::string forward = "__" + name + "__", backward = "__r" + name + "__";
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
                      kOperators[op].symbol, lt->tp_name, rt->tp_name);
}

}  // namespace pellucid::py
