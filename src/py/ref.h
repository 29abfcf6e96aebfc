// Owned and borrowed references, and the two conversions between CPython's error
// convention (NULL / -1 and a pending error) and C++ exceptions. Parameters are
// Borrowed<> (or a raw pointer on hot paths), results are Owned<>.
#pragma once
#include <Python.h>

#include <exception>
#include <string>
#include <utility>

namespace pellucid::py {

template <class T = PyObject>
class [[nodiscard]] Owned {  // exactly one strong reference; move-only
 public:
  constexpr Owned() noexcept = default;
  static Owned steal(T* fresh) noexcept { return Owned(fresh); }
  static Owned share(T* held) noexcept {
    Py_XINCREF(reinterpret_cast<PyObject*>(held));
    return Owned(held);
  }

  Owned(Owned&& from) noexcept : ptr_(std::exchange(from.ptr_, nullptr)) {}
  Owned& operator=(Owned from) noexcept {  // the old value dies last: a finaliser sees a consistent object
    std::swap(ptr_, from.ptr_);
    return *this;
  }
  ~Owned() { Py_XDECREF(reinterpret_cast<PyObject*>(ptr_)); }

  T* get() const noexcept { return ptr_; }
  T* operator->() const noexcept { return ptr_; }
  PyObject* object() const noexcept { return reinterpret_cast<PyObject*>(ptr_); }
  Owned copy() const noexcept { return share(ptr_); }
  [[nodiscard]] T* release() noexcept { return std::exchange(ptr_, nullptr); }
  explicit operator bool() const noexcept { return ptr_ != nullptr; }

 private:
  explicit constexpr Owned(T* ptr) noexcept : ptr_(ptr) {}
  T* ptr_ = nullptr;
};

// A real exception of CPython, on its way through C++ frames. It holds the fetched
// error, so that no error is pending while C++ code runs.
class PythonError : public std::exception {
 public:
  PythonError();  // fetches the pending error
  PythonError(const PythonError& other);
  PythonError& operator=(const PythonError&) = delete;
  ~PythonError() override;
  const char* what() const noexcept override { return "a Python exception"; }
  PyObject* value() const noexcept { return value_.get(); }  // the normalised instance, borrowed
  void restore() noexcept;                                   // makes it pending again

 private:
  Owned<> value_;
};

[[noreturn]] void throw_pending();

template <class T>
Owned<T> take(T* fresh) {
  if (fresh == nullptr) throw_pending();
  return Owned<T>::steal(fresh);
}
inline void check(int status) {
  if (status < 0) throw_pending();
}

// C++ exception in flight -> pending Python error. Only inside a catch block.
void translate_current_exception() noexcept;

// Every C slot and PyCFunction starts here.
template <class F>
PyObject* enter(F&& body) noexcept {
  try {
    return body().release();
  } catch (...) {
    translate_current_exception();
    return nullptr;
  }
}

Owned<> str(const char* text);
Owned<> str(const std::string& text);
Owned<> interned(const char* text);
Owned<> newly_interned(PyObject* name);
// As the names in code are; a subclass of str stays as it is.
inline Owned<> interned(PyObject* name) {
  return PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name) ? Owned<>::share(name) : newly_interned(name);
}
std::string text_of(PyObject* unicode);  // "" when not a str
std::string repr_of(PyObject* object);   // never raises; "<unprintable T>" when repr does
// A module, borrowed and held for good: what the program makes of sys.modules and builtins.__import__ is its own
// matter.
PyObject* module_named(const char* name);
PyObject* module_if_any(const char* name) noexcept;         // null: cannot be imported
Owned<> import_attr(const char* module, const char* name);  // import_attr("math", "sqrt")

}  // namespace pellucid::py
