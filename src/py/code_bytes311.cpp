#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "py/code_bytes.h"
#include "py/ref.h"

namespace pellucid::py {
namespace {

constexpr int kDeepest = 200;

void add(std::string& bytes, PyObject* constant, int depth);

void add_number(std::string& bytes, std::uint64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Each part says how long it is: two different codes have different bytes.
void add_text(std::string& bytes, std::string_view text) {
  add_number(bytes, text.size());
  bytes.append(text);
}

void add_string(std::string& bytes, PyObject* text) {
  const int kind = PyUnicode_KIND(text);
  bytes.push_back(static_cast<char>(kind));
  const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text)) * static_cast<std::size_t>(kind);
  add_text(bytes, {static_cast<const char*>(PyUnicode_DATA(text)), size});
}

void add_bytes(std::string& bytes, PyObject* object) {
  add_text(bytes, {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))});
}

void add_tuple(std::string& bytes, PyObject* tuple, int depth) {
  add_number(bytes, static_cast<std::uint64_t>(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) add(bytes, PyTuple_GET_ITEM(tuple, i), depth);
}

// The order of a set is that of hashes, which every process has its own of.
void add_set(std::string& bytes, PyObject* set, int depth) {
  std::vector<std::string> items;
  Py_ssize_t at = 0;
  PyObject* item = nullptr;
  for (Py_hash_t hash = 0; _PySet_NextEntry(set, &at, &item, &hash) != 0;) add(items.emplace_back(), item, depth);
  std::ranges::sort(items);
  add_number(bytes, items.size());
  for (const std::string& text : items) add_text(bytes, text);
}

void add_float(std::string& bytes, double value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // zeros with a sign, and what kind of NaN
}

void add_int(std::string& bytes, PyObject* number) {
  int overflows = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflows);
  bytes.push_back(overflows == 0 ? 's' : 'l');
  if (overflows == 0) return add_number(bytes, static_cast<std::uint64_t>(value));
  add_string(bytes, take(_PyLong_Format(number, 16)).get());
}

void add_unknown(std::string& bytes, PyObject* constant) {
  static const std::uint64_t process = std::uint64_t{std::random_device{}()} << 32U | std::random_device{}();
  bytes.push_back('?');
  add_number(bytes, process);
  add_number(bytes, reinterpret_cast<std::uintptr_t>(constant));
}

void add_code(std::string& bytes, PyCodeObject* code, int depth) {
  for (const int number : {code->co_flags, code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount,
                           code->co_stacksize, code->co_firstlineno})
    add_number(bytes, static_cast<std::uint64_t>(number));
  // Without what the interpreter has specialized since.
  add_bytes(bytes, take(PyCode_GetCode(code)).get());
  add_tuple(bytes, code->co_consts, depth);
  add_tuple(bytes, code->co_names, depth);
  add_tuple(bytes, code->co_localsplusnames, depth);
  for (PyObject* part : {code->co_localspluskinds, code->co_linetable, code->co_exceptiontable}) add_bytes(bytes, part);
  for (PyObject* text : {code->co_filename, code->co_name, code->co_qualname}) add(bytes, text, depth);
}

void add(std::string& bytes, PyObject* constant, int depth) {
  const PyTypeObject* const type = Py_TYPE(constant);
  const auto tag = [&bytes](char letter) { bytes.push_back(letter); };
  if (depth > kDeepest) return add_unknown(bytes, constant);
  if (constant == Py_None) return tag('N');
  if (constant == Py_True) return tag('T');
  if (constant == Py_False) return tag('F');
  if (constant == Py_Ellipsis) return tag('.');
  if (type == &PyLong_Type) return tag('i'), add_int(bytes, constant);
  if (type == &PyFloat_Type) return tag('f'), add_float(bytes, PyFloat_AS_DOUBLE(constant));
  if (type == &PyComplex_Type) {
    const Py_complex value = PyComplex_AsCComplex(constant);
    return tag('c'), add_float(bytes, value.real), add_float(bytes, value.imag);
  }
  if (type == &PyUnicode_Type) return tag('u'), add_string(bytes, constant);
  if (type == &PyBytes_Type) return tag('b'), add_bytes(bytes, constant);
  if (type == &PyTuple_Type) return tag('('), add_tuple(bytes, constant, depth + 1);
  if (type == &PyFrozenSet_Type) return tag('{'), add_set(bytes, constant, depth + 1);
  if (type == &PyCode_Type) return tag('@'), add_code(bytes, reinterpret_cast<PyCodeObject*>(constant), depth + 1);
  add_unknown(bytes, constant);
}

}  // namespace

void add_code_bytes(std::string& bytes, PyObject* code) { add(bytes, code, 0); }

}  // namespace pellucid::py
