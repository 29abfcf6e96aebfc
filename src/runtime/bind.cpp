#include "runtime/bind.h"

#include <algorithm>
#include <utility>

#include "py/cpython.h"

namespace pellucid::runtime {
namespace {

PyCodeObject* code_of(PyFunctionObject* function) noexcept {
  return reinterpret_cast<PyCodeObject*>(function->func_code);
}

// The parameter called `name` among [first, last), or -1. Names are interned, so the pointer pass nearly always
// decides.
Py_ssize_t find_parameter(PyCodeObject* code, PyObject* name, Py_ssize_t first, Py_ssize_t last) noexcept {
  const auto name_at = [&](Py_ssize_t slot) { return py::slot_name(code, static_cast<int>(slot)); };
  for (Py_ssize_t i = first; i < last; ++i) {
    if (name_at(i) == name) return i;
  }
  for (Py_ssize_t i = first; i < last; ++i) {
    if (PyUnicode_Compare(name_at(i), name) == 0) return i;
  }
  return -1;
}

}  // namespace

BoundArguments::~BoundArguments() { drop(); }

void BoundArguments::drop() noexcept {
  const std::size_t count = std::exchange(size_, 0);
  if (std::exchange(owned_, false)) {
    for (std::size_t i = 0; i < count; ++i) const auto dropped = py::Owned<>::steal(own_slots_[i]);
  }
  const py::Owned<> varargs = std::move(varargs_), varkeywords = std::move(varkeywords_);
}

bool BoundArguments::bind(PyFunctionObject* function, PyObject* const* args, std::size_t nargs, PyObject* kwnames) {
  PyCodeObject* code = code_of(function);
  code_ = function->func_code;
  const bool plain = (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0 && code->co_kwonlyargcount == 0;
  if (plain && kwnames == nullptr && nargs == static_cast<std::size_t>(code->co_argcount)) {
    slots_ = args;
    size_ = nargs;
    return true;
  }
  return bind_fully(function, args, nargs, kwnames);
}

bool BoundArguments::bind_fully(PyFunctionObject* function, PyObject* const* args, std::size_t nargs,
                                PyObject* kwnames) {
  const auto held = py::Owned<PyCodeObject>::share(code_of(function));  // finalisers may replace it, see call_compiled
  PyCodeObject* code = held.get();
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  if (nargs > positional && (code->co_flags & CO_VARARGS) == 0) return false;
  size_ = slot_count(code);
  if (size_ > kInline) heap_.reset(new PyObject*[size_]);
  own_slots_ = heap_ ? heap_.get() : inline_;
  slots_ = own_slots_;
  const std::size_t given = std::min(nargs, positional);
  std::copy_n(args, given, own_slots_);
  std::fill(own_slots_ + given, own_slots_ + size_, nullptr);

  std::size_t next = positional + static_cast<std::size_t>(code->co_kwonlyargcount);
  if ((code->co_flags & CO_VARARGS) != 0) {
    const std::size_t extra = nargs - given;
    varargs_ = py::take(PyTuple_New(static_cast<Py_ssize_t>(extra)));
    for (std::size_t i = 0; i < extra; ++i)
      PyTuple_SET_ITEM(varargs_.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[given + i]));
    own_slots_[next++] = varargs_.get();
  }
  if ((code->co_flags & CO_VARKEYWORDS) != 0) {
    varkeywords_ = py::take(PyDict_New());
    own_slots_[next++] = varkeywords_.get();
  }
  if (kwnames != nullptr && !bind_keywords(code, args + nargs, kwnames)) return false;
  return fill_defaults(function, code, given);
}

bool BoundArguments::bind_keywords(PyCodeObject* code, PyObject* const* values, PyObject* kwnames) {
  const Py_ssize_t last = code->co_argcount + code->co_kwonlyargcount;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (!PyUnicode_CheckExact(name)) return false;
    const Py_ssize_t slot = find_parameter(code, name, code->co_posonlyargcount, last);
    if (slot >= 0) {
      if (own_slots_[slot] != nullptr) return false;  // multiple values for one parameter
      own_slots_[slot] = values[i];
    } else if (varkeywords_) {
      py::check(PyDict_SetItem(varkeywords_.get(), name, values[i]));
    } else {
      return false;
    }
  }
  return true;
}

bool BoundArguments::fill_defaults(PyFunctionObject* function, PyCodeObject* code, std::size_t given) {
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  PyObject* defaults = function->func_defaults;
  const std::size_t count = defaults == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(defaults));
  for (std::size_t i = given; i < positional; ++i) {
    if (own_slots_[i] != nullptr) continue;
    if (i + count < positional) return false;
    own_slots_[i] = PyTuple_GET_ITEM(defaults, static_cast<Py_ssize_t>(i + count - positional));
  }
  for (std::size_t i = positional; i < positional + static_cast<std::size_t>(code->co_kwonlyargcount); ++i) {
    if (own_slots_[i] != nullptr) continue;
    if (function->func_kwdefaults == nullptr) return false;
    PyObject* name = py::slot_name(code, static_cast<int>(i));
    own_slots_[i] = PyDict_GetItemWithError(function->func_kwdefaults, name);
    if (own_slots_[i] == nullptr) {
      if (PyErr_Occurred() != nullptr) py::throw_pending();
      return false;
    }
  }
  return true;
}

void BoundArguments::own() {
  if (owned_) return;
  if (own_slots_ == nullptr) {
    if (size_ > kInline) heap_.reset(new PyObject*[size_]);
    own_slots_ = heap_ ? heap_.get() : inline_;
    std::copy_n(slots_, size_, own_slots_);
    slots_ = own_slots_;
  }
  for (std::size_t i = 0; i < size_; ++i) Py_INCREF(own_slots_[i]);
  owned_ = true;
}

}  // namespace pellucid::runtime
