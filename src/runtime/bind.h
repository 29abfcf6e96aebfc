// The arguments of a vectorcall, bound to the parameters of a Python function as CPython binds them.
#pragma once
#include <Python.h>

#include <cstddef>
#include <memory>

#include "py/ref.h"

namespace pellucid::runtime {

// One slot per parameter in co_varnames order: positional, keyword-only, then the tuple of `*args` and the dict of
// `**kwargs`. Slots borrow from the caller's vector and the function's defaults until own() is called.
class BoundArguments {
 public:
  BoundArguments() noexcept {}  // inline_ stays uninitialised
  ~BoundArguments();
  BoundArguments(const BoundArguments&) = delete;
  BoundArguments& operator=(const BoundArguments&) = delete;

  // False when the call does not fit the signature: the function itself then raises Python's own TypeError. Throws only
  // PythonError for want of memory.
  bool bind(PyFunctionObject* function, PyObject* const* args, std::size_t nargs, PyObject* kwnames);

  // Slots that are bound already.
  void adopt(PyObject* const* slots, std::size_t count) noexcept {
    slots_ = slots;
    size_ = count;
  }

  PyObject* const* slots() const noexcept { return slots_; }
  const PyObject* code() const noexcept { return code_; }  // what bind() has bound for: to be compared only
  std::size_t size() const noexcept { return size_; }

  // Takes a reference to every slot, for callers that run Python code before they use them.
  void own();
  // Gives up what is held: the caller's references are all that keeps the arguments alive.
  void drop() noexcept;

 private:
  bool bind_fully(PyFunctionObject* function, PyObject* const* args, std::size_t nargs, PyObject* kwnames);
  bool bind_keywords(PyCodeObject* code, PyObject* const* values, PyObject* kwnames);
  bool fill_defaults(PyFunctionObject* function, PyCodeObject* code, std::size_t given);

  static constexpr std::size_t kInline = 16;
  PyObject* const* slots_ = nullptr;
  const PyObject* code_ = nullptr;
  std::size_t size_ = 0;
  PyObject** own_slots_ = nullptr;  // the writable storage behind slots_, null when slots_ is the caller's vector
  bool owned_ = false;
  std::unique_ptr<PyObject*[]> heap_;
  py::Owned<> varargs_, varkeywords_;
  PyObject* inline_[kInline];
};

// How many slots the code has.
inline std::size_t slot_count(const PyCodeObject* code) noexcept {
  return static_cast<std::size_t>(code->co_argcount) + static_cast<std::size_t>(code->co_kwonlyargcount) +
         ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

}  // namespace pellucid::runtime
