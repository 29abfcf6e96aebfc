#include "py/ref.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <unordered_map>

#include "py/interrupts.h"

namespace pellucid::py {

PythonError::PythonError() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr && value != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  value_ = Owned<>::steal(value);
}
PythonError::PythonError(const PythonError& other) : std::exception(other), value_(other.value_.copy()) {}
PythonError::~PythonError() = default;

void PythonError::restore() noexcept {
  PyObject* value = value_.get();
  if (value == nullptr) {
    PyErr_SetString(PyExc_SystemError, "pellucid: an empty Python error");
    return;
  }
  PyErr_Restore(Py_NewRef(Py_TYPE(value)), Py_NewRef(value), PyException_GetTraceback(value));
}

void throw_pending() {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_SystemError, "pellucid: error without an exception set");
  throw PythonError();
}

void translate_current_exception() noexcept {
  try {
    throw;
  } catch (PythonError& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_RuntimeError, "pellucid internal error: %s", error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "pellucid internal error: unknown C++ exception");
  }
}

Owned<> str(const char* text) { return take(PyUnicode_FromString(text)); }
Owned<> str(const std::string& text) {
  return take(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}
Owned<> interned(const char* text) { return take(PyUnicode_InternFromString(text)); }
Owned<> newly_interned(PyObject* name) {
  PyObject* text = Py_NewRef(name);
  PyUnicode_InternInPlace(&text);
  return Owned<>::steal(text);
}

std::string text_of(PyObject* unicode) {
  if (unicode == nullptr || !PyUnicode_Check(unicode)) return {};
  const auto length = static_cast<std::size_t>(PyUnicode_GET_LENGTH(unicode));
  if (PyUnicode_IS_COMPACT_ASCII(unicode)) return {static_cast<const char*>(PyUnicode_DATA(unicode)), length};
  auto bytes = Owned<>::steal(PyUnicode_AsEncodedString(unicode, "utf-8", "backslashreplace"));
  if (!bytes) {
    PyErr_Clear();
    return {};
  }
  return {PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

namespace {

// A str whose repr is its text between quotes, as nearly all names and keys are.
bool is_quoted_as_it_is(PyObject* object) noexcept {
  if (!PyUnicode_CheckExact(object) || !PyUnicode_IS_COMPACT_ASCII(object)) return false;
  const auto* const text = static_cast<const unsigned char*>(PyUnicode_DATA(object));
  return std::all_of(text, text + PyUnicode_GET_LENGTH(object),
                     [](unsigned char c) { return c >= ' ' && c < 0x7F && c != '\'' && c != '\\'; });
}

}  // namespace

std::string repr_of(PyObject* object) {
  if (is_quoted_as_it_is(object)) return std::string("'").append(text_of(object)).append("'");
  const InterruptsWait wait;
  auto text = Owned<>::steal(PyObject_Repr(object));
  if (text) return text_of(text.get());
  PyErr_Clear();
  return std::string("<unprintable ") + Py_TYPE(object)->tp_name + ">";
}

PyObject* module_named(const char* name) {
  static auto* const known = new std::unordered_map<std::string, PyObject*>;
  if (const auto found = known->find(name); found != known->end()) return found->second;
  const auto package = take(PyImport_ImportModuleLevel(name, nullptr, nullptr, nullptr, 0));
  auto module = take(PyImport_GetModule(str(name).get()));
  return known->emplace(name, module.release()).first->second;  // another thread may have been first
}

PyObject* module_if_any(const char* name) noexcept {
  const InterruptsWait wait;
  try {
    return module_named(name);
  } catch (const std::exception&) {
    return nullptr;
  }
}

Owned<> import_attr(const char* module, const char* name) {
  return take(PyObject_GetAttrString(module_named(module), name));
}

}  // namespace pellucid::py
